"""Products of matrices in registers that hold tiles: exact, and only of targets that have them."""

import numpy as np
import pytest
from msgspec.structs import replace

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly
from tests.compiler.loop_to_llvm.test_emit_dot_product import BY_NAME, extremes

DTYPES = {"ui8": np.uint8, "i8": np.int8}


def kernel(rows: int, columns: int, words: int, first: str = "ui8", clears: bool = True) -> str:
    """`y[t, i, j] += sum_k x[t, i, k] * w[k, j]`, for two tiles of sums in parallel, from zero or
    from what is there; the columns of `w` are in words of four.
    """
    second = {"ui8": "i8", "i8": "ui8"}[first]
    extend = {"ui8": "extui", "i8": "extsi"}
    x, w, y, acc = (
        f"!loop.buffer<[2, {rows}, {8 * words}], {first}>",
        f"!loop.buffer<[2, {words}, {columns}, 4], {second}>",
        f"!loop.buffer<[2, {rows}, {columns}], i32>",
        f"!loop.buffer<[{rows}, {columns}], i32>",
    )
    start = "arith.constant 0 : i32" if clears else f"loop.load %y[%t, %i, %j] : {y}"
    return f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
  loop.for %t = 0 to 2 parallel {{
    %acc = loop.alloc scratch : {acc}
    loop.for %i = 0 to {rows} {{
      loop.for %j = 0 to {columns} unroll vector(16) {{
        %z = {start}
        loop.store %z, %acc[%i, %j] : {acc}
      }}
    }}
    loop.for %k = 0 to 2 matrix reduction(add) {{
      loop.for %i = 0 to {rows} {{
        loop.for %j = 0 to {columns} {{
          loop.for %o = 0 to {words} reduction(add) {{
            loop.for %q = 0 to 4 reduction(add) {{
              %a = loop.load %x[%t, %i, {4 * words} * %k + 4 * %o + %q] : {x}
              %b = loop.load %w[%k, %o, %j, %q] : {w}
              %s = loop.load %acc[%i, %j] : {acc}
              %c = arith.{extend[first]} %a : i8 to i32
              %d = arith.{extend[second]} %b : i8 to i32
              %p = arith.muli %c, %d : i32
              %u = arith.addi %s, %p : i32
              loop.store %u, %acc[%i, %j] : {acc}
            }}
          }}
        }}
      }}
    }}
    loop.for %i = 0 to {rows} {{
      loop.for %j = 0 to {columns} unroll vector(16) {{
        %v = loop.load %acc[%i, %j] : {acc}
        loop.store %v, %y[%t, %i, %j] : {y}
      }}
    }}
  }}
}}"""


@pytest.mark.parametrize("first", ["ui8", "i8"])
@pytest.mark.parametrize("clears", [True, False])
@pytest.mark.parametrize(
    ("rows", "columns", "words"), [(32, 32, 16), (21, 27, 5), (16, 7, 16), (4, 16, 4)]
)
def test_sums_are_exact(rows: int, columns: int, words: int, clears: bool, first: str):
    second = {"ui8": "i8", "i8": "ui8"}[first]
    x = extremes((2, rows, 8 * words), DTYPES[first])
    w = extremes((2, words, columns, 4), DTYPES[second])
    y = np.arange(2 * rows * columns, dtype=np.int32).reshape(2, rows, columns)
    matrix = w.transpose(0, 1, 3, 2).reshape(8 * words, columns).astype(np.int32)
    expected = (0 if clears else y) + x.astype(np.int32) @ matrix
    CompiledKernel(kernel(rows, columns, words, first, clears))(x, w, y)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("first", "instruction"), [("ui8", "tdpbusd"), ("i8", "tdpbsud")])
def test_registers_of_tiles_are_set_up_loaded_and_released(first: str, instruction: str):
    code = assembly(kernel(21, 27, 16, first), BY_NAME["sapphirerapids"])
    assert code.count(instruction) == 4
    assert code.count("tileloadd") == 4
    assert code.count("tilezero") == 4
    assert code.count("tilestored") == 4
    assert code.count("ldtilecfg") == 1
    assert code.count("tilerelease") == 1


def test_sums_that_do_not_start_at_zero_are_loaded():
    code = assembly(kernel(21, 27, 16, clears=False), BY_NAME["sapphirerapids"])
    assert "tilezero" not in code
    assert code.count("tileloadd") == 8


def test_another_target_has_the_loops_as_they_are():
    code = assembly(kernel(21, 27, 16), BY_NAME["icelake-server"])
    assert "tile" not in code


def test_the_host_runs_its_instruction():
    if not HOST.has_matrix_products(4):
        pytest.skip("this machine has no registers that hold tiles, or its system keeps them")
    assert "tdpbusd" in assembly(kernel(32, 32, 16))


def test_a_factor_that_every_tile_replaces_is_not_kept_in_l1():
    target = BY_NAME["sapphirerapids"]
    fits, passes = (
        assembly(kernel(32, 27, 16), replace(target, l1_bytes=size)) for size in (32768, 8192)
    )
    assert "tileloaddt1" not in fits
    assert passes.count("tileloaddt1") == 2, "the rows, which a loop around the product indexes"
    assert passes.count("tileloadd") == 4


def repeated(steps: int, parallel: str = "", around: str = "") -> str:
    """`y[u, t, i, j] = sum_k x[t, i, k] * w[k, j]` for three tiles of sums, which are the result,
    twice.
    """
    x, w, y = (
        f"!loop.buffer<[3, 21, {2 * 64 * steps}], ui8>",
        f"!loop.buffer<[{2 * steps}, 16, 27, 4], i8>",
        "!loop.buffer<[2, 3, 21, 27], i32>",
    )
    return f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
  loop.for %u = 0 to 2{around} {{
    loop.for %t = 0 to 3{parallel} {{
      loop.for %i = 0 to 21 {{
        loop.for %j = 0 to 27 unroll vector(16) {{
          %z = arith.constant 0 : i32
          loop.store %z, %y[%u, %t, %i, %j] : {y}
        }}
      }}
      loop.for %h = 0 to 2 matrix reduction(add) {{
        loop.for %k = 0 to {steps} reduction(add) {{
          loop.for %i = 0 to 21 {{
            loop.for %j = 0 to 27 {{
              loop.for %o = 0 to 16 reduction(add) {{
                loop.for %q = 0 to 4 reduction(add) {{
                  %a = loop.load %x[%t, %i, {64 * steps} * %h + 64 * %k + 4 * %o + %q] : {x}
                  %b = loop.load %w[{steps} * %h + %k, %o, %j, %q] : {w}
                  %s = loop.load %y[%u, %t, %i, %j] : {y}
                  %c = arith.extui %a : i8 to i32
                  %d = arith.extsi %b : i8 to i32
                  %p = arith.muli %c, %d : i32
                  %v = arith.addi %s, %p : i32
                  loop.store %v, %y[%u, %t, %i, %j] : {y}
                }}
              }}
            }}
          }}
        }}
      }}
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("parallel", "around"), [("", ""), (" parallel", ""), ("", " parallel"), ("", " unroll")]
)
def test_sums_that_are_stored_an_iteration_later_are_exact(parallel: str, around: str):
    x = extremes((3, 21, 384), np.uint8)
    w = extremes((6, 16, 27, 4), np.int8)
    y = np.full((2, 3, 21, 27), -1, np.int32)
    matrix = w.transpose(0, 1, 3, 2).reshape(384, 27).astype(np.int32)
    CompiledKernel(repeated(3, parallel, around))(x, w, y)
    np.testing.assert_array_equal(y, np.stack([x.astype(np.int32) @ matrix] * 2))


def test_a_tile_is_stored_among_the_first_products_of_the_next_one():
    code = assembly(repeated(3), BY_NAME["sapphirerapids"])
    lines = [line.split()[0] for line in code.splitlines() if "\ttdp" in line or "\ttile" in line]
    first = lines.index("tileloadd")
    assert first == 0
    stored = ["tilestored", "tilezero", "tdpbusd"]
    assert lines[first : first + 16] == [
        *["tileloadd"] * 3, *stored, *stored, "tileloadd", *stored, *stored
    ]  # fmt: skip
    assert lines[-5:] == [*["tilestored"] * 4, "tilerelease"]
    assert lines.count("tilestored") == 8


def test_tiles_of_few_products_are_stored_at_their_end():
    code = assembly(repeated(2), BY_NAME["sapphirerapids"])
    assert code.count("tilestored") == 4


def in_parts(steps: int, row: str = "%i") -> str:
    """`y[t, i, j] = sum_k x[t, i, k] * w[k, j]` for three tiles, by halves of the sum: all tiles by
    the first one before the other, which loads the sums that are there.
    """
    x, w, y = (
        f"!loop.buffer<[3, 21, {2 * 64 * steps}], ui8>",
        f"!loop.buffer<[{2 * steps}, 16, 27, 4], i8>",
        "!loop.buffer<[3, 21, 27], i32>",
    )

    def half(number: int) -> str:
        return f"""
      loop.for %k = 0 to {steps} matrix reduction(add) {{
        loop.for %i = 0 to 21 {{
          loop.for %j = 0 to 27 {{
            loop.for %o = 0 to 16 reduction(add) {{
              loop.for %q = 0 to 4 reduction(add) {{
                %a = loop.load %x[%t, %i, {64 * steps * number} + 64 * %k + 4 * %o + %q] : {x}
                %b = loop.load %w[{steps * number} + %k, %o, %j, %q] : {w}
                %s = loop.load %y[%t, {row}, %j] : {y}
                %c = arith.extui %a : i8 to i32
                %d = arith.extsi %b : i8 to i32
                %p = arith.muli %c, %d : i32
                %v = arith.addi %s, %p : i32
                loop.store %v, %y[%t, {row}, %j] : {y}
              }}
            }}
          }}
        }}
      }}"""

    return f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
    loop.for %t = 0 to 3 {{
      loop.for %i = 0 to 21 {{
        loop.for %j = 0 to 27 unroll vector(16) {{
          %z = arith.constant 0 : i32
          loop.store %z, %y[%t, {row}, %j] : {y}
        }}
      }}{half(0)}
    }}
    loop.for %t = 0 to 3 {{{half(1)}
    }}
}}"""


