"""Looking inside of compiled graphs: values by name, and the operator that makes NaN."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft
import weft.numpy as wnp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4)).astype(np.float32)
W = RNG.normal(size=(4, 4)).astype(np.float32)
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[5, 4] x, float[4, 4] w) => (float[5, 4] y) {
    [product] a = MatMul(x, w) [gate] h = Tanh(a) [root] r = Sqrt(a) y = Add(h, r) }"""

TOLD = """<ir_version: 10, opset_import: ["" : 21]>
agraph (int64[1] n, float x) => (float[m] y) { [blown] y = Expand(x, n) }"""


def model() -> ModelProto:
    return parser.parse_model(TEXT)


def layers(x, w):
    hidden = weft.watch(wnp.tanh(x @ w) * 0.5, "hidden")
    return hidden @ w + weft.watch(wnp.exp(hidden), "shares")


def test_values_of_a_model_are_watched_by_name():
    exe = weft.compile(model())
    watched = exe.watch("h", "a")
    assert [spec.name for spec in watched.outputs] == ["y", "h", "a"]
    y, h, a = watched(np.abs(X), np.abs(W))
    np.testing.assert_array_equal(y, exe(np.abs(X), np.abs(W))[0])
    np.testing.assert_allclose(h, np.tanh(a), rtol=1e-6)
    with pytest.raises(weft.OptionError, match="values of the graph"):
        exe.watch("other")


def test_values_of_a_program_are_watched_by_the_names_it_gives():
    exe = weft.trace(layers, X, W)
    y, shares, hidden = exe.watch("shares", "hidden")(X, W)
    np.testing.assert_array_equal(y, exe(X, W))
    np.testing.assert_allclose(hidden, np.tanh(X @ W) * 0.5, rtol=1e-5)
    np.testing.assert_allclose(shares, np.exp(hidden), rtol=1e-6)
    with pytest.raises(weft.OptionError, match=r"names of values \(hidden, shares\), got other"):
        exe.watch("other")


def test_what_nobody_watches_costs_nothing():
    plain = weft.trace(lambda x, w: wnp.tanh(x @ w) * 0.5, X, W)
    named = weft.trace(lambda x, w: weft.watch(wnp.tanh(weft.watch(x @ w, "a")) * 0.5, "h"), X, W)
    assert plain.metadata["kernels"] == named.metadata["kernels"]


def test_gradients_pass_a_name_and_are_watched_too():
    def step(x, w):
        return weft.value_and_grad(lambda w: (layers(x, w) ** 2.0).mean())(w)

    exe = weft.trace(step, X, W)
    value, slope = exe(X, W)
    _, again, hidden = exe.watch("hidden")(X, W)
    np.testing.assert_array_equal(slope, again)
    assert hidden.shape == (5, 4)
    assert value.shape == ()


def test_compiled_code_alone_cannot_be_watched():
    exe = weft.trace(lambda x: x + 1.0, X)
    with pytest.raises(weft.OptionError, match="requires the graph"):
        exe.watch("x")


def test_the_first_operator_that_gives_nan_is_named():
    exe = weft.compile(model(), trap_nan=True)
    assert [spec.name for spec in exe.outputs] == ["y"]
    (y,) = exe(np.abs(X), np.abs(W))
    np.testing.assert_array_equal(y, weft.compile(model())(np.abs(X), np.abs(W))[0])
    with pytest.raises(weft.InputError, match=r"got nan of graph\.sqrt at root$"):
        exe(X, W)
    with pytest.raises(weft.InputError, match="inputs without nan, got some in w"):
        exe.run({"x": X, "w": W * np.nan})
    with pytest.raises(weft.OptionError, match="calls from Python"):
        exe.export("model.so")


def test_errors_of_a_call_name_the_node():
    exe = weft.compile(parser.parse_model(TOLD))
    with pytest.raises(weft.InputError, match=r"a size of 0 to \d+ for \w+, got -2, at blown"):
        exe(np.array([-2]), np.float32(1))


def test_the_line_that_gives_an_infinity_is_named():
    def shares(x, mask):
        masked = wnp.where(mask, x, -np.inf)
        return wnp.softmax(masked, -1) + 1.0 / x

    mask = X.min(-1, keepdims=True) < X
    exe = weft.trace(shares, X, mask, trap_nan=True)
    y = exe(X, mask)  # infinities of the mask are the program's own
    assert np.isfinite(y).all()
    zero = np.where(np.eye(5, 4) > 0, 0, X).astype(np.float32)
    with pytest.raises(
        weft.InputError, match=r"an infinity of graph\.div at .*test_inside\.py:\d+"
    ):
        exe(zero, mask)


def test_jit_names_the_line_that_makes_nan():
    @weft.jit(trap_nan=True)
    def logarithms(x):
        below = x - 1
        return np.log(below) * 2

    np.testing.assert_allclose(logarithms(np.array([2.0, 3.0])), np.log([1, 2]) * 2)
    with pytest.raises(weft.InputError, match=r"infinity of graph.log at .*test_inside.py:\d+"):
        logarithms(np.array([1.0, 2.0]))
