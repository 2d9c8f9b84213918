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

NESTED = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[4] x, int64 n) => (float[4] y) {
    c = Constant<value = bool {1}>()
    y = Loop(n, c, x)<body = outer (int64 i, bool go, float[4] s) => (bool on, float[4] t) {
        on = Identity(go)
        root = Sqrt(s)
        t = Loop(i, go, root)<body = inner (int64 j, bool g, float[4] u) => (bool h, float[4] v) {
            h = Identity(g)
            half = Mul(u, u)
            v = Add(half, u) }> }> }"""

SCANNED = """<ir_version: 10, opset_import: ["" : 21]>
agraph (float[4] x, float[6, 4] w) => (float[4] y) {
    y = Scan<num_scan_inputs = 1, body = row (float[4] s, float[4] r) => (float[4] t) {
        total = Add(s, r)
        t = Tanh(total) }>(x, w) }"""

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


def of_loops(x):
    def step(i, x):
        y = weft.while_loop(lambda y: y.sum() < 40, lambda y: weft.watch(y * 2, "inner"), x + i)
        return weft.watch(x + y / 40, "outer")

    return weft.fori_loop(0, 5, step, x)


def test_a_loop_in_a_loop_gives_what_it_computes_in_its_order(tmp_path):
    x = np.linspace(1, 2, 3)
    state, inner, outer = x, [], []
    for i in range(5):
        y = state + i
        while y.sum() < 40:
            y = y * 2
            inner.append(y)
        state = state + y / 40
        outer.append(state)
    exe = weft.trace(of_loops, x)
    weft.save_graph(exe, tmp_path / "loops.mlir")
    for each in (exe, weft.compile(tmp_path / "loops.mlir", naive=True)):
        found = each.watch("outer", "inner")
        for got, right in zip(found(x), (state, outer, inner), strict=True):
            np.testing.assert_allclose(got, right)


def test_values_of_a_models_loops_are_watched_at_any_depth():
    x, exe = np.array([1, 2, 3, 4], np.float32), weft.compile(parser.parse_model(NESTED))
    y, root, half = exe.watch("root", "half")(x, np.int64(4))
    assert half.shape == (0 + 1 + 2 + 3, 4)
    assert root.shape == (4, 4)
    np.testing.assert_allclose(root[0], np.sqrt(x))
    np.testing.assert_allclose(half[0], root[1] ** 2)
    np.testing.assert_allclose(y, half[-1] + np.sqrt(half[-1]), rtol=1e-5)
    scanned = weft.compile(parser.parse_model(SCANNED)).watch("total")
    y, total = scanned(x, np.ones((6, 4), np.float32))
    np.testing.assert_allclose(y, np.tanh(total[-1]), rtol=1e-6)
    np.testing.assert_allclose(total[1:], np.tanh(total[:-1]) + 1, rtol=1e-6)
    with pytest.raises(weft.OptionError, match="values of the graph, got other"):
        exe.watch("half", "other")


def test_values_of_branches_of_a_model_are_refused():
    text = """<ir_version: 10, opset_import: ["" : 21]>
agraph (bool c, float[4] x) => (float[4] y) {
    y = If(c)<then_branch = yes () => (float[4] a) { e = Exp(x) a = Neg(e) },
              else_branch = no () => (float[4] b) { b = Neg(x) }> }"""
    exe = weft.compile(parser.parse_model(text))
    with pytest.raises(weft.WeftError, match=r"that every call computes, got e inside graph\.if"):
        exe.watch("e")
    never = parser.parse_model(text.replace("If(c)", "If(yes)").replace(
        "y = If", "yes = Constant<value = bool {0}>() y = If"
    ))  # fmt: skip
    with pytest.raises(weft.OptionError, match="values that calls compute, got e"):
        weft.compile(never).watch("e")


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
