"""Gradients of sixty functions are slopes of differences, and what PyTorch gives; programs with
control flow are in tests/compiler/graph/test_control_gradients.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.dialects.expr import Expr
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import ShapeAttr
from weft.tracing.trace import record

RNG = np.random.default_rng(7)
X, Y = RNG.uniform(0.2, 0.9, 4), RNG.normal(size=4)
M = RNG.normal(size=(3, 4))
IMAGE, FILTERS = RNG.normal(size=(2, 3, 6, 5)), RNG.normal(size=(4, 3, 3, 2))

NAMES = (
    "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh", "erf", "abs", "pow", "maximum", "minimum", "where", "max", "min",
    "prod", "softmax", "log_softmax", "stack", "concat", "reshape",
)  # fmt: skip

# Functions of NumPy's, for both.
SHARED = {
    "exp": lambda xp, x, y, m: xp.exp(x).sum(),
    "log": lambda xp, x, y, m: (xp.log(x) * y).sum(),
    "sqrt": lambda xp, x, y, m: (xp.sqrt(x) * y).sum(),
    "sin cos": lambda xp, x, y, m: (xp.sin(x) * xp.cos(y)).sum(),
    "tan": lambda xp, x, y, m: (xp.tan(x) * y).sum(),
    "sinh cosh": lambda xp, x, y, m: (xp.sinh(x) * xp.cosh(y)).sum(),
    "tanh": lambda xp, x, y, m: (xp.tanh(m) * xp.tanh(y)).sum(),
    "asin acos": lambda xp, x, y, m: (xp.asin(x) * xp.acos(x) * y).sum(),
    "atan": lambda xp, x, y, m: (xp.atan(y) * x).sum(),
    "asinh": lambda xp, x, y, m: (xp.asinh(y) * x).sum(),
    "acosh atanh": lambda xp, x, y, m: (xp.acosh(x + 2.0) * xp.atanh(x)).sum(),
    "erf": lambda xp, x, y, m: (xp.erf(y) * x).sum(),
    "absolute": lambda xp, x, y, m: (xp.abs(m) * x).sum(),
    "quotient": lambda xp, x, y, m: (y / (x + 1.0) - m / x).sum(),
    "power": lambda xp, x, y, m: (xp.pow(x, y) + x**2.5).sum(),
    "maximum minimum": lambda xp, x, y, m: (xp.maximum(x, y) * xp.minimum(m, x)).sum(),
    "choice": lambda xp, x, y, m: xp.where(y > x, x * y, xp.exp(y)).sum(),
    "clipped": lambda xp, x, y, m: (xp.clip(m, -0.5, 0.7) * x).sum(),
    "broadcast": lambda xp, x, y, m: (m * x + y - m.sum(1, keepdims=True) * y).sum(),
    "means": lambda xp, x, y, m: (m.mean(0) * x * m.mean()).sum(),
    "greatest": lambda xp, x, y, m: xp.max(m * x),
    "least": lambda xp, x, y, m: xp.min(m * x) * y.sum(),
    "product": lambda xp, x, y, m: xp.prod(x) * y.sum(),
    "variance": lambda xp, x, y, m: ((m - m.mean(1, keepdims=True)) ** 2).mean(1).sum() * x.sum(),
    "norm": lambda xp, x, y, m: xp.sqrt((m * m).sum()) + xp.sqrt((x * x).sum()),
    "matrix times vector": lambda xp, x, y, m: xp.tanh(m @ x).sum() + (m @ y).sum(),
    "gram matrix": lambda xp, x, y, m: (xp.sin(m @ m.T) * (m @ x)).sum(),
    "transposed": lambda xp, x, y, m: (xp.permute_dims(m, (1, 0)) @ m @ x * y).sum(),
    "reshaped": lambda xp, x, y, m: (xp.reshape(m, (2, 6)) ** 3).sum(1).sum() + x.sum(),
    "concatenated": lambda xp, x, y, m: (xp.concat([x, y * y, m[0]], 0) ** 2).sum(),
    "stacked": lambda xp, x, y, m: (xp.stack([x, y, m[1]], 0) @ y).sum(),
    "sliced": lambda xp, x, y, m: (m[1:, ::2] * x[:2] * y[-1]).sum(),
    "picked": lambda xp, x, y, m: (m[:, 2] ** 2).sum() * x[0] * y[3],
    "flipped": lambda xp, x, y, m: (xp.flip(m, 1) * xp.flip(x, 0)).sum(),
    "running sums": lambda xp, x, y, m: (xp.cumulative_sum(x * y, 0) * x).sum(),
    "softmax": lambda xp, x, y, m: (xp.softmax(m, -1) * x).sum(),
    "log softmax": lambda xp, x, y, m: (xp.log_softmax(m * x, -1) * y).sum(),
    "used many times": lambda xp, x, y, m: ((x + x * x) * (x - xp.sin(x)) / x).sum(),
    "black-scholes": lambda xp, x, y, m: (
        x * (1 + xp.erf((xp.log(x) + 0.1) / 0.4)) - (1 + xp.erf((xp.log(x) - 0.3) / 0.4))
    ).sum(),
    "newton steps": lambda xp, x, y, m: sum_of_newton(x),
    "recurrence": lambda xp, x, y, m: recurrent(xp, x, y, m),
    "attention by hand": lambda xp, x, y, m: (
        (xp.softmax((m @ m.T) * 0.5, -1) @ (m * x)).sum() * y.sum()
    ),
}


def sum_of_newton(x):
    root = x
    for _ in range(4):
        root = (root + x / root) * 0.5
    return root.sum()


def recurrent(xp, x, y, m):
    state, weights = y, m.T @ m
    for step in range(3):
        state = xp.tanh(weights @ state * 0.3 + x * float(step))
    return (state * state).sum()


# Operators of the graph, and what PyTorch has for them.
PAIRS = {
    "sigmoid": (lambda x, y, m: one("sigmoid", m).sum(), "sigmoid(m).sum()"),
    "softplus": (lambda x, y, m: one("softplus", m).sum(), "F.softplus(m).sum()"),
    "relu": (lambda x, y, m: (one("relu", m) * x).sum(), "(F.relu(m) * x).sum()"),
    "leaky relu": (
        lambda x, y, m: (one("leaky_relu", m, alpha=0.1) * x).sum(),
        "(F.leaky_relu(m, 0.1) * x).sum()",
    ),
    "elu": (lambda x, y, m: one("elu", m, alpha=1.0).sum(), "F.elu(m).sum()"),
    "gelu": (lambda x, y, m: one("gelu", m, approximate="none").sum(), "F.gelu(m).sum()"),
    "gelu by tanh": (
        lambda x, y, m: one("gelu", m, approximate="tanh").sum(),
        "F.gelu(m, approximate='tanh').sum()",
    ),
    "mish": (lambda x, y, m: one("mish", m).sum(), "F.mish(m).sum()"),
    "log sum exp": (
        lambda x, y, m: one("reduce_log_sum_exp", m, axes=[1], keepdims=False).sum(),
        "torch.logsumexp(m, 1).sum()",
    ),
    "einsum": (
        lambda x, y, m: one("einsum", m, m, x, equation="ij,kj,j->ik").sum(),
        "torch.einsum('ij,kj,j->ik', m, m, x).sum()",
    ),
    "layer norm": (
        lambda x, y, m: (one("layer_norm", m, x, y, axis=-1, epsilon=1e-5) ** 2).sum(),
        "(F.layer_norm(m, (4,), x, y, 1e-5) ** 2).sum()",
    ),
    "tiled": (
        lambda x, y, m: (one("tile", x, repeats=sizes(2)) ** 2).sum(),
        "(x.tile(2) ** 2).sum()",
    ),
    "padded": (
        lambda x, y, m: (one("pad", x, pads=sizes(2, 1), mode="reflect") ** 2)[:6].sum(),
        "(F.pad(x[None], (2, 1), mode='reflect')[0] ** 2)[:6].sum()",
    ),
}
IMAGES = {
    "convolution": (
        lambda i, f: (one("conv", i, f, **window([1, 1], [1, 0, 1, 0])) ** 2).mean(),
        "(F.conv2d(i, f, padding=(1, 0)) ** 2).mean()",
    ),
    "convolution with strides": (
        lambda i, f: (one("conv", i, f, **window([2, 1], [0, 0, 0, 0])) ** 2).mean(),
        "(F.conv2d(i, f, stride=(2, 1)) ** 2).mean()",
    ),
    "pools": (
        lambda i, f: (
            (
                one("max_pool", i, **pool())
                * one("average_pool", i, **pool(count_include_pad=False))
            ).sum()
            + f.sum()
        ),
        "(F.max_pool2d(i, 2) * F.avg_pool2d(i, 2)).sum() + f.sum()",
    ),
    "instance norm": (
        lambda i, f: ((i - i.mean((2, 3), keepdims=True)) * i).sum() * f.mean(),
        "((i - i.mean((2, 3), True)) * i).sum() * f.mean()",
    ),
}


def one(name, first, *others, **attributes):
    return first.op(name, first, *others, **attributes)


def window(strides, pads):
    return {"strides": strides, "dilations": [1, 1], "pads": pads, "group": 1}


def pool(**others):
    return {"kernel": [2, 2], "strides": [2, 2], "ceil_mode": False, **others}


def sizes(*numbers):
    return ShapeAttr(tuple(map(Expr.of, numbers)))


def for_torch():
    """PyTorch's functions by NumPy's names."""
    torch = pytest.importorskip("torch")
    functions = {name: getattr(torch, name) for name in NAMES}
    return SimpleNamespace(
        **functions,
        clip=torch.clamp,
        permute_dims=torch.permute,
        flip=lambda x, axis: torch.flip(x, (axis,)),
        cumulative_sum=torch.cumsum,
    )


def check(function, reference, *arrays):
    """Compares the gradients in all arrays with differences and with PyTorch's, if there is one."""
    places = tuple(range(len(arrays)))
    assert weft.check_grad(function, *arrays, argnums=places, directions=1) < 1e-6
    torch = pytest.importorskip("torch")
    recorded = record(weft.value_and_grad(function, places), *arrays)
    weights = recorded.recording.weights
    value, *found = evaluate_block(recorded.recording.block, arrays, {}, weights)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = reference(*tensors)
    expected.backward()
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-10)
    for got, tensor in zip(found, tensors, strict=True):
        want = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SHARED)
