"""The proof that kernels work in place, beside runs in which they do."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.parser import Parser

from tests.compiler.loop.interpreter import translate
from weft.compiler.validation.in_place import prove_in_place
from weft.dialects.context import WeftContext
from weft.dialects.errors import PlanError
from weft.dialects.loop.program import KernelOp

ROWS, COLUMNS = 6, 4

FILL = """%zero{n} = arith.constant 0.0 : f32
loop.for %f{n} = 0 to {rows} {{
  loop.for %g{n} = 0 to {columns} {{
    loop.store %zero{n}, %y[%f{n}, %g{n}] : T
  }}
}}
"""


def kernel_of(body: str, rows: int | str = ROWS, columns: int | str = COLUMNS) -> KernelOp:
    """A kernel that reads `%x` and writes `%y`, matrices of type `T`."""
    symbols = f"[{rows}, {columns}]" if isinstance(rows, str) else ""
    head = f"loop.kernel @k{symbols}(%x: T, %y: T)"
    text = f"{head} {{\n{body}\n}}".replace(": T", f": !loop.buffer<[{rows}, {columns}], f32>")
    (kernel,) = Parser(WeftContext(), text).parse_module().ops
    assert isinstance(kernel, KernelOp)
    return kernel


def is_proved(kernel: KernelOp) -> bool:
    try:
        prove_in_place(kernel, 0, 1)
    except PlanError:
        return False
    return True


def nest(
    load: str, store: str, rows: str = f"0 to {ROWS}", columns: str = f"0 to {COLUMNS}"
) -> str:
    """A nest over rows and columns that negates an element."""
    return f"""loop.for %i = {rows} {{
      loop.for %j = {columns} {{
        %v = loop.load %x[{load}] : T
        %w = arith.negf %v : f32
        loop.store %w, %y[{store}] : T
      }}
    }}"""


SAME = nest("%i, %j", "%i, %j")

TILED = """loop.for %io = 0 to (n floordiv 4) parallel {
  loop.for %j = 0 to m {
    loop.for %ii = 0 to 4 {
      %v = loop.load %x[4 * %io + %ii, %j] : T
      loop.store %v, %y[4 * %io + %ii, %j] : T
    }
  }
}
loop.for %r = 0 to n mod 4 {
  loop.for %j2 = 0 to m {
    %v2 = loop.load %x[4 * (n floordiv 4) + %r, %j2] : T
    loop.store %v2, %y[4 * (n floordiv 4) + %r, %j2] : T
  }
}"""

COALESCED = """loop.for %f = 0 to n * m {
  %v = loop.load %x[%f floordiv m, %f mod m] : T
  loop.store %v, %y[%f floordiv m, %f mod m] : T
}"""

RAGGED = """loop.for %io = 0 to (n + 3) floordiv 4 {
  loop.for %ii = 0 to min(4, n - 4 * %io) {
    loop.for %j = 0 to m {
      %v = loop.load %x[4 * %io + %ii, %j] : T
      loop.store %v, %y[4 * %io + %ii, %j] : T
    }
  }
}"""

REDUCED = """loop.for %i = 0 to 6 {
  %s = loop.alloc registers : !loop.buffer<[1], f32>
  loop.for %k = 0 to 4 {
    %v = loop.load %x[%i, %k] : T
    loop.store %v, %s[0] : !loop.buffer<[1], f32>
  }
  loop.for %j = 0 to 4 {
    %w = loop.load %s[0] : !loop.buffer<[1], f32>
    loop.store %w, %y[%i, %j] : T
  }
}"""


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (SAME, ()),
        (TILED, ("n", "m")),
        (COALESCED, ("n", "m")),
        (RAGGED, ("n", "m")),
        (REDUCED, ()),
        (nest("%i, %j", "%i, %j", columns="0 to 3") + nest("%i, 3", "%i, 3", columns="0 to 1"), ()),
    ],
    ids=["same", "tiled", "coalesced", "ragged", "reduced", "columns left over"],
)
def test_proves_kernels_that_load_first(body, sizes):
    assert is_proved(kernel_of(body, *sizes))


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (FILL.format(n=0, rows=6, columns=4) + SAME, ()),  # W1
        (SAME + SAME.replace("%v", "%p").replace("%w", "%q"), ()),
        (nest("5 - %i, %j", "%i, %j"), ()),
        (nest("%i, 3 - %j", "%i, %j"), ()),
        (REDUCED.replace("loop.for %i = 0 to 6 {", "loop.for %i = 0 to 6 {\nloop.for %z = 0 to 2 {")
         + "}", ()),
        (COALESCED.replace("%y[%f floordiv m, %f mod m]", "%y[%f mod n, %f floordiv n]"),
         ("n", "m")),
        (nest("%i, %j", "%i, %j") .replace("%v = loop.load", "%u = loop.load %x[%i, 0] : T\n%v = "
                                           "loop.load"), ()),
    ],
    ids=["filled first", "twice", "rows reversed", "columns reversed", "repeated", "transposed",
         "first column"],
)  # fmt: skip
def test_refuses_kernels_that_overwrite_what_they_read(body, sizes):
    assert not is_proved(kernel_of(body, *sizes))


def test_refuses_indices_that_memory_holds():
    """Two iterations may load one index."""
    body = """loop.for %i = 0 to 6 {
      %v = loop.load %x[%i, 0] : T
      %k = arith.fptosi %v : f32 to i64
      %c = arith.index_cast %k : i64 to index
      %w = loop.load %x[%c, 0] : T
      loop.store %w, %y[%c, 0] : T
    }"""
    assert not is_proved(kernel_of(body))


SUBSCRIPTS = st.sampled_from(["%i", "%i", "%i", "5 - %i", "%i - 1 + 1", "0"])
SECOND = st.sampled_from(["%j", "%j", "%j", "3 - %j", "(%j + 1) mod 4", "2"])
NESTS = st.lists(
    st.tuples(
        SUBSCRIPTS, SECOND, SUBSCRIPTS, SECOND,
        st.sampled_from(["0 to 6", "0 to 3", "3 to 6", "0 to 6 step 2", "1 to 6 step 2"]),
        st.sampled_from(["0 to 4", "0 to 2", "2 to 4", "0 to 4 step 2"]),
        st.booleans(),
    ),
    min_size=1, max_size=3,
)  # fmt: skip


def random_kernel(nests) -> KernelOp:
    parts: list[str] = []
    for number, (row, column, to_row, to_column, rows, columns, filled) in enumerate(nests):
        text = nest(f"{row}, {column}", f"{to_row}, {to_column}", rows, columns)
        for name in ("%i", "%j", "%v", "%w"):
            text = text.replace(name, f"{name}{number}")
        if filled and number:
            text = FILL.format(n=number, rows=1, columns=2) + text
        parts.append(text)
    return kernel_of("\n".join(parts))


@settings(max_examples=300)
@given(NESTS)
def test_what_is_proved_computes_the_same_in_place(nests):
    kernel = random_kernel(nests)
    if not is_proved(kernel):
        return
    run = translate(kernel, False)
    x = np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32).reshape(ROWS, COLUMNS)
    shared = x.copy()
    run(shared, shared)
    written = np.full_like(x, np.nan)
    run(x.copy(), written)
    stored = ~np.isnan(written)
    np.testing.assert_array_equal(shared[stored], written[stored])
    np.testing.assert_array_equal(shared[~stored], x[~stored])
