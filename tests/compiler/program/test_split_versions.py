"""A product of open rows has a version for few of them and one for many."""

import numpy as np
import pytest
from onnx import parser

import weft
from weft.compilation import options_of
from weft.compiler.driver.named_sizes import parse_bound
from weft.compiler.driver.pipeline import naive_kernels
from weft.compiler.loop.schedules.gemm.problem import FEW_ROWS

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
PRODUCTS = """
layers (float[batch, length, 320] x, float[320, 640] v, float[640, 320] w, float[320] bias)
    => (float[batch, length, 320] y) {
  wide = MatMul(x, v)
  active = Relu(wide)
  narrow = MatMul(active, w)
  moved = Add(narrow, bias)
  y = Add(moved, x)
}
"""
ROWS = [(1, 1), (1, FEW_ROWS - 1), (1, FEW_ROWS), (2, FEW_ROWS // 2), (3, 17), (5, 40)]


def given(batch, length):
    draw = np.random.default_rng(batch * length)
    shapes = (batch, length, 320), (320, 640), (640, 320), (320,)
    return [draw.standard_normal(shape).astype(np.float32) / 8 for shape in shapes]


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_rows(threads):
    compiled = weft.compile(parser.parse_model(HEADER + PRODUCTS), threads=threads, cache=False)
    for rows in ROWS:
        x, v, w, bias = given(*rows)
        (y,) = compiled(x, v, w, bias)
        wide = np.maximum(x.astype(np.float64) @ v, 0)
        np.testing.assert_allclose(y, wide @ w + bias + x, rtol=1e-5, atol=1e-5)


def test_the_bits_do_not_depend_on_threads():
    model = parser.parse_model(HEADER + PRODUCTS)
    one, two = (weft.compile(model, threads=threads, cache=False) for threads in (1, 2))
    for rows in ROWS:
        np.testing.assert_array_equal(one(*given(*rows))[0], two(*given(*rows))[0])


def test_bounds_leave_one_version():
    model = parser.parse_model(HEADER + PRODUCTS)
    names = [products(model), products(model, bounds=[parse_bound(f"length={FEW_ROWS}..4096")])]
    assert [len(each) for each in names] == [4, 2]


def products(model, **options):
    source, options = model.SerializeToString(), options_of(b"", **options)
    return [name for name in naive_kernels(source, options) if "matmul" in name]
