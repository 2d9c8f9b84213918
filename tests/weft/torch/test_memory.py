"""Memory that results share, writes into inputs, strides, and every way to change a weight."""

import copy
import gc

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import weft.torch  # noqa: E402
from weft.compiler.frontend.torch.table import ATEN  # noqa: E402
from weft.compiler.machine.python.executable import Executable  # noqa: E402
from weft.dialects.errors import ModelWarning  # noqa: E402
from weft.torch.backend import Settings, compile_graph  # noqa: E402

STRICT = {"fallback": "error"}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(function, dynamic=None, **options):
    given = {**STRICT, **options}
    return torch.compile(function, backend="weft", dynamic=dynamic, options=given)


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


def test_results_that_share_memory_do():
    def parts(x):
        y = x + 1
        return y, y.view(-1), y.T, y[1:, 2], y.expand(2, 3, 4)

    found = compiled(parts)(x := torch.randn(3, 4))
    assert_same(found, parts(x))
    found[0].zero_()
    assert not any(each.any() for each in found)


def test_parts_of_a_value_that_is_no_result_share_memory():
    def parts(x):
        y = x.exp()
        return y[:3], y[1:]

    first, second = compiled(parts)(x := torch.randn(4))
    assert_same((first, second), parts(x))
    assert first[1:].data_ptr() == second.data_ptr()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.T * 2, x.T.softmax(-1), x[:0] + 1, torch.cat([x.T] * 2)),
        lambda x: (x.view(3, 1, 4, 1).to(torch.float64), x[:, :1].T * 2),
        lambda x: (
            x[None].transpose(0, 1).contiguous(),
            x.view(1, 3, 4, 1).permute(0, 3, 1, 2) + 1,
        ),
        lambda x: (x[:, :1] + 1, (x[:, :1] + 1).expand(3, 5), (x.T + 1).unfold(0, 2, 1)),
    ],
)
def test_strides_are_eagers(function):
    x = torch.randn(3, 4)
    assert_same(compiled(function)(x), function(x))


def _shift(x, v, at):
    x[1:].copy_(x[:-1].clone())
    return x.sum()


def _cache(x, v, at):
    x.index_copy_(1, at, v)
    return x.mean()


def _returned(x, v, at):
    x.mul_(v[:, :1])
    return x, x.T


def _apart(x, v, at):
    y = x * 2
    x.mul_(2)  # one value for torch, and y is none of x's memory
    return y


def _swapped(x, v, at):
    rows = v.clone()
    v.copy_(x[:, at])
    x[:, at] = rows
    return v * 1


def _plain(x):
    return x


def _moved(x):
    return x.T.contiguous().T


def _sparse(x):
    return torch.cat([x, x], 1)[:, ::2]


def _negative(x):
    return torch.complex(x, x).conj().imag  # stored as its negative


WRITERS = (_shift, _cache, _returned, _apart, _swapped)
CASES = [
    *((function, _plain) for function in WRITERS),
    *((_swapped, view) for view in (_moved, _sparse, _negative)),
]


@pytest.mark.parametrize(("function", "view"), CASES)
def test_inputs_are_written(function, view):
    x, v, at = torch.randn(4, 6), torch.randn(4, 2), torch.tensor([3, 0])
    given, twins = ([view(x.clone()), v.clone(), at] for _ in range(2))
    found, wanted = compiled(function)(*given), function(*twins)
    assert_same(given, twins)
    for one, other in zip([found, *given], [wanted, *twins], strict=True):
        torch.testing.assert_close(one, other)
    if function is _apart:
        given[0].zero_()
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_written_is_not_copied(dtype):
    cache = torch.zeros(1, 2, 64, 8, dtype=dtype)
    step = compiled(_step, dynamic=True)
    for at in (3, 7):
        row = torch.full((1, 2, 1, 8), at).to(dtype)
        step(cache, torch.tensor([at]), row)
    with torch.profiler.profile() as profile:
        step(cache, torch.tensor([9]), row)
    assert "aten::copy_" not in {event.name for event in profile.events()}
    assert cache.sum() == 16 * (3 + 7 + 7)


def _step(cache, at, row):
    return cache.index_copy_(2, at, row)


