"""Models whose shapes depend on the values of their inputs: compiled once, run with many."""
# pyright: basic

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from tests.support.shared_kernels import compile_shared
from weft.compiler.driver.options import Options
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import InputError

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def compiled(text: str):
    """The model of a graph in ONNX's text, as an executable and as onnx evaluates it."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    executable = compile_shared(model, Options(host_target())).executable(1)
    return executable, ReferenceEvaluator(model)


def check(text: str, *cases: dict[str, np.ndarray]) -> None:
    executable, reference = compiled(text)
    for inputs in cases:
        found = executable.run(inputs).values()
        wanted = map(np.asarray, reference.run(None, inputs))
        for given, expected in zip(found, wanted, strict=True):
            assert given.shape == expected.shape
            np.testing.assert_allclose(given, expected, rtol=1e-6)


def test_reshape_takes_its_shape_from_an_input():
    text = "agraph (float[n, 6] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }"
    shapes = [[3, 8], [-1, 4], [0, 6], [2, -1]]
    check(text, *({"x": X, "s": np.array(shape)} for shape in shapes))
    executable, _ = compiled(text)
    with pytest.raises(InputError, match="requires sizes"):
        executable.run({"x": X, "s": np.array([5, 5])})


def test_slice_clamps_bounds_that_it_is_given():
    text = """agraph (float[n, 6] x, int64[2] s, int64[2] e) => (float[a, b] y, float[c, d] z)
        <int64[2] steps = {1, -2}> { y = Slice(x, s, e) t = Constant<value_ints = [0, 1]>()
        z = Slice(x, s, e, t, steps) }"""
    bounds = [([0, 5], [4, 1]), ([-3, -1], [9, -9]), ([1, 3], [1, 3]), ([9, 0], [2, 6])]
    check(text, *({"x": X, "s": np.array(s), "e": np.array(e)} for s, e in bounds))


def test_expand_range_and_constants_take_sizes_from_inputs():
    text = """agraph (float[n, 1] x, int64[2] s, int64 m)
        => (float[a, b] y, int64[c] r, float[d, e] z) {
          y = Expand(x, s) zero = Constant<value_int = 0>() two = Constant<value_int = 2>()
          r = Range(zero, m, two) z = ConstantOfShape(s) }"""
    column = X[:, :1]
    cases = [([4, 3], 7), ([1, 5], 0), ([4, 1], -4)]
    check(text, *({"x": column, "s": np.array(s), "m": np.array(m)} for s, m in cases))


def test_what_is_counted_flows_through_further_operators():
    text = """agraph (float[n, 6] x, float limit)
        => (int64[2, k] places, float[m] kept, float total) {
          above = Greater(x, limit) places = NonZero(above)
          all = Constant<value_ints = [-1]>() flat = Reshape(above, all)
          kept_ = Compress(x, flat) kept = Neg(kept_)
          total = ReduceSum<keepdims = 0>(kept) }"""
    check(text, *({"x": X, "limit": np.array(limit, np.float32)} for limit in (5.5, -1, 100)))


def test_more_elements_than_an_axis_has_are_an_error_of_the_call():
    executable, _ = compiled(
        "agraph (float[n, 6] x, int64[1] k) => (float[n, m] y) { y, places = TopK(x, k) }"
    )
    (best,) = executable.run({"x": X, "k": np.array([2])}).values()
    np.testing.assert_array_equal(best, X[:, :3:-1])
    with pytest.raises(InputError, match="to be at most 6, got 7"):
        executable.run({"x": X, "k": np.array([7])})


def test_an_expand_to_the_type_that_it_has_still_requires_equal_sizes():
    """S6: folding an operator had dropped the check that its type rests on."""
    executable, _ = compiled(
        "agraph (float[n] x, float[m] z) => (float[n] y) { s = Shape(z) y = Expand(x, s) }"
    )
    (same,) = executable.run({"x": X[0], "z": X[0]}).values()
    np.testing.assert_array_equal(same, X[0])
    with pytest.raises(InputError, match="requires sizes"):
        executable.run({"x": X[0], "z": X[0][:2]})
