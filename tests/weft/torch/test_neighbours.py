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


def test_layers_in_mixed_precision_train(model):
    x, fast = torch.randn(3, 4), compiled(model)

    def step(function):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            found = function(x)
        found.float().square().sum().backward()
        return [found.detach(), *(each.grad.clone() for each in model.parameters())]

    for one, other in zip(step(fast), step(model), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


def test_channels_last_trains():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    twin, x = copy.deepcopy(model), torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)

    def step(function, own):
        given = x.clone().requires_grad_()
        found = function(given)
        found.square().sum().backward()
        slopes = [each.grad for each in (given, *own.parameters())]
        return [found.detach(), *slopes, *own.buffers()]

    for one, other in zip(step(compiled(twin), twin), step(model, model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert one.stride() == other.stride()


def test_draws_of_all_sorts_are_in_eagers_order():
    def draw(x):
        first = torch.rand_like(x) + torch.randn(5)
        chances = torch.bernoulli(x.sigmoid()) * torch.multinomial(x.softmax(-1), 5)
        y = torch.randperm(5) + nn.functional.gumbel_softmax(x) + torch.poisson(x.abs())
        torch._dynamo.graph_break()
        z = nn.functional.dropout(y) + torch.randint(0, 9, (5,))
        return first, chances, y, z, nn.functional.rrelu(x, training=True), torch.normal(x, 1.0)

    x, fast = torch.randn(3, 5), torch.compile(draw, backend="weft")
    torch.manual_seed(1)
    wanted = draw(x)
    torch.manual_seed(1)
    for one, other in zip(fast(x), wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_a_part_that_is_computed_again_draws_the_same():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.GELU())
    x = torch.randn(3, 4)

    def step(x):
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    def slopes(function):
        model.zero_grad()
        torch.manual_seed(1)
        function(x).sum().backward()
        return [each.grad.clone() for each in model.parameters()]

    for one, other in zip(slopes(compiled(step)), slopes(step), strict=True):
        torch.testing.assert_close(one, other)


def test_an_optimiser_is_compiled(model):
    twin, x = copy.deepcopy(model), torch.randn(3, 4)
    for own, wrap in ((model, lambda step: step), (twin, compiled)):
        optimiser = torch.optim.RMSprop(own.parameters(), 0.01, momentum=0.9, foreach=True, eps=0.1)
        step = wrap(optimiser.step)
        for _ in range(3):
            optimiser.zero_grad()
            own(x).square().sum().backward()
            step()
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@torch._dynamo.config.patch(trace_autograd_ops=True)
def test_a_step_of_training_is_one_graph(model):
    twin, x = copy.deepcopy(model), torch.randn(3, 4)

    def step_of(own):
        parameters = list(own.parameters())

        def step():
            loss = own(x).square().sum()
            slopes = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for each, slope in zip(parameters, slopes, strict=True):
                    each.sub_(0.1 * slope)
            return loss.detach()

        return step

    fast, eager = compiled(step_of(twin), fullgraph=True), step_of(model)
    places = [each.data_ptr() for each in twin.parameters()]
    for _ in range(3):
        torch.testing.assert_close(fast(), eager())
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert places == [each.data_ptr() for each in twin.parameters()]


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_values_that_become_numbers():
    def function(x, n):
        return x * n.item() + x.sum().item(), x[x > 0] * 2

    fast = torch.compile(function, backend="weft", fullgraph=True)
    for n in (2, 3):
        x = torch.randn(9)
        for one, other in zip(fast(x, torch.tensor(n)), function(x, torch.tensor(n)), strict=True):
            torch.testing.assert_close(one, other)


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