@pytest.mark.parametrize("row", ["%i", "20 - %i"])
def test_sums_that_one_loop_leaves_to_the_next_are_exact(row: str):
    x = extremes((3, 21, 640), np.uint8)
    w = extremes((10, 16, 27, 4), np.int8)
    y = np.full((3, 21, 27), -1, np.int32)
    matrix = w.transpose(0, 1, 3, 2).reshape(640, 27).astype(np.int32)
    CompiledKernel(in_parts(5, row))(x, w, y)
    expected = x.astype(np.int32) @ matrix
    np.testing.assert_array_equal(y, expected if row == "%i" else expected[:, ::-1])


def test_a_register_is_stored_before_other_sums_are_loaded_and_the_last_ones_behind_both_loops():
    code = assembly(in_parts(5), BY_NAME["sapphirerapids"])
    lines = [line.split()[0] for line in code.splitlines() if "\ttdp" in line or "\ttile" in line]
    assert lines.count("tilestored") == 3 * 4
    assert lines.count("ldtilecfg") <= 1
    second = lines[lines.index("tilestored") + 1 :]
    stored = ["tilestored", "tileloadd", "tdpbusd"]
    start = next(n for n in range(len(second)) if second[n : n + 3] == stored)
    assert second[start : start + 13] == [*stored * 2, "tileloadd", *stored * 2]
    assert second[-5:] == [*["tilestored"] * 4, "tilerelease"]


def test_sums_that_might_overlap_are_stored_at_the_end_of_each_tile():
    code = assembly(in_parts(5, "20 - %i"), BY_NAME["sapphirerapids"])
    lines = [line.split()[0] for line in code.splitlines() if "\ttdp" in line or "\ttile" in line]
    stored = ["tilestored", "tileloadd", "tdpbusd"]
    assert not any(lines[n : n + 3] == stored for n in range(len(lines)))
