"""What programs do around a compiled model: hooks, copies, threads, modes, other tensors."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch import nn  # noqa: E402

import weft.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def compiled(function, **named):
    return torch.compile(function, backend="weft", options={"fallback": "error"}, **named)


def test_hooks_run(model):
    seen = []
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    model.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    x = torch.randn(3, 4, requires_grad=True)
    wanted = model(x)
    found = compiled(model)(x)
    torch.testing.assert_close(found, wanted)
    found.register_hook(lambda slope: seen.append(slope.shape))
    found.sum().backward()
    assert seen == [found.shape]


def test_gradients_are_kept_only_where_they_are_asked_for(model):
    fast, x = compiled(model), torch.randn(3, 4)
    with torch.no_grad():
        assert not fast(x).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), model(x))
    assert fast(x).requires_grad


def test_copies_have_weights_of_their_own(model):
    x, fast = torch.randn(3, 4), compiled(model)
    fast(x)
    twin = copy.deepcopy(fast)
    with torch.no_grad():
        model[0].weight.zero_()
        torch.testing.assert_close(fast(x), model(x))
        assert not torch.equal(twin(x), fast(x))


def test_a_state_that_is_swapped_is_seen(model):
    x, fast = torch.randn(3, 4), compiled(model)
    other = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with torch.no_grad():
        fast(x)
        model.load_state_dict(other.state_dict(), assign=True)
        torch.testing.assert_close(fast(x), other(x))
        model[0].weight = nn.Parameter(torch.ones(4, 4))
        torch.testing.assert_close(fast(x), model(x))


def test_threads_call_at_the_same_time(model):
    fast = compiled(model)
    inputs = [torch.randn(3, 4) for _ in range(8)]
    fast(inputs[0])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fast, inputs))
    for x, y in zip(inputs, found, strict=True):
        torch.testing.assert_close(y, model(x))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_are_taken(model, mode):
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(model, backend="weft", mode=mode)(x), model(x))


def test_a_whole_graph_can_be_asked_for(model):
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(model, fullgraph=True)(x), model(x))

    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(broken, fullgraph=True)(x)


def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    with pytest.raises(Exception, match="requires dense tensors, got"):
        compiled(lambda x: x * 2)(nested)


def test_views_of_one_tensor_that_are_written_change_together():
    def write(x, view):
        view.add_(1)
        return x * 2

    def call(function):
        x = torch.zeros(4)
        return function(x, x[:2]), x

    for found, wanted in zip(call(compiled(write)), call(write), strict=True):
        torch.testing.assert_close(found, wanted)


def test_threads_are_as_many_as_torch_has(model):
    fast, x, before = compiled(model), torch.randn(3, 4), torch.get_num_threads()
    try:
        for threads in (2, 1):
            torch.set_num_threads(threads)
            torch.testing.assert_close(fast(x), model(x))
    finally:
        torch.set_num_threads(before)


def test_operators_of_users_are_part_of_the_table():
    @torch.library.custom_op("weft_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    thrice.register_fake(torch.empty_like)
    own = {
        "weft_test.thrice.default": lambda b, x: x * 3.0,
        "aten.silu.default": lambda b, x: x + 100.0,
    }
    options = {"fallback": "error", "operators": own}
    fast = torch.compile(lambda x: nn.functional.silu(thrice(x)), backend="weft", options=options)
    torch.testing.assert_close(fast(torch.ones(2)), torch.full((2,), 103.0))
