"""NumPy's functions on weft's tensors: what weft.numpy has in every mode, or an error."""

import math

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec, Tensor
from weft.array_api.dispatch import BY_OBJECT, FUNCTIONS, LINALG
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.trace import record
from weft.trees import flatten_exactly

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, size=(3, 3))
V = RNG.uniform(0.1, 0.9, size=3)
I = np.arange(9).reshape(3, 3) - 2  # noqa: E741
S = np.eye(3) * 4 + X @ X.T

OF_ONE = (
    "abs", "absolute", "arccos", "arcsin", "arctan", "arctanh", "asinh", "cbrt", "ceil", "cos",
    "cosh", "exp", "exp2", "expm1", "fabs", "floor", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logical_not", "negative", "positive", "reciprocal", "rint", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
OF_TWO = (
    "add", "arctan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal",
    "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor",
    "matmul", "maximum", "minimum", "mod", "multiply", "nextafter", "not_equal", "pow", "power",
    "remainder", "subtract", "true_divide", "vecdot",
)  # fmt: skip
OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")

CALLS = {
    **{name: (lambda x, v, i, s, name=name: getattr(np, name)(x)) for name in OF_ONE
       if name != "cbrt"},
    **{name: (lambda x, v, i, s, name=name: getattr(np, name)(x, x[::-1])) for name in OF_TWO},
    **{name: (lambda x, v, i, s, name=name: getattr(np, name)(i + 2, 2)) for name in OF_INTEGERS},
    "acosh": lambda x, v, i, s: np.arccosh(x + 1),
    "invert": lambda x, v, i, s: (np.invert(i), np.divmod(i, 2)),
    "reductions": lambda x, v, i, s: (
        np.sum(x, 0), np.amax(x, axis=1), np.min(x, initial=0.2), np.mean(x, 1, keepdims=True),
        np.std(x, ddof=1), np.var(x, 0, correction=1), np.prod(x, 0), np.any(i), np.all(i, 0),
        np.argmax(x, 1), np.argmin(x), np.count_nonzero(i, axis=0), np.cumsum(x), np.amin(x),
        np.cumprod(x, 1), np.cumulative_sum(v), np.cumulative_prod(x, axis=1), np.trace(x, 1),
    ),
    "shapes": lambda x, v, i, s: (
        np.reshape(x, (1, -1)), np.ravel(x), np.transpose(x), np.transpose(x[None], (1, 2, 0)),
        np.swapaxes(x, 0, 1), np.moveaxis(x, 0, 1), np.expand_dims(x, 1), np.squeeze(x[None]),
        np.flip(x, 0), np.roll(x, 1, 1), np.tile(v, 2), np.repeat(x, 2, 0), np.tril(x),
        np.triu(x, 1), np.broadcast_to(v, (2, 3)), np.broadcast_arrays(x, v), np.copy(x),
        np.meshgrid(v, v, indexing="ij"), np.matrix_transpose(x), np.unstack(x), np.diagonal(x),
        np.atleast_1d(v), np.shape(x), np.ndim(x), np.size(x),
    ),
    "joins": lambda x, v, i, s: (
        np.concatenate([x, x], 1), np.concatenate((x, x), axis=None), np.stack([x, x], axis=-1),
        np.vstack([x, v]), np.hstack([x, x]), np.column_stack([v, x]), np.concatenate(x[None]),
    ),
    "choices": lambda x, v, i, s: (
        np.where(x > 0.5, x, 0), np.where(i > 0), np.clip(x, 0.2, 0.5), np.clip(x, max=0.5),
        np.sort(x, 0), np.sort(x, axis=None), np.argsort(x), np.take(x, [0, 2], 1),
        np.take_along_axis(x, np.argsort(x, 0), 0), np.searchsorted(np.sort(v), x, side="right"),
        np.nonzero(i), np.diff(x, 2, 1), np.sort(np.unique_values(i)), np.unique_counts(i)[1],
        np.median(x), np.diag(v), np.diag(x), np.interp(x, np.sort(v), v), np.ptp(x, 0),
        np.round(x, 1), np.around(x, 2), np.average(x, axis=0, weights=v),
        np.allclose(x, x), np.isclose(x, 0.5), np.array_equal(x, x), np.astype(x, np.float32),
    ),
    "likes": lambda x, v, i, s: (
        np.zeros_like(x), np.ones_like(x, np.int64), np.full_like(x, 2.5), np.full_like(i, v[0]),
    ),
    "products": lambda x, v, i, s: (
        np.dot(x, v), np.outer(v, v), np.tensordot(x, x, 1), np.einsum("ij,kj->ik", x, x),
        np.cross(x, v), np.linalg.norm(x), np.linalg.norm(x, axis=0), np.linalg.inv(s),
        np.linalg.det(s), np.linalg.solve(s, v), np.linalg.slogdet(s)[1], np.linalg.cholesky(s),
        np.linalg.matrix_power(x, 3), np.linalg.trace(x), np.linalg.vector_norm(x),
        np.linalg.matrix_norm(x), np.linalg.outer(v, v), np.linalg.diagonal(x),
        np.linalg.matmul(x, x), np.linalg.cross(x, x[::-1]), np.linalg.tensordot(x, x),
        np.linalg.vecdot(x, x), np.linalg.matrix_transpose(x),
    ),
    "of two elements along axes": lambda x, v, i, s: (
        np.add.reduce(x), np.add.reduce(x, axis=None), np.multiply.reduce(x, 1),
        np.maximum.reduce(x, keepdims=True), np.minimum.reduce(x, 1, initial=0.3),
        np.logical_or.reduce(i), np.logical_and.reduce(i, axis=1), np.add.accumulate(x),
        np.multiply.accumulate(x, 1), np.multiply.outer(v, x), np.subtract.outer(v, 1.0),
    ),
    "operators of arrays": lambda x, v, i, s: (
        np.float64(2) * x, np.float32(2) * x.astype(np.float32), np.ones(3) + x, V - x,
        V @ x, x < V, V ** x, np.arange(3) // (i + 9), np.arange(3) & i, np.int64(3) % (i + 9),
        np.float64(2) * x.astype(np.float32), x.astype(np.float32) * np.float64(2), x == V,
    ),
}  # fmt: skip


def leaves(found):
    return [np.asarray(each) for each in flatten_exactly(found)[0]]


def same(got, wanted):
    wanted = leaves(wanted)
    assert len(got) == len(wanted)
    for each, right in zip(got, wanted, strict=True):
        assert each.dtype == right.dtype
        np.testing.assert_allclose(
            each, right, rtol=1e-6 if each.dtype == "f4" else 1e-12, atol=1e-15
        )


GIVEN = (X, V, I, S)
SPECS = [Spec(each.dtype.name, each.shape) for each in GIVEN]


def of_graph(module, weights):
    block = module.body.block.first_op.body.block
    inputs = [*GIVEN, *[None] * (len(block.args) - len(GIVEN))]
    return [np.asarray(each) for each in evaluate_block(block, inputs, {}, weights)]


@pytest.mark.parametrize("name", CALLS)
def test_w3_numpys_functions_are_weft_numpys_in_every_mode(name):
    """w3"""
    call = CALLS[name]
    wanted = leaves(call(*GIVEN))
    eager = flatten_exactly(call(*map(Tensor, GIVEN)))[0]
    same(leaves(eager), wanted)
    assert any(isinstance(each, Tensor) for each in eager)
    assert not any(isinstance(each, np.ndarray) for each in eager)
    traced = record(call, *SPECS)
    got = of_graph(traced.module, traced.recording.weights)
    same(got, wanted)


def test_w3_programs_that_are_compiled_from_source_use_the_same_table():
    """w3"""
    names = ("exp", "add", "invert", "likes", "of two elements along axes", "operators of arrays")

    def program(x, v, i, s):
        return [CALLS[name](x, v, i, s) for name in names]

    same(leaves(weft.jit(program, naive=True)(*GIVEN)), program(*GIVEN))


OURS = {"erf", "softmax", "log_softmax", "shard", "stage"}
"""The functions of weft.numpy that NumPy has not."""


@pytest.mark.parametrize("name", sorted(OURS))
@pytest.mark.parametrize("x", [X, X.astype(np.float32), X[0], np.arange(3)], ids=repr)
def test_w3_functions_that_numpy_lacks_take_its_arrays(name, x):
    """w3"""
    function = getattr(wnp, name)
    got, wanted = function(x), np.asarray(function(Tensor(x)))
    assert type(got) is np.ndarray
    same([got], [wanted])


def test_w3_functions_that_numpy_lacks_take_its_numbers():
    """w3"""
    assert wnp.erf(np.float64(0.5)) == pytest.approx(math.erf(0.5), rel=1e-14)
    assert type(wnp.erf(np.float64(0.5))) is np.float64


def test_w3_every_function_of_weft_numpy_is_reached_from_numpy():
    """w3"""
    for library, table in ((np, FUNCTIONS), (np.linalg, LINALG)):
        for name in table:
            own = getattr(library, name, None)
            assert own is None or own in BY_OBJECT, name


def test_w3_derivatives_go_through_numpys_functions():
    """w3"""
    loss = lambda x: np.sum(np.sin(np.concatenate([x, 2 * x])) ** 2) + np.add.reduce(V * x)  # noqa: E731
    wanted = 2 * np.sin(V) * np.cos(V) + 4 * np.sin(2 * V) * np.cos(2 * V) + V
    for gradient in (weft.grad(loss), weft.jit(weft.grad(loss), naive=True)):
        np.testing.assert_allclose(np.asarray(gradient(Tensor(V))), wanted, rtol=1e-12)


LACKING = {
    "a function": (lambda x: np.shares_memory(x, x), "np.shares_memory requires arrays of"),
    "a function of elements": (lambda x: np.isnat(x), "np.isnat requires arrays"),
    "another method": (lambda x: np.power.at(x.copy(), [0], x[:1]), "power.at requires"),
    "a mask": (lambda x: np.add(x, x, where=V > 0.5), "requires out"),
}


@pytest.mark.parametrize("what", LACKING)
def test_w3_what_weft_lacks_is_refused_by_its_name(what):
    """w3"""
    call, rule = LACKING[what]
    for run in (lambda: call(Tensor(V)), lambda: record(call, V), lambda: weft.grad(call)(V)):
        with pytest.raises(weft.WeftError, match=rule) as error:
            run()
        assert f"{__file__}:" in str(error.value)
    if "__iadd__" not in what:
        with pytest.raises((weft.WeftError, TypeError)):
            read_function(call, [Spec("float64", (3,))], {})


CONVERSIONS = {
    "asarray": lambda x: np.asarray(x),
    "a list": lambda x: np.array([x[0], 1.0]),
    "a maximum of a list": lambda x: np.max([x[0], x[1]]),
    "numpy": lambda x: x.numpy() if isinstance(x, Tensor) else np.array(x),
    "a scalar": lambda x: np.float32(x[0]),
    "a tensor": lambda x: Tensor(x),
    "dlpack": lambda x: np.from_dlpack(x),
}


@pytest.mark.parametrize("how", CONVERSIONS)
def test_w3_nothing_is_converted_while_something_is_recorded(how):
    """w3"""
    call = CONVERSIONS[how]
    with pytest.raises(weft.WeftError, match="require a tensor that is not being differentiated"):
        weft.grad(lambda x: wnp.sum(x * wnp.asarray(call(x))))(V)
    with pytest.raises((weft.WeftError, AttributeError, RuntimeError)):
        record(lambda x: call(x), V)


def test_w3_elements_are_free_where_nothing_is_recorded():
    """w3"""
    x = Tensor(V)
    np.testing.assert_array_equal(np.asarray(x), x.numpy())
    seen = []

    def loss(x):
        seen.append(np.asarray(weft.stop_gradient(x)))
        seen.append(np.asarray(x > 0.5))  # which has no derivative
        return (x * x).sum()

    np.testing.assert_allclose(weft.grad(loss)(x).numpy(), 2 * V)
    np.testing.assert_array_equal(seen[0], V)


def test_w3_derivatives_go_through_arguments_of_compiled_functions_alone():
    """w3: what a compiled function reads of its surroundings has no derivative without a word."""
    x = Tensor(V)
    scale = x + 0.0
    compiled = weft.jit(lambda y: (y * scale).sum(), naive=True)
    compiled(x)

    def loss(w):
        nonlocal scale
        scale = w
        return compiled(x)

    with pytest.raises(weft.WeftError, match="differentiated as its arguments"):
        weft.grad(loss)(x)
    step = weft.step(lambda p: (p * p).sum(), x)
    with pytest.raises(weft.WeftError, match="not being differentiated"):
        weft.grad(lambda p: step(p) * 1.0)(x)


class Foreign:
    """An array of another library."""

    def __array_function__(self, function, types, arguments, named):
        return "theirs"


def test_w3_arrays_of_other_libraries_are_asked_too():
    """w3"""
    assert np.concatenate([Tensor(V), Foreign()]) == "theirs"
