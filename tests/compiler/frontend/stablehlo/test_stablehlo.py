"""Programs of StableHLO beside NumPy: text in, arrays out."""

# ruff: noqa: E501

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

import weft
from weft.compiler.frontend.stablehlo.from_stablehlo import import_stablehlo, read_stablehlo
from weft.dialects.errors import ModelError, WeftError

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def run(text: str, *inputs: Any) -> tuple[Any, ...]:
    """The results of a function's text."""
    module = read_stablehlo(textwrap.dedent(text), "program")
    return tuple(weft.compile(import_stablehlo(module, "program"))(*inputs))


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


def test_elementwise():
    x, y, n = floats(2, 3), floats(2, 3), np.array([7, -7, 0], np.int32)
    found = run(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %n: tensor<3xi32>)
            -> (tensor<2x3xf32>, tensor<2x3xi1>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi1>) {
          %a = stablehlo.atan2 %x, %y : tensor<2x3xf32>
          %b = stablehlo.compare GE, %x, %y, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
          %two = stablehlo.constant dense<[2, 2, 0]> : tensor<3xi32>
          %c = stablehlo.divide %n, %two : tensor<3xi32>
          %d = stablehlo.remainder %n, %two : tensor<3xi32>
          %e = stablehlo.popcnt %n : tensor<3xi32>
          %low = stablehlo.constant dense<[false, true, true]> : tensor<3xi1>
          %high = stablehlo.constant dense<[true, true, false]> : tensor<3xi1>
          %bools = stablehlo.constant dense<false> : tensor<3xi1>
          %f = stablehlo.clamp %low, %bools, %high : tensor<3xi1>
          return %a, %b, %c, %d, %e, %f : tensor<2x3xf32>, tensor<2x3xi1>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi1>
        }
        """,
        x, y, n,
    )  # fmt: skip
    close(found[0], np.arctan2(x, y))
    assert (found[1] == (x >= y)).all()
    assert found[2].tolist() == [3, -3, -1]  # over zero all bits are set, as XLA has it
    assert found[3].tolist() == [1, -1, 0]
    assert found[4].tolist() == [3, 30, 0]
    assert found[5].tolist() == [False, True, False]


def test_functions_of_chlo():
    x = np.array([-0.9, -0.1, 0.3, 0.99], np.float32)
    found = run(
        """
        func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
          %a = chlo.erf_inv %x : tensor<4xf32> -> tensor<4xf32>
          %b = chlo.lgamma %x : tensor<4xf32> -> tensor<4xf32>
          %c = chlo.erfc %x : tensor<4xf32> -> tensor<4xf32>
          %d = stablehlo.cbrt %x : tensor<4xf32>
          return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
        }
        """,
        x,
    )
    assert np.allclose([math.erf(float(y)) for y in found[0]], x, atol=1e-6)
    close(found[1], [math.lgamma(float(v)) for v in x])
    close(found[2], [math.erfc(float(v)) for v in x])
    close(found[3], np.cbrt(x))


def test_series_of_chlo():
    n = np.array([0, 1, 2, 3, -1, 1.5], np.float32)
    x = np.array([0.5, 2, 3.5, -1.5, 1, 1], np.float32)
    s = np.array([2, 3, 2.5, 2, 1, 3], np.float32)
    y = np.array([1.5, 0.25, 7, -0.5, 2, -1], np.float32)
    found = run(
        """
        func.func @main(%n: tensor<6xf32>, %x: tensor<6xf32>, %s: tensor<6xf32>, %y: tensor<6xf32>)
            -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
          %a = chlo.polygamma %n, %x : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
          %b = chlo.broadcast_zeta %s, %y : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
          %c = chlo.bessel_i1e %x : tensor<6xf32> -> tensor<6xf32>
          return %a, %b, %c : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
        }
        """,
        n, x, s, y,
    )  # fmt: skip
    # what has no value: orders that are no whole numbers, poles of odd ones
    behind = 6 * (1.5**-4 + 0.5**-4 + special.zeta(4, 0.5)), 0.5**-2 + special.zeta(2, 0.5)
    close(found[0], [*special.polygamma(n[:3], x[:3]), behind[0], np.nan, np.nan])
    close(found[1], [*special.zeta(s[:3], y[:3]), behind[1], np.inf, np.nan])
    close(found[2], special.i1e(x))


def test_bits_of_floats_in_a_literal():
    (found,) = run(
        """
        func.func @main() -> tensor<2xf32> {
          %c = stablehlo.constant dense<[0x7F800000, 0xBF800000]> : tensor<2xf32>
          return %c : tensor<2xf32>
        }
        """
    )
    assert found.tolist() == [math.inf, -1]


def test_a_reduction_of_any_body_takes_pairs():
    x = floats(3, 7)
    values, places = run(
        """
        func.func @main(%x: tensor<3x7xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
          %i = stablehlo.iota dim = 1 : tensor<3x7xi32>
          %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %r:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1] : (tensor<3x7xf32>, tensor<3x7xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
            reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
              %p = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %v = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f32>
              %w = stablehlo.select %p, %b, %d : tensor<i1>, tensor<i32>
              stablehlo.return %v, %w : tensor<f32>, tensor<i32>
            }
          return %r#0, %r#1 : tensor<3xf32>, tensor<3xi32>
        }
        """,
        x,
    )
    assert (values == x.max(1)).all()
    assert (places == x.argmax(1)).all()


def test_positions_of_extrema_are_operators_of_the_graph():
    text = """
        func.func @main(%x: tensor<4x5xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xi32>) {
          %n = stablehlo.iota dim = 1 : tensor<4x5xi32>
          %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %five = stablehlo.constant dense<5> : tensor<i32>
          BODIES
          return %a#0, %a#1, %b#0, %b#1 : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xi32>
        }
    """
    reduce = """
          %RESULT:2 = stablehlo.reduce(%x init: %START), (%n init: %PLACE) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
           reducer(%c: tensor<f32>, %e: tensor<f32>) (%d: tensor<i32>, %f: tensor<i32>) {
            %0 = stablehlo.compare GT, %c, %e, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %1 = stablehlo.compare NE, %c, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %2 = stablehlo.or %0, %1 : tensor<i1>
            %3 = stablehlo.compare EQ, %c, %e, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %4 = stablehlo.compare LT, %d, %f, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %5 = stablehlo.and %3, %4 : tensor<i1>
            %6 = stablehlo.or %5, %2 : tensor<i1>
            %7 = stablehlo.select %2, %c, %e : tensor<i1>, tensor<f32>
            %8 = stablehlo.select %6, %d, %f : tensor<i1>, tensor<i32>
            stablehlo.return %7, %8 : tensor<f32>, tensor<i32>
          }
    """
    pairs = (("a", "low", "zero"), ("b", "s", "five"))
    bodies = [
        reduce.replace("RESULT", result).replace("START", start).replace("PLACE", place)
        for result, start, place in pairs
    ]
    module = read_stablehlo(textwrap.dedent(text.replace("BODIES", "".join(bodies))), "program")
    imported = import_stablehlo(module, "program")
    assert str(imported.module).count("graph.arg_max") == 2
    x = np.array([[1, 4, 4, 0, 2], [1, np.nan, 9, np.nan, 0], [-np.inf] * 5, [7, 1, 1, 1, 1]], "f")
    found = weft.compile(imported)(x, np.float32(4))
    assert found[1].tolist() == [1, 1, 0, 0]
    assert found[3].tolist() == [1, 1, 5, 0]  # of equals the lower place, the start's own is 5
    np.testing.assert_array_equal(found[0], [4, np.nan, -np.inf, 7])
    np.testing.assert_array_equal(found[2], [4, np.nan, 4, 7])


def test_sums_of_complex_numbers_begin_with_any():
    x, y = floats(2, 3), floats(2, 3)
    found = run(
        """
        func.func @main(%x: tensor<2x3xcomplex<f32>>, %s: tensor<complex<f32>>) -> tensor<3xcomplex<f32>> {
          %a = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0] : (tensor<2x3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
          return %a : tensor<3xcomplex<f32>>
        }
        """,
        x, y, np.float32(1), np.float32(-2),
    )  # fmt: skip
    close(found[0], x.sum(0) + 1)
    close(found[1], y.sum(0) - 2)


def test_windows_with_padding_and_what_is_chosen_of_them():
    x, source = floats(4, 4), floats(2, 2)
    pooled, scattered = run(
        """
        func.func @main(%x: tensor<4x4xf32>, %s: tensor<2x2xf32>) -> (tensor<3x3xf32>, tensor<4x4xf32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %p = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 3, 3>, window_strides = array<i64: 2, 2>, padding = dense<[[1, 2], [1, 2]]> : tensor<2x2xi64>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %c : tensor<f32>
          }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<3x3xf32>
          %q = "stablehlo.select_and_scatter"(%x, %s, %zero) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }, {
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %c : tensor<f32>
          }) : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x4xf32>
          return %p, %q : tensor<3x3xf32>, tensor<4x4xf32>
        }
        """,
        x, source,
    )  # fmt: skip
    wide = np.pad(x, ((1, 2), (1, 2)))
    close(pooled, [[wide[i : i + 3, j : j + 3].sum() for j in (0, 2, 4)] for i in (0, 2, 4)])
    expected = np.zeros_like(x)
    for i, j in np.ndindex(2, 2):
        block = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        row, column = np.unravel_index(block.argmax(), block.shape)
        expected[2 * i + row, 2 * j + column] = source[i, j]
    assert (scattered == expected).all()


def test_gather_moves_windows_inside_and_scatter_leaves_them_out():
    x, updates = floats(5, 4), floats(2, 2, 4)
    starts = np.array([[4], [1]], np.int32)  # the first window of two rows ends outside
    taken, written = run(
        """
        func.func @main(%x: tensor<5x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2x2x4xf32>) -> (tensor<2x2x4xf32>, tensor<5x4xf32>) {
          %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>}> : (tensor<5x4xf32>, tensor<2x1xi32>) -> tensor<2x2x4xf32>
          %s = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %c = stablehlo.subtract %a, %b : tensor<f32>
            stablehlo.return %c : tensor<f32>
          }) : (tensor<5x4xf32>, tensor<2x1xi32>, tensor<2x2x4xf32>) -> tensor<5x4xf32>
          return %g, %s : tensor<2x2x4xf32>, tensor<5x4xf32>
        }
        """,
        x, starts, updates,
    )  # fmt: skip
    assert (taken == np.stack([x[3:5], x[1:3]])).all()
    expected = x.copy()
    expected[4] -= updates[0, 0]
    expected[1:3] -= updates[1]
    close(written, expected)


def test_sort_by_two_keys():
    keys = np.array([2, 1, 2, 1, 0], np.int32)
    values = np.array([5, 4, 3, 9, 7], np.int32)
    found = run(
        """
        func.func @main(%k: tensor<5xi32>, %v: tensor<5xi32>) -> (tensor<5xi32>, tensor<5xi32>) {
          %r:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({
          ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
            %less = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %same = stablehlo.compare EQ, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %more = stablehlo.compare GT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %both = stablehlo.and %same, %more : tensor<i1>
            %p = stablehlo.or %less, %both : tensor<i1>
            stablehlo.return %p : tensor<i1>
          }) : (tensor<5xi32>, tensor<5xi32>) -> (tensor<5xi32>, tensor<5xi32>)
          return %r#0, %r#1 : tensor<5xi32>, tensor<5xi32>
        }
        """,
        keys, values,
    )  # fmt: skip
    order = np.lexsort((-values, keys))
    assert (found[0] == keys[order]).all()
    assert (found[1] == values[order]).all()


def test_a_comparator_of_any_form_sorts_lines_of_any_length():
    text = """
        func.func @main(%k: tensor<?x?xi32>, %v: tensor<?x?xi32>) -> (tensor<?x?xi32>, tensor<?x?xi32>) {
          %r:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({
          ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
            %x = stablehlo.subtract %a, %b : tensor<i32>
            %y = stablehlo.subtract %d, %c : tensor<i32>
            %p = stablehlo.compare LT, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }) : (tensor<?x?xi32>, tensor<?x?xi32>) -> (tensor<?x?xi32>, tensor<?x?xi32>)
          return %r#0, %r#1 : tensor<?x?xi32>, tensor<?x?xi32>
        }
        """
    module = read_stablehlo(textwrap.dedent(text), "program")
    sort = weft.compile(import_stablehlo(module, "program"))
    for size in (1, 2, 5, 8, 300):
        k, v = (RANDOM.integers(-9, 9, (size, 3)).astype(np.int32) for _ in "kv")
        order = np.argsort(k + v, 0, kind="stable")
        for found, given in zip(sort(k, v), (k, v), strict=True):
            assert (found == np.take_along_axis(given, order, 0)).all()


def test_floats_sort_in_total_order():
    x = np.array([0.0, -0.0, np.nan, -np.inf, 1.0], np.float32)
    (found,) = run(
        """
        func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
          %y = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }) : (tensor<5xf32>) -> tensor<5xf32>
          return %y : tensor<5xf32>
        }
        """,
        x,
    )
    assert np.array_equal(found, x[[3, 1, 0, 4, 2]], equal_nan=True)
    assert np.signbit(found[:3]).tolist() == [True, True, False]


def test_convolution_of_any_layout():
    x, w = floats(1, 5, 5, 2), floats(3, 3, 1, 4)
    (found,) = run(
        """
        func.func @main(%x: tensor<1x5x5x2xf32>, %w: tensor<3x3x1x4xf32>) -> tensor<1x5x5x4xf32> {
          %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]], reverse = [true, true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x5x5x2xf32>, tensor<3x3x1x4xf32>) -> tensor<1x5x5x4xf32>
          return %y : tensor<1x5x5x4xf32>
        }
        """,
        x, w,
    )  # fmt: skip
    wide, turned = np.pad(x[0], ((1, 1), (1, 1), (0, 0))), w[::-1, ::-1, 0]
    expected = np.zeros((5, 5, 4), np.float32)
    for i, j, o in np.ndindex(5, 5, 4):
        expected[i, j, o] = (wide[i : i + 3, j : j + 3, o // 2] * turned[..., o]).sum()
    close(found[0], expected)


BATCH_NORM = """
func.func @main(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %g: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) {
  %t:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %i = "stablehlo.batch_norm_inference"(%x, %s, %o, %t#1, %t#2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  %d:3 = "stablehlo.batch_norm_grad"(%x, %s, %t#1, %t#2, %g) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return %i, %t#0, %d#0, %d#1, %d#2 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>
}
"""


def test_batch_normalisation_and_its_slopes():
    x, slope, (scale, offset) = floats(2, 3, 4), floats(2, 3, 4), floats(2, 3)
    inference, *found = run(BATCH_NORM, x, scale, offset, slope)

    def trained(x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
        return (x - mean) / np.sqrt(variance + 0.1) * scale[:, None] + offset[:, None]

    given = [each.astype(np.float64) for each in (x, scale, offset)]
    close(inference, trained(*given))
    close(found[0], trained(*given))
    for position, slopes in enumerate(found[1:]):
        step = RANDOM.standard_normal(given[position].shape)
        moved = [[*given] for _ in range(2)]
        for side, sign in zip(moved, (1, -1), strict=True):
            side[position] = side[position] + sign * 1e-5 * step
        difference = (trained(*moved[0]) - trained(*moved[1])) / 2e-5
        close((slopes * step).sum(), (difference * slope).sum())


def test_tuples_einsum_and_slices_by_indices():
    x, y, rows = floats(2, 3), floats(3, 4), np.array([1, 0], np.int32)
    product, sums, first, second = run(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %i: tensor<2xi32>) -> (tensor<2x4xf32>, tensor<2xf32>, tuple<tensor<2x3xf32>, tensor<2x3xf32>>) {
          %o = stablehlo.einsum %x, %y, config = "ab,bc->ac" : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
          %u = "stablehlo.unary_einsum"(%x) <{einsum_config = "ab->a"}> : (tensor<2x3xf32>) -> tensor<2xf32>
          %t = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
          %c = stablehlo.complex %x, %t : tensor<2x3xcomplex<f32>>
          %n = stablehlo.tuple %u : tuple<tensor<2xf32>>
          %p = stablehlo.tuple %n, %c, %t : tuple<tuple<tensor<2xf32>>, tensor<2x3xcomplex<f32>>, tensor<2x3xf32>>
          %q = stablehlo.get_tuple_element %p[1] : (tuple<tuple<tensor<2xf32>>, tensor<2x3xcomplex<f32>>, tensor<2x3xf32>>) -> tensor<2x3xcomplex<f32>>
          %r = stablehlo.imag %q : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
          %m = stablehlo.get_tuple_element %p[0] : (tuple<tuple<tensor<2xf32>>, tensor<2x3xcomplex<f32>>, tensor<2x3xf32>>) -> tuple<tensor<2xf32>>
          %v = stablehlo.get_tuple_element %m[0] : (tuple<tensor<2xf32>>) -> tensor<2xf32>
          %w = stablehlo.tuple %r, %x : tuple<tensor<2x3xf32>, tensor<2x3xf32>>
          return %o, %v, %w : tensor<2x4xf32>, tensor<2xf32>, tuple<tensor<2x3xf32>, tensor<2x3xf32>>
        }
        """,
        x, y, rows,
    )  # fmt: skip
    close(product, x @ y)
    close(sums, x.sum(1))
    assert (first == x[rows]).all()
    assert (second == x).all()