def test_gradients_of_functions(name: str):
    function = SHARED[name]
    check(lambda x, y, m: function(wnp, x, y, m), lambda *t: function(for_torch(), *t), X, Y, M)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_operators(name: str):
    function, text = PAIRS[name]
    check(function, lambda x, y, m: by_torch(text, x=x, y=y, m=m), X, Y, M)


@pytest.mark.parametrize("name", IMAGES)
def test_gradients_of_images(name: str):
    function, text = IMAGES[name]
    check(function, lambda i, f: by_torch(text, i=i, f=f), IMAGE, FILTERS)


def by_torch(text: str, **names):
    torch = pytest.importorskip("torch")
    return eval(text, {"torch": torch, "F": torch.nn.functional, "sigmoid": torch.sigmoid, **names})


def test_a_scatter_of_rows_that_are_computed_in_the_same_kernel():
    """A prefetch of the rows that it writes took this iteration's index for the next one's."""
    x = RNG.normal(size=(16, 31))

    def norm(x: weft.Tensor) -> weft.Tensor:
        rows = wnp.sort(wnp.broadcast_to(x, (16, 16, 31)), axis=1)
        return wnp.sqrt((rows * rows).sum())

    expected = 16 * x / np.sqrt(16 * (x * x).sum())
    np.testing.assert_allclose(weft.jit(weft.grad(norm))(x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: wnp.std(x, 0).sum(),
        lambda x: wnp.std(x, 1, correction=1).sum(),
        lambda x: x.std(1, where=np.array([True, True, False])).sum(),
        lambda x: wnp.linalg.vector_norm(x - 0.5),
        lambda x: wnp.linalg.vector_norm(x - 0.5, ord=3),
        lambda x: wnp.linalg.matrix_norm(x - 0.5),
    ],
)
def test_distances_are_flat_where_they_are_zero(function: object):
    """The chain rule alone gives `inf * 0`: a program that the fuzzer found."""
    x = weft.Tensor(np.full((2, 3), 0.5))
    assert np.array_equal(weft.grad(function)(x), np.zeros((2, 3)))
