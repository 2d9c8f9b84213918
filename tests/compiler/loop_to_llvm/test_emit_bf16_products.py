"""Products of bf16: two in each lane of a dot product, and in registers that hold tiles."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import HOST, CompiledKernel, assembly
from tests.compiler.loop_to_llvm.test_emit_dot_product import BY_NAME

TERM = """\
%a = loop.load %x[{of_x}] : {x}
%b = loop.load %w[{of_w}] : {w}
%s = loop.load %y[%i, %j] : {y}
%c = arith.extf %a : bf16 to f32
%d = arith.extf %b : bf16 to f32
%p = arith.mulf %c, %d : f32
%u = arith.addf %s, %p : f32
loop.store %u, %y[%i, %j] : {y}"""


def dots(rows: int, columns: int, words: int, lanes: int = 16) -> str:
    """`y += x w` for words of two, a vector of columns at a time."""
    x, w, y = types(rows, columns, words)
    term = TERM.format(of_x="%i, 2 * %o + %q", of_w="%o, %j, %q", x=x, w=w, y=y)
    return f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
  loop.for %o = 0 to {words} reduction(add) {{
    loop.for %i = 0 to {rows} {{
      loop.for %j = 0 to {columns} vector({lanes}) {{
        loop.for %q = 0 to 2 unroll dot reduction(add) {{
{term}
        }}
      }}
    }}
  }}
}}"""


def tiles(rows: int, columns: int, words: int) -> str:
    """The same in registers that hold tiles, two of them along the sum."""
    x, w, y = types(rows, columns, 2 * words)
    of_x = f"%i, {2 * words} * %k + 2 * %o + %q"
    term = TERM.format(of_x=of_x, of_w=f"{words} * %k + %o, %j, %q", x=x, w=w, y=y)
    return f"""
loop.kernel @k(%x: {x}, %w: {w}, %y: {y}) {{
  loop.for %i = 0 to {rows} {{
    loop.for %j = 0 to {columns} unroll vector(16) {{
      %z = arith.constant 0.0 : f32
      loop.store %z, %y[%i, %j] : {y}
    }}
  }}
  loop.for %k = 0 to 2 matrix reduction(add) {{
    loop.for %i = 0 to {rows} {{
      loop.for %j = 0 to {columns} {{
        loop.for %o = 0 to {words} reduction(add) {{
          loop.for %q = 0 to 2 reduction(add) {{
{term}
          }}
        }}
      }}
    }}
  }}
}}"""


def types(rows: int, columns: int, words: int) -> tuple[str, str, str]:
    """Those of the factors and of the sums."""
    return (
        f"!loop.buffer<[{rows}, {2 * words}], bf16>",
        f"!loop.buffer<[{words}, {columns}, 2], bf16>",
        f"!loop.buffer<[{rows}, {columns}], f32>",
    )


@pytest.mark.parametrize(
    ("make", "rows", "columns", "words"),
    [(dots, 3, 21, 5), (tiles, 32, 32, 32), (tiles, 21, 27, 10)],
)
def test_sums_of_small_integers_are_exact(
    make: Callable[[int, int, int], str], rows: int, columns: int, words: int
):
    rng = np.random.default_rng(7)
    x = rng.integers(-16, 16, (rows, 2 * words)).astype(ml_dtypes.bfloat16)
    w = rng.integers(-16, 16, (words, columns, 2)).astype(ml_dtypes.bfloat16)
    y = np.ones((rows, columns), np.float32)
    start = y if make is dots else 0
    matrix = w.astype(np.float32).transpose(0, 2, 1).reshape(2 * words, columns)
    expected = start + x.astype(np.float32) @ matrix
    CompiledKernel(make(rows, columns, words if make is dots else words // 2))(x, w, y)
    np.testing.assert_array_equal(y, expected)


def test_each_target_has_its_instruction():
    assert assembly(tiles(21, 27, 16), BY_NAME["sapphirerapids"]).count("tdpbf16ps") == 4
    assert "vdpbf16ps" in assembly(dots(2, 16, 4), BY_NAME["sapphirerapids"])
    assert "vdpbf16ps" in assembly(dots(2, 16, 4), BY_NAME["znver4"])
    for name in ("icelake-server", "znver3"):
        for loops in (tiles(21, 27, 16), dots(2, 16, 4)):
            assert "dpbf16ps" not in assembly(loops, BY_NAME[name])


def test_a_target_without_them_computes_the_same_exactly_rounded_products():
    target = HOST.exact()
    assert not target.has_dot_products(2)
    assert not target.has_matrix_products(2)
    tiny = np.full((1, 2), 1e-39, ml_dtypes.bfloat16)
    w, y = np.ones((1, 16, 2), ml_dtypes.bfloat16), np.zeros((1, 16), np.float32)
    CompiledKernel(dots(1, 16, 1), target=target)(tiny, w, y)
    np.testing.assert_array_equal(y, np.float32(2) * tiny[0, 0].astype(np.float32))