def test_products_of_ragged_rows():
    x, matrices, sizes = floats(2, 7, 5), floats(3, 2, 5, 4), np.array([3, 0, 4], np.int32)
    (found,) = run(
        """
        func.func @main(%x: tensor<2x7x5xf32>, %y: tensor<3x2x5x4xf32>, %n: tensor<3xi32>) -> tensor<2x7x4xf32> {
          %r = "chlo.ragged_dot"(%x, %y, %n) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>, precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]} : (tensor<2x7x5xf32>, tensor<3x2x5x4xf32>, tensor<3xi32>) -> tensor<2x7x4xf32>
          return %r : tensor<2x7x4xf32>
        }
        """,
        x, matrices, sizes,
    )  # fmt: skip
    close(found[:, :3], x[:, :3] @ matrices[0])
    close(found[:, 3:], x[:, 3:] @ matrices[2])


def test_numbers_drawn_between_others():
    text = """
        func.func @main(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> (tensor<3000xf32>, tensor<3000xf32>, tensor<3000xi32>) {
          %n = stablehlo.constant dense<[3000]> : tensor<1xi64>
          %r = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3000xf32>
          %s = stablehlo.rng %a, %b, %n, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3000xf32>
          %i = stablehlo.rng %c, %d, %n, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<3000xi32>
          return %r, %s, %i : tensor<3000xf32>, tensor<3000xf32>, tensor<3000xi32>
        }
        """
    bounds = np.float32(2), np.float32(5), np.int32(-3), np.int32(4)
    even, normal, whole = run(text, *bounds)
    assert stats.kstest(even, "uniform", (2, 3)).pvalue > 0.01
    assert stats.kstest(normal, "norm", (2, 5)).pvalue > 0.01
    assert stats.chisquare(np.bincount(whole + 3, minlength=7)).pvalue > 0.01
    assert abs(np.corrcoef(even, normal)[0, 1]) < 0.05


