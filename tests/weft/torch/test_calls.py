"""Calls that native code takes, and those that Python does: both give what eager mode gives."""

import gc
import resource

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import weft.torch  # noqa: E402
from weft.compiler.frontend.torch.table import ATEN  # noqa: E402
from weft.torch.backend import Settings, compile_graph  # noqa: E402


def compiled(function, *examples, threads=1):
    """A function as a compiled graph, and the list of calls that came to Python."""
    settings = Settings(threads, "error", ATEN)
    made = compile_graph(make_fx(function, tracing_mode="fake")(*examples), settings)
    slow, values = [], made._values

    def noted(arguments):
        slow.append(arguments)
        return values(arguments)

    made._values = made._run = noted
    made._bind(made._executable())
    return made, slow


def check(function, *arguments, examples=None, python=False):
    made, slow = compiled(function, *(examples or arguments))
    given = list(arguments)
    found = made(given)
    wanted = function(*arguments)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.detach())
        assert python or one.stride() == other.stride()
    assert bool(slow) == python
    return found


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
    ],
)
def test_element_types(dtype):
    x = torch.randint(0, 2, (3, 5)).to(dtype)
    check(lambda a: [a.logical_not(), a.clone(), a.t().clone()], x)


def test_memory_in_any_order_of_axes():
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    check(lambda a: [a + 1, a.permute(3, 0, 2, 1) * 2], images)
    check(lambda a: [a + 1], torch.randn(4, 3).t())


def test_parameters_and_scalars():
    check(lambda a, b: [a * b, b + 1], nn.Parameter(torch.randn(3)), torch.tensor(2.0))


def test_no_elements():
    check(lambda a: [a + 1, torch.cat([a, a], 1)], torch.randn(0, 3))


def test_one_result_twice_is_one_tensor_and_arguments_are_themselves():
    made, slow = compiled(lambda a, b: (lambda y: [y, b, y])(a * 2), torch.ones(3), torch.ones(2))
    b = torch.ones(2)
    first, second, third = made([torch.ones(3), b])
    assert first is third
    assert second is b
    assert not slow


def test_the_list_of_arguments_is_emptied():
    made, _ = compiled(lambda a: [a + 1], torch.ones(3))
    given = [torch.ones(3)]
    made(given)
    assert given == []


def test_views_of_results_share_their_memory():
    made, slow = compiled(lambda a: (lambda y: [y, y.t()[1:]])(a * 2), torch.ones(3, 4))
    whole, part = made([torch.ones(3, 4)])
    whole.zero_()
    torch.testing.assert_close(part, torch.zeros(3, 3))
    assert not slow


class Labelled(torch.Tensor):
    """A subclass without rules of its own."""


@pytest.mark.parametrize(
    "odd",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: x.repeat(1, 2)[:, ::2],
        lambda x: torch._neg_view(-x),
        lambda x: torch.frombuffer(
            bytearray(b"?" + x.numpy().tobytes()), dtype=torch.float32, offset=1
        ).view(3, 4),
        lambda x: x[:1].expand(3, 4),
        lambda x: x.as_subclass(Labelled),
        lambda x: nn.Parameter(x[:, :1]).expand(3, 4),
    ],
    ids=["order", "strided", "negative", "misaligned", "repeated", "subclass", "graph"],
)
def test_tensors_that_are_not_as_they_were_compiled_for_go_through_python(odd):
    example = torch.randn(3, 4)
    check(lambda a: [a * 2 + 1], odd(example), examples=(example,), python=True)


def test_wrong_sizes_and_types_are_refused():
    made, _ = compiled(lambda a: [a + 1], torch.ones(3))
    for wrong in (torch.ones(4), torch.ones(3, dtype=torch.float64), torch.ones(3, 1)):
        with pytest.raises(weft.InputError, match="requires float32"):
            made([wrong])


def test_writes_take_the_memory_of_their_inputs():
    def function(a):
        twice = a * 2
        a.copy_(twice)
        return [twice.sum()]

    made, slow = compiled(function, torch.ones(3))
    x = torch.ones(3)
    (total,) = made([x])
    assert (x.tolist(), float(total), slow) == ([2, 2, 2], 6, [])
    strided = torch.ones(6)[::2]
    made([strided])
    assert strided.tolist() == [2, 2, 2]
    assert len(slow) == 1


def test_sizes_as_symbols():
    def function(a, b):
        return a.reshape(-1) + b.sum(), a.shape[0] * 3, a.shape[1]

    compiled = torch.compile(function, backend="weft", dynamic=True, options={"fallback": "error"})
    for rows in (2, 3, 7):
        a, b = torch.randn(rows, rows + 1), torch.randn(4, rows)
        torch.testing.assert_close(compiled(a, b), function(a, b))


def test_another_number_of_threads_is_seen():
    before = torch.get_num_threads()
    made, slow = compiled(lambda a: [a + 1], torch.ones(3), threads=None)
    made([torch.ones(3)])
    try:
        torch.set_num_threads(before + 1)
        made([torch.ones(3)])
        assert len(slow) == 1
        made([torch.ones(3)])
        assert (len(slow), sorted(made._executables)) == (1, [before, before + 1])
    finally:
        torch.set_num_threads(before)
    made([torch.ones(3)])
    native = made.__call__
    made([torch.ones(3)])
    assert len(slow) == 2
    made([torch.ones(6)[::2]])
    assert made.__call__ is native


def test_what_fails_gives_its_memory_back():
    made, _ = compiled(
        lambda a, i: [a.index_select(0, i).repeat(64, 1), a.repeat(64, 1)],
        torch.ones(64, 64), torch.zeros(64, dtype=torch.int64),
    )  # fmt: skip
    wrong = torch.full((64,), 99)
    peaks = []
    for _ in range(3):
        for _ in range(60):
            with pytest.raises(weft.InputError, match="index"):
                made([torch.ones(64, 64), wrong])
            made([torch.ones(64, 64), torch.zeros_like(wrong)])
        gc.collect()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[2] - peaks[0] < 20_000, "kilobytes, of some 240 MB that were made"
