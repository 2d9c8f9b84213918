"""Traced functions compute what NumPy computes, differentiate, and say which line is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from tests.support.oracle import evaluate
from weft import Spec, grad, trace, value_and_grad
from weft.tracing.trace import record


def first_example(x1, x2):
    return wnp.log(x1) + x1 * x2 - wnp.sin(x2)


def test_the_first_example_and_its_gradient():
    two, five = np.float64(2), np.float64(5)

    def both(x1, x2):
        value, (d1, d2) = value_and_grad(first_example, (0, 1))(x1, x2)
        return value, d1, d2

    value, d1, d2 = trace(both, two, five)(two, five)
    assert value == pytest.approx(11.652071, abs=1e-6)
    assert (d1, d2) == (pytest.approx(5.5), pytest.approx(1.716338, abs=1e-6))
    assert first_example(two, five) == pytest.approx(11.652071, abs=1e-6)


def test_names_of_leaves_may_hold_anything():
    tree = {"first layer/w[0]": np.ones(3), "second": np.full(3, 2.0)}
    exe = trace(lambda tree: sum(tree.values()), tree)
    assert [spec.name for spec in exe.inputs] == ["tree.first layer/w[0]", "tree.second"]
    np.testing.assert_array_equal(exe(tree), [3, 3, 3])


def test_second_derivatives():
    x = np.float64(0.7)
    second = trace(grad(grad(lambda x: wnp.sin(x) * x)), x)(x)
    assert second == pytest.approx(2 * np.cos(x) - x * np.sin(x))


def test_sizes_may_vary():
    def network(x, w, b):
        return wnp.softmax(wnp.tanh(x @ w + b))

    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    compiled = trace(network, Spec("float32", ("rows", 4)), w, b)
    for rows in (1, 7):
        x = rng.normal(size=(rows, 4)).astype(np.float32)
        e = np.exp(np.tanh(x @ w + b))
        y = compiled(x, w, b)
        np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-5)


def parts(size: int) -> st.SearchStrategy:
    ends = st.one_of(st.none(), st.integers(-size - 1, size + 1))
    steps = st.sampled_from([None, 1, 2, -1, -2])
    slices = st.builds(slice, ends, ends, steps)
    return st.one_of(slices, st.integers(-size, size - 1), st.none(), st.just([1, 0]))


@given(st.data())
def test_indices_are_numpys(data: st.DataObject):
    x = np.arange(60.0).reshape(3, 4, 5)
    index, axis, lists = [], 0, 0
    while axis < data.draw(st.integers(0, 3)):
        part = data.draw(parts(x.shape[axis]))
        lists += isinstance(part, list)
        if lists > 1 or (lists and any(isinstance(each, int) for each in (*index, part))):
            break
        index.append(part)
        axis += part is not None
    expected = x[tuple(index)]
    recorded = record(lambda x: x[tuple(index)], x)
    (got,) = evaluate(recorded.module.ops.first, [x], recorded.recording.weights)
    if expected.size:
        np.testing.assert_array_equal(got, expected)


def test_dtypes_are_promoted_as_in_numpy():
    i, f = np.arange(3), np.ones(3, np.float32)
    y = trace(lambda i, f: i + f, i, f)(i, f)
    assert y.dtype == np.float64
    y = trace(lambda f: 2 * f + 1.5, f)(f)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.full(3, 3.5, np.float32))
    y = trace(lambda i: i / 2, i)(i)
    np.testing.assert_array_equal(y, i / 2)


def test_functions_of_the_standard():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=4)

    def several(x, y):
        return (
            wnp.where(x > y, x, 0.0), wnp.concat([x, x], 1), wnp.reshape(x, (2, -1)),
            wnp.permute_dims(x, (1, 0)), wnp.maximum(x, y), x.sum(0), x.mean(-1, keepdims=True),
            wnp.max(x), abs(-x) ** 2.0, 1 / wnp.exp(y), x.T @ x,
        )  # fmt: skip

    for got, expected in zip(trace(several, x, y)(x, y), several(x, y), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_a_step_of_training_is_one_call():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    y = x @ np.array([1.0, -2.0, 0.5])

    def loss(w, x, y):
        error = x @ w - y
        return (error * error).mean()

    def step(w, x, y):
        value, slope = value_and_grad(loss)(w, x, y)
        return value, w - 0.1 * slope

    compiled, w = trace(step, np.zeros(3), x, y), np.zeros(3)
    for _ in range(200):
        value, w = compiled(w, x, y)
    assert value < 1e-10
    np.testing.assert_allclose(w, [1.0, -2.0, 0.5], atol=1e-5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x > 0 else -x, "a condition requires a value"),
        (lambda x: x + np.zeros(4), "dims are equal or 1"),
        (lambda x: x["name"], "only integers, slices"),
        (lambda x: grad(lambda y: y)(x), "a gradient requires one float"),
    ],
)
def test_errors_name_the_line(function, message: str):
    with pytest.raises(weft.WeftError, match=rf"test_trace\.py:\d+: .*{message}"):
        trace(function, np.ones(3))


def _algebra(a, b):
    return wnp.linalg.solve(a, b), wnp.linalg.inv(a), wnp.linalg.det(a)


def _solution(a, b):
    return (wnp.linalg.solve(a, b),)


def _jitted(function, *specs):
    return weft.jit(function, specs=specs)


@pytest.mark.parametrize(("compiled", "function"), [(trace, _algebra), (_jitted, _solution)])
def test_linear_algebra_of_sizes_that_each_call_brings(compiled, function):
    def loss(a, b):
        return sum((each**2).sum() for each in function(a, b))

    specs = Spec("float64", ("n", "n")), Spec("float64", ("n", "k"))
    both = compiled(lambda a, b: (*function(a, b), *grad(loss, (0, 1))(a, b)), *specs)
    for n, k in ((3, 2), (1, 1), (5, 0)):
        rng = np.random.default_rng(n)
        a, b = rng.normal(size=(n, n)) + 4 * np.eye(n), rng.normal(size=(n, k))
        wanted = (*function(a, b), *grad(loss, (0, 1))(weft.Tensor(a), weft.Tensor(b)))
        for got, want in zip(both(a, b), wanted, strict=True):
            np.testing.assert_allclose(got, np.asarray(want), rtol=1e-9, atol=1e-11)


def test_slices_take_sizes_as_ends_where_the_axis_reaches_as_far():
    def parts(x, y):
        both = wnp.concat([x, y], 0)
        return both[x.shape[0] :], both[: x.shape[0]]

    compiled = trace(parts, Spec("float64", ("n",)), Spec("float64", ("m",)))
    x, y = np.arange(3.0), np.arange(2.0) + 7
    np.testing.assert_array_equal(compiled(x, y)[0], y)
    np.testing.assert_array_equal(compiled(x, y)[1], x)


@pytest.mark.parametrize("name", ["a b", "n); import os", "max", "d0", "größe", "", "\u202e"])
def test_n2_sizes_of_names_that_graphs_do_not_have_are_refused(name: str):
    """N2"""
    with pytest.raises(weft.OptionError, match="requires names of sizes of letters"):
        weft.trace(lambda x: x, weft.Spec("float32", (name, 3)))


def test_operators_by_hand_have_defaults():
    g = weft.Graph()
    x = g.input("x", "float32", (2, 3))
    y = g.op("softmax", x)
    assert repr(y) == "Traced([2, 3], dtype=float32)"
    g.output("y", g.op("reduce_sum", g.op("leaky_relu", y), axes=[1]))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(weft.compile(g)(given)[0], [1, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("softmax", {"foo": 3}, r"attributes that it has \(axis\), got foo"),
        ("softmax", {"axis": "a"}, "an attribute axis of another type, got 'a'"),
        ("concat", {}, "the attribute axis, got none"),
        ("transpose", {"permutation": [0, 1.5]}, "an attribute permutation of another type"),
        ("add", {}, "2 to 2 operands, got 1"),
        ("softmax", {"axis": 7}, "an axis from -2 to 1, got 7"),
    ],
)
def test_operators_by_hand_refuse_with_the_line(name: str, attributes, message: str):
    g = weft.Graph()
    x = g.input("x", "float32", (2, 3))
    with pytest.raises(
        weft.WeftError, match=rf"test_trace\.py:\d+: graph\.{name} requires {message}"
    ):
        g.op(name, x, **attributes)
    with pytest.raises(weft.WeftError, match="requires values of this graph"):
        g.op("add", x, weft.Graph().input("y", "float32", (2, 3)))