def test_control_flow_and_calls():
    x = floats(4)
    text = """
        func.func public @main(%n: tensor<i32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %r:2 = stablehlo.while(%k = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
            cond {
              %p = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %p : tensor<i1>
            } do {
              %one = stablehlo.constant dense<1> : tensor<i32>
              %m = stablehlo.add %k, %one : tensor<i32>
              %w = func.call @twice(%v) : (tensor<4xf32>) -> tensor<4xf32>
              stablehlo.return %m, %w : tensor<i32>, tensor<4xf32>
            }
          %c = "stablehlo.case"(%n) ({
            %a = stablehlo.negate %x : tensor<4xf32>
            stablehlo.return %a : tensor<4xf32>
          }, {
            stablehlo.return %x : tensor<4xf32>
          }) : (tensor<i32>) -> tensor<4xf32>
          return %r#1, %c : tensor<4xf32>, tensor<4xf32>
        }
        func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = stablehlo.add %x, %x : tensor<4xf32>
          return %y : tensor<4xf32>
        }
    """
    module = read_stablehlo(textwrap.dedent(text), "program")
    exe = weft.compile(import_stablehlo(module, "program"))
    for count in (0, 3):
        powers, chosen = exe(np.asarray(count, np.int32), x)
        assert (powers == x * 2**count).all()
        assert (chosen == (x if count else -x)).all()