def test_a_write_is_seen_by_autograd():
    weight, x = torch.ones(3, requires_grad=True), torch.ones(3)
    loss = (weight * x).sum()
    compiled(lambda x: x.mul_(2))(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writes_in_the_middle_of_a_graph_stay_in_torch():
    graph = make_fx(lambda x: x.add_(1) * x.mul_(2))(torch.ones(3))
    with pytest.warns(ModelWarning, match=r"aten\.add_.*aten\.mul_.*writes into inputs alone"):
        function = compile_graph(graph, Settings(1, "partition", ATEN))
    torch.testing.assert_close(function([torch.ones(3)]), torch.full((3,), 16.0))


def _add(weight, other):
    weight.data.add_(1)


def _through_numpy(weight, other):
    weight.detach().numpy()[:] = 2


def _in_inference_mode(weight, other):
    with torch.inference_mode():
        weight.copy_(other)


def _other_data(weight, other):
    weight.data = other.clone()


def _other_layout(weight, other):
    weight.data = other.T.contiguous().T


def _other_storage(weight, other):
    weight.data.set_(other.clone())


def _swap(weight, other):
    torch.utils.swap_tensors(weight, nn.Parameter(other.clone()))


WAYS = (
    _add, _through_numpy, _in_inference_mode, _other_data, _other_layout, _other_storage, _swap,
)  # fmt: skip


@pytest.mark.parametrize("freeze", [False, True])
def test_every_way_to_change_a_weight_is_seen(freeze):
    model, x = nn.Linear(3, 3).eval(), torch.randn(2, 3)
    fast = compiled(model, freeze=freeze)
    with torch.no_grad():
        fast(x)
        for way in WAYS:
            way(model.weight, torch.randn(3, 3))
            if freeze:
                assert weft.torch.refresh(model) >= 1
            torch.testing.assert_close(fast(x), model(x), msg=way.__name__)


def test_frozen_copies_go_by_the_parameters_of_a_call():
    model, x = nn.Linear(3, 3).eval(), torch.randn(2, 3)
    fast = compiled(model, freeze=True)
    with torch.no_grad():
        fast(x)
        twin = copy.deepcopy(fast)
        twin.weight.mul_(2)
        torch.testing.assert_close(twin(x), twin._orig_mod(x))
        torch.testing.assert_close(fast(x), model(x))
        model.weight = nn.Parameter(torch.randn(3, 3))
        torch.testing.assert_close(fast(x), model(x))
        model.load_state_dict(nn.Linear(3, 3).state_dict(), assign=True)
        torch.testing.assert_close(fast(x), model(x))


def test_frozen_copies_go_by_parameters_where_no_guard_looks_at_modules():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval(), torch.randn(2, 3)
    unguarded = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    fast = compiled(model, freeze=True, guard_filter_fn=unguarded)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model[0].weight = nn.Parameter(torch.randn(3, 3))
        torch.testing.assert_close(fast(x), model(x))
        model.load_state_dict(nn.Sequential(nn.Linear(3, 3)).state_dict(), assign=True)
        torch.testing.assert_close(fast(x), model(x))


def test_constants_of_earlier_weights_are_given_back():
    model, x = nn.Linear(3, 3).eval(), torch.randn(2, 3)
    fast = compiled(model, freeze=True)
    with torch.no_grad():
        fast(x)
        gc.collect()
        before = executables()
        for _ in range(3):
            weft.torch.refresh(model)
    assert executables() == before


def executables() -> int:
    """How many there are, with those that wait for Python's search for cycles."""
    return sum(isinstance(each, Executable) for each in gc.get_objects())


def test_addresses_that_are_used_again_are_new_weights():
    fast = compiled(nn.functional.linear)
    x = torch.randn(2, 3)
    for _ in range(4):
        weight = torch.randn(3, 3)
        torch.testing.assert_close(fast(x, weight), nn.functional.linear(x, weight))
        del weight


def test_tensors_of_other_devices_stay_in_torch():
    with pytest.warns(ModelWarning, match="requires memory of the CPU, got one of meta"):
        found = torch.compile(lambda x: x * 2, backend="weft")(torch.ones(3, device="meta"))
    assert found.device.type == "meta"
