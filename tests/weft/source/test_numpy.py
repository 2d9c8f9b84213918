"""NumPy's functions and methods in source mode give what NumPy gives, with its dtypes."""

import math

import numpy as np
import pytest

import weft
from weft import SourceError, Spec
from weft.array.operators import common_dtype
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.trees import flatten_exactly


def evaluated(function, *arguments):
    """What the graph of a function gives, by the operators' `reference`."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray | np.generic)]
    specs = [
        Spec(each.dtype.name, each.shape) if isinstance(each, np.ndarray | np.generic) else each
        for each in arguments
    ]
    program = read_function(function, specs, {})
    program.module.verify()
    block = program.module.body.block.first_op.body.block
    captured = [each.fetch() for each in program.captured]
    inputs = [np.asarray(each) for each in (*arrays, *captured)]
    return program.rebuilt(evaluate_block(block, inputs, {}, program.recording.weights))


def check(function, *arguments):
    expected, form = flatten_exactly(function(*arguments))
    got, got_form = flatten_exactly(evaluated(function, *arguments))
    assert got_form == form
    for value, wanted in zip(got, expected, strict=True):
        assert np.asarray(value).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-13)


X = np.random.default_rng(0).normal(size=(4, 6))
V = np.random.default_rng(1).normal(size=6)
I = np.arange(12).reshape(3, 4) - 5  # noqa: E741

ON_MATRIX = [
    lambda x: (x.sum(), x.sum(axis=0), x.mean(1), x.max(axis=-1, keepdims=True), x.min(), x.prod()),
    lambda x: (x.std(), x.var(axis=0, ddof=1), np.ptp(x, axis=0), np.median(x), np.median(x, 1)),
    lambda x: (
        x.argmax(),
        x.argmin(axis=1),
        np.argsort(x, axis=0),
        np.sort(x),
        np.count_nonzero(x),
    ),
    lambda x: (
        x.cumsum(),
        np.cumsum(x, axis=1),
        np.cumprod(x, axis=0),
        np.diff(x),
        np.diff(x, 2, 0),
    ),
    lambda x: (np.any(x > 1), np.all(x > -9, axis=0), (x > 0).any(), np.isnan(x), np.isfinite(x)),
    lambda x: (x @ x.T, np.dot(x, x[0]), np.outer(x[0], x[1]), np.trace(x[:, :4]), x.dot(x.T)),
    lambda x: (x.reshape(3, -1), x.T, x.ravel(), x.flatten(), np.transpose(x, (1, 0)), x[None]),
    lambda x: (np.stack([x, x], axis=1), np.concatenate((x, x), 1), np.vstack([x, x[0]])),
    lambda x: (np.hstack([x, x]), np.column_stack([x[:, 0], x]), np.expand_dims(x, 1).squeeze(1)),
    lambda x: (np.repeat(x, 2, axis=1), np.flip(x, 1), np.roll(x, 2), np.roll(x, -1, axis=1)),
    lambda x: (np.where(x > 0, x, 0.0), np.clip(x, -1, 1), np.maximum(x, 0.5), np.sign(x)),
    lambda x: (np.zeros_like(x), np.ones(x.shape), np.full((2, 3), x[0, 0]), np.eye(len(x))),
    lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x[0], 1)),
    lambda x: (np.tril(x), np.triu(x, 1), np.diag(x), np.diag(x[0]), np.swapaxes(x, 0, 1)),
    lambda x: (np.log2(np.abs(x)), np.log10(x * x), np.exp2(x), np.hypot(x, 2.0), np.square(x)),
    lambda x: (x // 0.5, x % 0.3, -x, abs(x), x**2, 2.0**x, x / 3, 1 - x, x.round(), np.floor(x)),
    lambda x: (x.astype(np.float32) * 2 + 1.5, x.astype(int) / 2, np.float32(2) * x[0, 0]),
    lambda x: (x.shape, x.size, x.ndim, len(x), x.shape[-1] * 2, x.dtype == np.float64),
    lambda x: (x[1], x[-1], x[1:3], x[::2, ::-1], x[..., 0], x[:, None, 2], x[2, 3], x[:0]),
    lambda x: (x[[2, 0]], x[:, [1, 1]], x[[0, 1], [2, 3]], x[x > 0], x[x[:, 0] > 0]),
    lambda x: (
        np.average(x, axis=0),
        np.average(x[0], weights=np.arange(6.0)),
        np.moveaxis(x, 0, 1),
    ),
    lambda x: (np.allclose(x, x + 1e-12), np.isclose(x, 0), np.array_equal(x, x), np.tile(x[0], 3)),
    lambda x: (
        np.interp(x, np.array([-1.0, 0, 2]), np.array([3.0, 1, 5])),
        np.cross(x[0, :3], x[1, :3]),
    ),
    lambda x: (
        np.searchsorted(np.array([-1.0, 0, 1]), x[0]),
        np.array([x[0, 0], 1.0]),
        np.take(x, 3),
    ),
    lambda x: (
        x.item(5) if False else x[0, 0].item(),
        float(x[0, 0]),
        int(x[0, 0] * 9),
        bool(x[0, 0]),
    ),
    lambda x: (
        max(x[0, 0], x[0, 1]),
        min(x[0]),
        sum(x[0]),
        abs(x[0, 0]),
        round(float(x[0, 0]) * 7),
    ),
    lambda x: (divmod(float(x[0, 0]), 0.3), pow(x, 2), all(v > -9 for v in x[0]), any(x[0] > 9)),
    lambda x: (
        [list(reversed(x[0]))[0], sorted([3, 1, 2])],
        {k: 2 * v for k, v in zip("ab", x, strict=False)},
    ),
    lambda x: (1.5 in x, x[0, 0] in [x[0, 0], 3.0], 0 < x[0, 0] < 1, not x[0, 0] > 0),
    lambda x: (isinstance(x, np.ndarray), isinstance(x.sum(), float), isinstance(len(x), int)),
]


@pytest.mark.parametrize("function", ON_MATRIX)
def test_on_floats(function):
    check(function, X)


ON_INTEGERS = [
    lambda i: (i + 1, i * 1.5, i / 2, i // 3, i % 3, i**2, -i, abs(i), i & 3, i | 8, i ^ 1, ~i),
    lambda i: (i.sum(), i.mean(), i.max(), i.astype(np.int32).sum(), (i > 0).sum(), np.sqrt(i * i)),
    lambda i: (
        i[0, 0] + 1,
        i[0, 0] * 0.5,
        i << 1,
        i.astype(np.float32) * i,
        i == 3,
        i != 3,
        i >= 0,
    ),
    lambda i: (int(i[1, 1]) // -2, int(i[0, 1]) % 3, int(i[0, 0]) / 2, float(i[0, 0]) ** 2),
    lambda i: (
        np.arange(int(i[2, 3])),
        np.zeros(int(i[2, 3]) + 1),
        i[: int(i[2, 2] - 3)],
        list(range(3)),
    ),
    lambda i: (
        np.repeat(i, int(i[2, 2]), 0),
        np.tile(i[0], int(i[2, 2])),
        np.full_like(i, i[2, 2]),
        np.broadcast_to(i[0], (int(i[2, 2]), 4)),
        np.where(i > 0, int(i[2, 2]), i.astype(np.int32)),
        np.maximum(float(i[2, 2]), i.astype(np.float32)),
    ),
    lambda i: (np.arange(5)[int(i[2, 0]) - 1], np.arange(9.0)[int(i[0, 0])], np.where(i > 0, 1, 0)),
]


@pytest.mark.parametrize("function", ON_INTEGERS)
def test_on_integers(function):
    check(function, I)


def test_numbers_of_python_that_are_equal_promote_as_their_own_types():
    assert [common_dtype(one, one) for one in (0, False, 0.0)] == [np.int64, np.bool_, np.float64]


def of_math(x):
    a = float(x[0])
    one = [math.log2(a), math.degrees(a), math.asin(a), math.atanh(a), math.trunc(a + 3)]
    two = [math.atan2(a, 2), math.hypot(1.5, x[1]), math.pow(a, x[1]), math.isfinite(a)]
    return one + two


def test_functions_of_math_are_numbers_of_python():
    x = np.array([0.3, 0.7])
    for found, expected in zip(weft.jit(of_math)(x), of_math(x), strict=True):
        assert type(found) is type(expected)
        assert found == pytest.approx(expected, rel=1e-14)


def of_sizes(s, x):
    made = np.ones(s), np.full(s, x[0]), np.broadcast_to(x, s[:1] * 2), np.tile(x, s)
    kinds = np.isscalar(x), np.isscalar(x[0]), np.iterable(x), np.iterable(x[0])
    kinds += tuple(hasattr(each, "__len__") for each in (x, x[0], float(x[0]), x * 1j))
    return *made, *kinds, np.abs(x > 0), abs(x > 0), np.array(x, order="F", ndmin=2)


def test_sizes_may_be_an_array():
    s, x = np.array([1, 2]), np.array([0.3, -0.7])
    for found, expected in zip(weft.jit(of_sizes)(s, x), of_sizes(s, x), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_one_size_of_several_elements_is_refused():
    with pytest.raises(SourceError, match="a size requires one integer"):
        weft.jit(lambda s: np.ones((2, s)))(np.array([1, 2]))