COUNTS = """
    func.func @main(%x: tensor<6xf32>) -> (tensor<FORM>, tensor<6xf32>, tensor<6xf32>) {
      %first = stablehlo.constant dense<FIRST> : tensor<FORM>
      %last = stablehlo.constant dense<5> : tensor<FORM>
      %step = stablehlo.constant dense<STEP> : tensor<FORM>
      %zero = stablehlo.constant dense<0.0> : tensor<6xf32>
      %r:4 = stablehlo.while(%k = %first, %n = %last, %v = %x, %z = %zero)
          : tensor<FORM>, tensor<FORM>, tensor<6xf32>, tensor<6xf32>
        cond {
          %p = stablehlo.compare LT, %k, %n : (tensor<FORM>, tensor<FORM>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %m = stablehlo.add %k, %step : tensor<FORM>
          %o = stablehlo.dynamic_slice %v, %k, sizes = [1] : (tensor<6xf32>, tensor<FORM>) -> tensor<1xf32>
          %y = stablehlo.dynamic_update_slice %z, %o, %k : (tensor<6xf32>, tensor<1xf32>, tensor<FORM>) -> tensor<6xf32>
          %w = stablehlo.add %v, %v : tensor<6xf32>
          stablehlo.return %m, %n, %w, %y : tensor<FORM>, tensor<FORM>, tensor<6xf32>, tensor<6xf32>
        }
      return %r#0, %r#2, %r#3 : tensor<FORM>, tensor<6xf32>, tensor<6xf32>
    }
"""


