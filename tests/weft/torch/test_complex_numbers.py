"""Complex numbers, which are pairs of reals in weft: operators, memory, exported programs."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

import weft  # noqa: E402
import weft.torch  # noqa: E402
from weft.dialects.graph.core.evaluate import evaluate_block  # noqa: E402
from weft.torch.call import CompiledGraph  # noqa: E402

STRICT = {"fallback": "error"}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(function, **options):
    return torch.compile(function, backend="weft", options=STRICT | options)


def drawn(*sizes):
    return torch.randn(*sizes, dtype=torch.complex64)


class Evaluated:
    """An executable without native code."""

    donated = symbols = ()

    def __init__(self, model):
        self.model, self.outputs = model, model.output_names

    def call_or(self, *_):
        return None

    def __call__(self, *arrays):
        main = self.model.module.body.block.first_op
        found = evaluate_block(main.body.block, arrays, weights=self.model.weights)
        return [np.asarray(each, order="C") for each in found]


@pytest.fixture
def check(monkeypatch):
    """Results, and gradients in inputs that require them, against eager mode."""
    monkeypatch.setattr(CompiledGraph, "_executable", lambda graph: Evaluated(graph._walked.model))

    def checked(function, *inputs):
        found, wanted = (measured(each, inputs) for each in (compiled(function), function))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)

    return checked


def measured(function, inputs):
    results = function(*inputs)
    total = sum(y.abs().sin().sum() for y in results if y.requires_grad)
    sources = [x for x in inputs if x.requires_grad]
    return [y.resolve_conj() for y in (*results, *torch.autograd.grad(total, sources))]


def test_functions(check):
    def functions(z, w, x):
        return (
            z.exp(), z.log(), z.sqrt(), z.sin(), z.cosh(), z.tanh(), z.sigmoid(), z.asinh(),
            z.rsqrt(), z.reciprocal(), z * w, z / w, z**w, z**2, z * 2.5, 1j * z - 3, z + x, x - z,
            z * x, z / x, z.abs(), z.angle(), z.sgn(), z == w, z != z, z.isnan(),
        )  # fmt: skip

    z, w = drawn(3, 4).requires_grad_(), drawn(3, 4).requires_grad_()
    check(functions, z, w, torch.randn(3, 4))


def test_products_parts_and_places(check):
    def functions(z, w, x):
        return (
            z @ w, z @ w.conj(), z.sum(0), z.mean(), z.cumsum(1), x.sum(0, dtype=z.dtype),
            torch.cat([z, w.T]), torch.stack([z, w.mH], 1), z[1:, ::2], z.T, z[[2, 0]],
            torch.where(x > 0, z, 1.0), z.masked_fill(x > 0, 2j), torch.full((2,), 1 + 2j),
            torch.ones_like(z), z.index_add(0, torch.tensor([1]), w.T[:1]), torch.complex(x, x[:1]),
            torch.polar(x, x[0]), torch.view_as_real(z), z.conj().imag, z.to(torch.complex128),
            torch.linalg.vector_norm(z), z.unbind(1)[2], x.to(torch.complex64), z.resolve_conj(),
        )  # fmt: skip

    check(functions, drawn(3, 4).requires_grad_(), drawn(4, 3).requires_grad_(), torch.randn(3, 4))


def test_fourier_transforms(check):
    def functions(z, x):
        return (
            torch.fft.fft(z), torch.fft.ifft2(z, norm="ortho"), torch.fft.rfft2(x),
            torch.fft.irfft(z, 7), torch.fft.hfft(z), torch.fft.ihfft(x),
            torch.stft(x, 4, return_complex=True, window=torch.ones(4)),
        )  # fmt: skip

    check(functions, drawn(3, 6).requires_grad_(), torch.randn(3, 6, requires_grad=True))


def test_what_weft_lacks_names_complex_numbers():
    with pytest.raises(Exception, match="aten.prod.default .* requires real numbers, got complex"):
        compiled(lambda x: x.prod())(drawn(3))
    with pytest.raises(Exception, match="aten.add.Tensor .* requires a real number, got 2j"):
        compiled(lambda x: torch.add(x, x, alpha=2j))(drawn(3))


def rotated(x, angles):
    """A rotary embedding."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    turns = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def test_a_rotary_embedding_and_its_gradient():
    angles, fast = torch.randn(5, 4), compiled(rotated)
    x, slope = torch.randn(2, 5, 3, 8, requires_grad=True), torch.randn(2, 5, 3, 8)
    results = []
    for found in (fast, rotated):
        y = found(x, angles)
        results.append((y, *torch.autograd.grad(y, x, slope)))
    torch.testing.assert_close(*results)


def test_memory_comes_in_and_goes_out():
    def program(z, turned, frame, w):
        w.mul_(z)
        return z * turned, frame.mT.conj(), w.sum(), z[:0] * 2, frame * 2

    frame = drawn(4, 3).T
    given = [drawn(3, 4), drawn(3, 4).conj(), frame, drawn(3, 4)]
    own = [each.clone() if at == 3 else each for at, each in enumerate(given)]
    found, wanted = compiled(program)(*given), program(*own)
    for one, other in zip([*found, given[3]], [*wanted, own[3]], strict=True):
        torch.testing.assert_close(one.resolve_conj(), other.resolve_conj())
    assert found[4].stride() == wanted[4].stride()


def test_weights_are_constants():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", drawn(4))

        def forward(self, x):
            return x * self.scale

    model, x = Scaled(), torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, freeze=True)(x), model(x))


def test_exported_programs_hold_pairs_along_a_last_axis():
    class Turned(torch.nn.Module):
        def forward(self, z, angles):
            return z * torch.polar(torch.ones_like(angles), angles)

    z, angles = drawn(2, 5, 4), torch.randn(5, 4)
    exe = weft.compile(torch.export.export(Turned(), (z, angles)))
    (found,) = exe(torch.view_as_real(z).numpy(), angles.numpy())
    wanted = torch.view_as_real(Turned()(z, angles)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
