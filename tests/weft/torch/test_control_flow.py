"""`torch.cond` and `while_loop` become branches and loops of the graph."""

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

import weft.torch  # noqa: E402
from weft.dialects.errors import ModelWarning  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(function, **named):
    return torch.compile(function, backend="weft", options={"fallback": "error"}, **named)


def chosen(x, y):
    (found,) = torch.cond(
        x.sum() > 0, lambda x: (x.sin() * y,), lambda x: (x.cos() + x.shape[0],), (x,)
    )
    return found * 2


def halved(x):
    return while_loop(
        lambda i, x: (x.abs().max() > 1) & (i < 20), lambda i, x: (i + 1, x / 2),
        (torch.tensor(0), x),
    )  # fmt: skip


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_and_its_gradient(sign):
    results = []
    for function in (chosen, compiled(chosen)):
        x = (sign * torch.ones(3, 4)).requires_grad_()
        found = function(x, torch.arange(4.0))
        found.sum().backward()
        results.append((found.detach(), x.grad))
    torch.testing.assert_close(results[1], results[0])


def test_a_branch_of_sizes_that_vary():
    function = compiled(chosen, dynamic=True)
    for rows in (2, 5):
        for sign in (1.0, -1.0):
            x = sign * torch.ones(rows, 4)
            torch.testing.assert_close(function(x, torch.arange(4.0)), chosen(x, torch.arange(4.0)))


def test_a_loop_ends_by_its_values():
    function = compiled(halved)
    for scale in (0.5, 1.0, 100.0):
        x = scale * torch.ones(3)
        found, wanted = function(x), halved(x)
        torch.testing.assert_close(found, wanted)
    assert int(found[0]) == 7


def test_a_branch_in_a_loop():
    def steps(x):
        def step(i, x):
            return i + 1, torch.cond(x.sum() > 3, lambda x: x - 2, lambda x: x + 1.5, (x,))

        return while_loop(lambda i, x: i < 9, step, (torch.tensor(0), x))

    x = torch.ones(2)
    torch.testing.assert_close(compiled(steps)(x), steps(x))


def test_what_a_region_lacks_leaves_the_branch_in_torch():
    def function(x):
        y = x + 1
        return (
            torch.cond(y.sum() > 0, lambda y: torch.linalg.svdvals(y), lambda y: y[0].clone(), (y,))
            * 2
        )

    x = torch.randn(3, 3)
    with pytest.warns(ModelWarning, match=r"cond .* aten\._linalg_svd"):
        found = torch.compile(function, backend="weft")(x)
    torch.testing.assert_close(found, function(x))


def test_random_numbers_in_a_branch_stay_in_torch():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x.clone(), (x,))

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="cond"):
        compiled(function)(torch.ones(3))


def test_a_branch_beside_what_stays_in_torch():
    def function(x):
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return y @ torch.linalg.svdvals(x)

    x = torch.randn(3, 3)
    with pytest.warns(ModelWarning, match=r"1 stay in torch: aten\._linalg_svd"):
        found = torch.compile(function, backend="weft")(x)
    torch.testing.assert_close(found, function(x))


class Chosen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return chosen(x, self.scale)


class Halved(torch.nn.Module):
    def forward(self, x):
        return while_loop(
            lambda i, x: (x.abs().max() > 1) & (i < 20), lambda i, x: (i + 1, x / 2),
            (torch.zeros((), dtype=torch.int64), x),
        )  # fmt: skip


@pytest.mark.parametrize("module", [Chosen, Halved])
def test_exported_programs(module):
    module, x = module(), 5 * torch.ones(3, 4)
    sizes = {"x": {0: torch.export.Dim("rows", min=2, max=64)}}
    model = weft.compile(torch.export.export(module, (x,), dynamic_shapes=sizes))
    for given in (x, -x, 100 * torch.ones(5, 4)):
        wanted = module(given)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for found, want in zip(model(given.numpy()), wanted, strict=True):
            torch.testing.assert_close(torch.from_numpy(found), want.detach())
