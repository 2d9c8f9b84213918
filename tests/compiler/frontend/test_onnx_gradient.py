"""ONNX's Gradient of a preview domain, against derivatives in closed form."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import weft


def model_of(graph: str) -> ModelProto:
    opsets = '"" : 18, "ai.onnx.preview.training" : 1'
    return parser.parse_model(f"<ir_version: 9, opset_import: [{opsets}]> agraph {graph}")


CHAIN = """(float[n, 3] a, float[3] b, float[n, 3] c) => (float[p, q] da, float[r] db) {
  s = Sigmoid (a)
  t = Mul (s, b)
  square = Mul (t, t)
  y = Add (square, c)
  da, db = ai.onnx.preview.training.Gradient <XS, y: string = "y"> (OPERANDS)
}"""


def gradients(xs: str, operands: str, *inputs: np.ndarray) -> list[np.ndarray]:
    text = CHAIN.replace("XS", xs).replace("OPERANDS", operands)
    return weft.compile(model_of(text), cache=False)(*inputs)


def test_derivatives_of_the_sum_of_what_nodes_compute():
    a, b, c = (np.random.default_rng(7).random(shape, np.float32) for shape in ((2, 3), 3, (2, 3)))
    s = 1 / (1 + np.exp(-a))
    da, db = gradients('xs: strings = ["a", "b"]', "a, b", a, b, c)
    np.testing.assert_allclose(da, 2 * s * b * b * s * (1 - s), 1e-5)
    np.testing.assert_allclose(db, (2 * s * s * b).sum(0), 1e-5)


def test_derivatives_where_values_between_are_given():
    a, b, c = (np.random.default_rng(7).random(shape, np.float32) for shape in ((2, 3), 3, (2, 3)))
    attributes = 'xs: strings = ["s", "a"], zs: strings = ["b"]'
    ds, da = gradients(attributes, "c, a, b", a, b, c)
    np.testing.assert_allclose(ds, 2 * c * b * b, 1e-5)
    np.testing.assert_array_equal(da, np.zeros_like(a))  # y needs `s` alone, which is given


SQUARE = "square = Mul (t, t)"
REGION = """axes = Constant <value = int64[2] {0, 1}> () u = Unsqueeze (t, axes)
    region = Constant <value = float[1, 5] {0.0, 0.0, 0.0, 1.0, 1.0}> ()
    square = MaxRoiPool <pooled_shape = [2, 3]> (u, region)"""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('["a", "b"]', '["a"]', "requires an operand for each of a, got 2"),
        ('y: string = "y"', 'y: string = "z"', "requires a y that nodes compute, got 'z'"),
        ("Add (square, c)", "Equal (square, c)", "requires floats as y"),
        (SQUARE, REGION, "requires operators with derivatives, got graph.max_region_pool"),
    ],
)
def test_what_has_no_derivative_is_refused(old: str, new: str, rule: str):
    text = CHAIN.replace("XS", 'xs: strings = ["a", "b"]').replace("OPERANDS", "a, b")
    with pytest.raises(weft.WeftError, match=rule):
        weft.compile(model_of(text.replace(old, new)), cache=False)