@pytest.mark.parametrize(
    ("form", "first", "step", "loop"),
    [("i32", 2, 1, "for"), ("ui8", 7, 1, ""), ("i64", -3, 1, "for"), ("i32", 0, 2, "while")],
)
def test_loops_that_count(form: str, first: int, step: int, loop: str):
    x = floats(6)
    text = COUNTS.replace("FORM", form).replace("FIRST", str(first)).replace("STEP", str(step))
    imported = import_stablehlo(read_stablehlo(textwrap.dedent(text), "program"), "program")
    assert {each for each in ("for", "while") if f"graph.{each} " in str(imported.module)} == {
        each for each in (loop,) if each
    }
    count, powers, kept = weft.compile(imported)(x)
    numbers = range(first, 5, step)
    expected = np.zeros(6, np.float32)
    for at, number in enumerate(numbers):
        expected[max(number, 0)] = x[max(number, 0)] * 2**at  # indices are moved inside
    assert count == first + step * len(numbers)
    assert (powers == x * 2 ** len(numbers)).all()
    assert (kept == expected).all()


def test_linear_algebra():
    root = np.tril(floats(4, 4)) + 3 * np.eye(4, dtype=np.float32)
    b = floats(4, 2)
    factor, solution = run(
        """
        func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x2xf32>) -> (tensor<4x4xf32>, tensor<4x2xf32>) {
          %l = stablehlo.cholesky %a, lower = true : tensor<4x4xf32>
          %x = "stablehlo.triangular_solve"(%l, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
          return %l, %x : tensor<4x4xf32>, tensor<4x2xf32>
        }
        """,
        root @ root.T, b,
    )  # fmt: skip
    np.testing.assert_allclose(factor, root, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(root.T @ solution, b, rtol=1e-4, atol=1e-4)


def test_linear_algebra_by_halves():
    """Matrices of more than one block, also where the other half is what counts."""
    size = 150
    root = np.tril(floats(size, size)) / 20 + np.eye(size, dtype=np.float32)
    right = floats(size, 2)
    results = run(
        f"""
        func.func @main(%a: tensor<{size}x{size}xf32>, %l: tensor<{size}x{size}xf32>, %b: tensor<{size}x2xf32>) -> (tensor<{size}x{size}xf32>, tensor<{size}x2xf32>, tensor<{size}x2xf32>) {{
          %f = stablehlo.cholesky %a, lower = true : tensor<{size}x{size}xf32>
          %x = "stablehlo.triangular_solve"(%l, %b) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : (tensor<{size}x{size}xf32>, tensor<{size}x2xf32>) -> tensor<{size}x2xf32>
          %y = "stablehlo.triangular_solve"(%l, %b) <{{left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}}> : (tensor<{size}x{size}xf32>, tensor<{size}x2xf32>) -> tensor<{size}x2xf32>
          return %f, %x, %y : tensor<{size}x{size}xf32>, tensor<{size}x2xf32>, tensor<{size}x2xf32>
        }}
        """,
        np.tril(root @ root.T), root, right,
    )  # fmt: skip
    factor, solution, other = results
    np.testing.assert_allclose(factor, root, rtol=1e-3, atol=1e-4)
    unit = np.tril(root, -1) + np.eye(size)
    np.testing.assert_allclose(root @ solution, right, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(unit.T @ other, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dims", [(3, 1000), (30, 48), (2, 34)])
def test_transforms_along_several_dims(dims):
    """Passes of many elements side by side, of lines, and products for what has a great factor."""
    z = (floats(*dims) + 1j * floats(*dims)).astype(np.complex64)
    of_type = f"tensor<{dims[0]}x{dims[1]}xcomplex<f32>>"
    text = f"""
        func.func @main(%x: {of_type}) -> {of_type} {{
          %y = stablehlo.fft %x, type = FFT, length = [{dims[0]}, {dims[1]}] : ({of_type}) -> {of_type}
          return %y : {of_type}
        }}
    """
    real, imag = run(text, z.real, z.imag)
    wanted = np.fft.fft2(z)
    scale = 3e-7 * np.abs(wanted).max()
    np.testing.assert_allclose(real + 1j * imag, wanted, rtol=0, atol=scale)


@pytest.mark.parametrize(("dtype", "size"), [("f4", 9000), ("f8", 100), ("i1", 40), ("u8", 33)])
def test_long_lines_are_sorted_by_digits(dtype, size):
    """Each digit of each width, both zeros, NaNs, and the order of equal elements."""
    x = RANDOM.integers(-128 if "u" not in dtype else 0, 128, (2, size))
    x = (x * (1 << 40) + x if dtype == "u8" else x).astype(dtype)
    if dtype[0] == "f":
        x[:, ::5], x[:, 1::5], x[:, 2::25] = -0.0, 0.0, np.nan
        x[0, :3] = -np.inf, np.inf, -np.nan
    for descending in (False, True):
        found = np.asarray(weft.numpy.argsort(weft.numpy.asarray(x), descending=descending))
        order = np.argsort(np.flip(x, 1) if descending else x, 1, kind="stable")
        np.testing.assert_array_equal(found, size - 1 - np.flip(order, 1) if descending else order)


def test_complex_linear_algebra():
    """A Hermitian system by its factor, through the adjoint."""
    x, y = floats(3, 3), floats(3, 3)
    z = x + 1j * y
    hermitian = (z @ z.conj().T + np.eye(3)).astype(np.complex64)
    factor = "tensor<3x3xcomplex<f32>>"
    found = run(
        f"""
        func.func @main(%x: tensor<3x3xf32>, %y: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>) {{
          %a = stablehlo.complex %x, %y : {factor}
          %l = stablehlo.cholesky %a, lower = true : {factor}
          %s = "stablehlo.triangular_solve"(%l, %a) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({factor}, {factor}) -> {factor}
          %u = "stablehlo.triangular_solve"(%l, %s) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>}}> : ({factor}, {factor}) -> {factor}
          %p = stablehlo.maximum %u, %l : {factor}
          %q = stablehlo.real %p : ({factor}) -> tensor<3x3xf32>
          %r = stablehlo.imag %u : ({factor}) -> tensor<3x3xf32>
          return %q, %r : tensor<3x3xf32>, tensor<3x3xf32>
        }}
        """,
        hermitian.real.copy(), hermitian.imag.copy(),
    )  # fmt: skip
    lower = np.linalg.cholesky(hermitian)
    np.testing.assert_allclose(found[0], np.maximum(np.eye(3), lower.real), atol=1e-5)
    np.testing.assert_allclose(found[1], np.zeros((3, 3)), atol=1e-5)


def test_complex_numbers_are_pairs():
    x, y = floats(2, 3), floats(2, 3)
    real, imag, size = run(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
          %z = stablehlo.complex %x, %y : tensor<2x3xcomplex<f32>>
          %f = stablehlo.fft %z, type = FFT, length = [3] : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
          %w = stablehlo.divide %f, %z : tensor<2x3xcomplex<f32>>
          %r = stablehlo.real %w : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
          %i = stablehlo.imag %w : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
          %a = stablehlo.abs %w : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
          return %r, %i, %a : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
        }
        """,
        x, y,
    )  # fmt: skip
    z = x + 1j * y
    expected = np.fft.fft(z) / z
    np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-4)
    np.testing.assert_allclose(size, np.abs(expected), rtol=1e-4)


def test_narrow_types_are_computed_in_wider_ones():
    x = np.arange(-8, 8).astype(ml_dtypes.int4)
    f = np.array([0.3, -1.9, 200.0, 0.01], ml_dtypes.float8_e3m4)
    found = run(
        """
        func.func @main(%x: tensor<16xi4>, %f: tensor<4xf8E3M4>)
            -> (tensor<16xi4>, tensor<i4>, tensor<4xf8E3M4>, tensor<4xi8>, tensor<8xi8>) {
          %three = stablehlo.constant dense<3> : tensor<i4>
          %threes = stablehlo.broadcast_in_dim %three, dims = [] : (tensor<i4>) -> tensor<16xi4>
          %a = stablehlo.multiply %x, %threes : tensor<16xi4>
          %b = stablehlo.reduce(%x init: %three) applies stablehlo.xor across dimensions = [0] : (tensor<16xi4>, tensor<i4>) -> tensor<i4>
          %c = stablehlo.multiply %f, %f : tensor<4xf8E3M4>
          %d = stablehlo.bitcast_convert %f : (tensor<4xf8E3M4>) -> tensor<4xi8>
          %rows = stablehlo.reshape %x : (tensor<16xi4>) -> tensor<8x2xi4>
          %e = stablehlo.bitcast_convert %rows : (tensor<8x2xi4>) -> tensor<8xi8>
          return %a, %b, %c, %d, %e : tensor<16xi4>, tensor<i4>, tensor<4xf8E3M4>, tensor<4xi8>, tensor<8xi8>
        }
        """,
        x, f,
    )  # fmt: skip
    wide = x.astype(np.int8)
    assert found[0].tolist() == (wide * 3).astype(ml_dtypes.int4).tolist()
    assert int(found[1]) == int(np.bitwise_xor.reduce(wide) ^ 3)
    expected = (f.astype("f") * f.astype("f")).astype(f.dtype)
    assert found[2].view(np.uint8).tolist() == expected.view(np.uint8).tolist()
    assert found[3].tolist() == f.view(np.int8).tolist()
    low, high = wide.reshape(8, 2).T.astype(np.uint8)
    assert found[4].tolist() == (low % 16 + high * 16).view(np.int8).tolist()


def test_upper_halves_of_products_and_scans():
    x = np.array([2**62, -(2**62), -5], np.int64)
    y = np.array([12, 12, 2**63 - 1], np.int64)
    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = run(
        """
        func.func @main(%x: tensor<3xi64>, %y: tensor<3xi64>, %z: tensor<3x4xi32>)
            -> (tensor<3xi64>, tensor<3x4xi32>, tensor<3xi32>) {
          %a = chlo.mulhi %x, %y : tensor<3xi64>, tensor<3xi64> -> tensor<3xi64>
          %zero = stablehlo.constant dense<0> : tensor<3xi32>
          %b:2 = chlo.scan(%z) inits(%zero) dimension=1 attributes {is_reverse = true} {
          ^bb0(%each: tensor<3xi32>, %before: tensor<3xi32>):
            %sum = stablehlo.add %each, %before : tensor<3xi32>
            stablehlo.return %before, %sum : tensor<3xi32>, tensor<3xi32>
          } : (tensor<3x4xi32>, tensor<3xi32>) -> (tensor<3x4xi32>, tensor<3xi32>)
          return %a, %b#0, %b#1 : tensor<3xi64>, tensor<3x4xi32>, tensor<3xi32>
        }
        """,
        x, y, rows,
    )  # fmt: skip
    assert found[0].tolist() == [int(a) * int(b) >> 64 for a, b in zip(x, y, strict=True)]
    sums = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
    assert found[1].tolist() == (sums - rows).tolist()
    assert found[2].tolist() == sums[:, 0].tolist()


COLLECTIVES = """
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<ui32>) {
  %a = "stablehlo.all_reduce"(%x) <{replica_groups = dense<GROUPS> : tensor<1xSIZExi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  %b = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  %c = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  %d = stablehlo.partition_id : tensor<ui32>
  return %a, %b, %c, %d : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<ui32>
}
"""


def test_collectives_of_one_device():
    x = floats(2)
    found = run(COLLECTIVES.replace("GROUPS", "0").replace("SIZE", "1"), x)
    assert [each.tolist() for each in found] == [x.tolist(), x.tolist(), [0, 0], 0]
    with pytest.raises(WeftError, match="requires one device, got replica_groups"):
        run(COLLECTIVES.replace("GROUPS", "[[0, 1]]").replace("SIZE", "2"), x)


def test_quantised_tensors():
    x = floats(2, 3)
    (found,) = run(
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
          %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.25:-3>>
          %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 0.25:-3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.25:-3>>
          %s = stablehlo.add %t, %t : (tensor<3x2x!quant.uniform<i8:f32, 0.25:-3>>, tensor<3x2x!quant.uniform<i8:f32, 0.25:-3>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:1>>
          %y = stablehlo.uniform_dequantize %s : (tensor<3x2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<3x2xf32>
          return %y : tensor<3x2xf32>
        }
        """,
        x,
    )
    assert (found == 2 * (np.rint(x.T / 0.25) * 0.25)).all()


def test_quantised_by_axis():
    (found,) = run(
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xi8> {
          %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25}>>
          %y = stablehlo.bitcast_convert %q : (tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {0.5:-3, 0.25}>>) -> tensor<2x3xi8>
          return %y : tensor<2x3xi8>
        }
        """,
        np.array([[1, -2, 90], [1, 2, -90]], np.float32),
    )
    assert found.tolist() == [[-1, -7, 127], [4, 8, -127]]


@pytest.mark.parametrize(
    ("algorithm", "counter", "expected"),
    [  # what XLA gives
        ("THREE_FRY", 6, [1576285164, 2249660814, 740599976, 2425682526, 2436392515]),
        ("PHILOX", 5, [512747620, 1298009047, 1267190206, 761827841, 1383286907]),
    ],
)
def test_random_bits(algorithm: str, counter: int, expected: list[int]):
    state, bits = run(
        f"""
        func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>) {{
          %next, %bits = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>)
          return %next, %bits : tensor<2xui64>, tensor<5xui32>
        }}
        """,
        np.array([1, 2, 3, 4], np.uint32).view(np.uint64),
    )
    assert state.view(np.uint32).tolist() == [1, 2, counter, 4]
    assert bits.tolist() == expected


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [  # known answers of the authors' library
        ((0, 0), (0, 0), [0x6B200159, 0x99BA4EFE]),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), [0xC4923A9C, 0x483DF7A0]),
    ],
)
def test_words_of_threefry(key: tuple[int, int], count: tuple[int, int], expected: list[int]):
    words = (np.uint32(each) for each in key), (np.full(3, each, np.uint32) for each in count)
    found = run(
        """
        func.func @main(%k: tensor<ui32>, %l: tensor<ui32>, %x: tensor<3xui32>, %y: tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>) {
          %r:2 = stablehlo.custom_call @weft.threefry(%k, %l, %x, %y) : (tensor<ui32>, tensor<ui32>, tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>)
          return %r#0, %r#1 : tensor<3xui32>, tensor<3xui32>
        }
        """,
        *(np.asarray(each) for pair in words for each in pair),
    )
    assert [each.tolist() for each in found] == [3 * [each] for each in expected]


VARYING = """
    func.func @main(%n: tensor<i64>, %x: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %i = stablehlo.convert %n : (tensor<i64>) -> tensor<i32>
      %v = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
      %three = stablehlo.constant dense<3> : tensor<1xi32>
      %s = stablehlo.concatenate %v, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %o = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
      %y = stablehlo.add %x, %o : tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }
