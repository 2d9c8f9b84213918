"""Gradients of compiled models: slopes of finite differences, and the derivative's derivative."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft
from tests.support.oracle import evaluate
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.graph.differentiate.differentiate import append_gradients
from weft.dialects.errors import ModelError, OptionError, UnsupportedError

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
SEED = (
    "agraph (double x1, double x2) => (double y) "
    "{ a = Log(x1) b = Mul(x1, x2) c = Sin(x2) d = Add(a, b) y = Sub(d, c) }"
)
FUNCTIONS = {
    "norm": """agraph (double[5] x) => (double y) {
        s = ReduceSumSquare<keepdims = 0>(x) y = Sqrt(s) }""",
    "mlp": """agraph (double[3, 4] x, double[4, 5] w, double[5] b) => (double y) {
        h = MatMul(x, w) a = Add(h, b) t = Tanh(a) y = ReduceMean<keepdims = 0>(t) }""",
    "cross entropy": """agraph (double[3, 4] x) => (double y) {
        l = LogSoftmax(x) m = Neg(l) y = ReduceMax<keepdims = 0>(m) }""",
    "convolution": """agraph (double[1, 2, 6, 6] x, double[3, 2, 3, 3] w) => (double y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w) r = Sigmoid(c)
        p = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(r)
        y = ReduceSum<keepdims = 0>(p) }""",
    "normalisation": """agraph (double[3, 8] x, double[8] g) => (double y) {
        n = LayerNormalization(x, g) e = Erf(n) y = ReduceSum<keepdims = 0>(e) }""",
    "used twice": """agraph (double[4] x) => (double y) {
        a = Exp(x) b = Mul(a, x) c = Add(b, a) y = ReduceSum<keepdims = 0>(c) }""",
    "moved": """agraph (double[2, 6] x) => (double y) {
        t = Transpose(x) s, u = Split<axis = 0, num_outputs = 2>(t) c = Concat<axis = 1>(u, s)
        q = Mul(c, c) k = Mul(q, c) y = ReduceSum<keepdims = 0>(k) }""",
}


def model_of(text: str) -> ModelProto:
    return parser.parse_model(f"{HEAD} {text}")


def test_the_gradient_of_the_first_example():
    function = weft.compile(model_of(SEED), gradients=("x1", "x2"))
    y, *gradient = function(np.float64(2), np.float64(5))
    assert y == pytest.approx(11.652071, abs=1e-6)
    assert gradient == [pytest.approx(5.5), pytest.approx(1.716338, abs=1e-6)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_slopes(name: str):
    model = model_of(FUNCTIONS[name])
    rng = np.random.default_rng(0)
    inputs = {
        value.name: rng.normal(size=[d.dim_value for d in value.type.tensor_type.shape.dim])
        for value in model.graph.input
    }
    outputs = weft.compile(model, gradients=tuple(inputs)).run(inputs)
    plain = weft.compile(model)
    for key, array in inputs.items():
        direction, step = rng.normal(size=array.shape), 1e-6
        upper, lower = (
            plain.run(inputs | {key: array + sign * step * direction})["y"] for sign in (1, -1)
        )
        slope = float(upper - lower) / (2 * step)
        found = float((outputs[f"grad_{key}"] * direction).sum())
        assert found == pytest.approx(slope, rel=1e-6, abs=1e-7)


def test_the_derivative_of_a_derivative():
    model = model_of("agraph (double x) => (double y) { s = Sin(x) y = Mul(s, x) }")
    module: Any = import_model(model).module
    function = module.ops.first
    append_gradients(function)
    terminator = function.get_return_op()
    terminator.operands = [terminator.operands[1], terminator.operands[0]]
    append_gradients(function)
    (_, _, second) = evaluate(function, [np.array(0.7)])
    assert second == pytest.approx(2 * np.cos(0.7) - 0.7 * np.sin(0.7))


@pytest.mark.parametrize(
    ("text", "inputs", "kind", "message"),
    [
        (SEED, ("x3",), OptionError, "inputs of x1, x2, got x3"),
        ("agraph (float[2] x) => (float[2] y) { y = Exp(x) }", ("x",), ModelError, "one float"),
        (
            "agraph (float x, int64 n) => (float y) { m = Cast<to = 1>(n) y = Mul(x, m) }",
            ("n",), ModelError, "inputs of floats, got n",
        ),
        (
            """agraph (float[1, 1, 2, 2] x, float[1, 5] r) => (float[1, 1, 1, 1] y) {
                 [pool] d = MaxRoiPool<pooled_shape = [1, 1]>(x, r) [e] y = Exp(d) }""",
            ("x",), UnsupportedError, "got graph.max_region_pool of node 'pool'",
        ),
    ],
)  # fmt: skip
def test_refuses(text: str, inputs: tuple[str, ...], kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        weft.compile(model_of(text), gradients=inputs)