"""


def test_sizes_that_vary():
    exe = weft.compile(import_stablehlo(read_stablehlo(VARYING, "varying"), "varying"))
    for size in (1, 4):
        x = floats(size, 3)
        assert (exe(np.asarray(size), x)[0] == x + 1).all()
    with pytest.raises(weft.InputError, match="arg0_size"):
        exe(np.asarray(3), floats(4, 3))


def test_a_convolution_is_padded_as_a_call_says():
    text = """
        func.func @main(%x: tensor<1x6x2xf32>, %w: tensor<3x2x4xf32>, %p: tensor<1x2xi32>) -> tensor<1x?x4xf32> {
          %y = "stablehlo.dynamic_conv"(%x, %w, %p) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, window_strides = array<i64: 2>} : (tensor<1x6x2xf32>, tensor<3x2x4xf32>, tensor<1x2xi32>) -> tensor<1x?x4xf32>
          return %y : tensor<1x?x4xf32>
        }
        """
    convolve = weft.compile(import_stablehlo(read_stablehlo(textwrap.dedent(text), "p"), "p"))
    x, w = floats(1, 6, 2), floats(3, 2, 4)
    for pads in ((0, 0), (1, 2), (0, 5)):
        (found,) = convolve(x, w, np.array([pads], np.int32))
        wide = np.pad(x[0], (pads, (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, 3, 0)[::2]
        close(found[0], np.einsum("sik,kio->so", windows, w))


def test_what_weft_lacks_is_listed_at_once():
    text = """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = stablehlo.custom_call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %b = chlo._asin_acos_kernel %a : tensor<4xf32> -> tensor<4xf32>
          return %b : tensor<4xf32>
        }
    """
    module = read_stablehlo(text, "program")
    with pytest.raises(
        weft.UnsupportedError, match=r"custom_call @elsewhere, chlo\._asin_acos_kernel"
    ):
        import_stablehlo(module, "program")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("func.func @main(", "requires text of StableHLO"),
        (
            "func.func @main(%x: tensor<4xf32>) -> tensor<3xf32> {\n"
            "  %y = stablehlo.transpose %x, dims = [0] : (tensor<4xf32>) -> tensor<3xf32>\n"
            "  return %y : tensor<3xf32>\n}",
            r"stablehlo\.transpose %y requires a result",
        ),
        (
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %y = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  return %y : tensor<4xf32>\n}",
            "do not call themselves",
        ),
    ],
    ids=["syntax", "type", "recursion"],
)
def test_damaged_modules_are_refused(text: str, rule: str):
    with pytest.raises(weft.ModelError, match=rule):
        import_stablehlo(read_stablehlo(text, "program"), "program")


def test_files_are_told_by_their_content(tmp_path: Path):
    text = textwrap.dedent(
        """
        module @m {
          func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %y = stablehlo.add %x, %x : tensor<2xf32> loc(#loc1)
            return %y : tensor<2xf32>
          }
        }
        #loc1 = loc("y")
        """
    )
    path = tmp_path / "model.mlir"
    path.write_text(text)
    x = floats(2)
    for model in (path, text.encode()):
        exe = weft.compile(model)
        assert (exe(x)[0] == 2 * x).all()
    assert [spec.name for spec in exe.inputs] == ["x"]
    exe.save_graph(path)  # a graph file of weft's own has the same suffix
    assert (weft.compile(path)(x)[0] == 2 * x).all()


def test_bytecode_requires_jaxlib():
    jax = pytest.importorskip("jax", reason="portable bytecode is read by jaxlib")
    exported = jax.export.export(jax.jit(lambda x: x + 1))(floats(3))
    assert (weft.compile(exported.mlir_module_serialized)(np.zeros(3, np.float32))[0] == 1).all()


def test_one_element_stands_for_as_many_as_there_are():
    text = """module { func.func @main(%a: tensor<4x2000xf32>) -> tensor<4x2000xf32> {
      %c = stablehlo.constant dense<3.0> : tensor<4x2000xf32>
      %0 = stablehlo.add %a, %c : tensor<4x2000xf32>
      return %0 : tensor<4x2000xf32> } }"""
    (found,) = weft.compile(text.encode(), naive=True)(np.ones((4, 2000), np.float32))
    np.testing.assert_array_equal(found, np.full((4, 2000), 4, np.float32))
    with pytest.raises(WeftError, match="requires extents of 0 to"):
        weft.compile(text.replace("4x2000", "100000000x100000000").encode())


def test_regions_too_deep_to_read_are_refused():
    text = "// stablehlo.add\n" + "module {" * 5000
    with pytest.raises(ModelError, match="fewer regions inside each other"):
        weft.compile(text.encode())
