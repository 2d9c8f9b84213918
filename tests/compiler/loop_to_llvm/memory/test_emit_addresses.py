"""Random subscripts, layouts, marks and bounds: the addresses of compiled code against NumPy's."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel

SIZE = 48


@dataclass(frozen=True)
class Case:
    """y[i, j] = x[subscript], x stored in panels, over rows and columns that are looped over as
    marked.
    """

    rows: int
    columns: int
    symbolic: bool
    outer: str
    inner: str
    factors: tuple[int, int, int]
    step: int
    panel: int
    order: str

    @property
    def text(self) -> str:
        rows, columns = ("r", "c") if self.symbolic else (self.rows, self.columns)
        symbols = "[r, c]" if self.symbolic else ""
        a, b, c = self.factors
        subscript = f"({a} * %i + {b} * %j + {c}) mod {SIZE}"
        if self.step > 1:
            subscript = f"({a} * %i + ({b} * %j + {c}) floordiv {self.step}) mod {SIZE}"
        outer, inner = f"(d0 floordiv {self.panel})", f"(d0 mod {self.panel})"
        count = SIZE // self.panel
        layouts = {
            "plain": "",
            "panels": f", [{outer}, {inner}] in [{count}, {self.panel}]",
            "interleaved": f", [{inner}, {outer}] in [{self.panel}, {count}]",
        }
        x = f"!loop.buffer<[{SIZE}], i32{layouts[self.order]}>"
        y = f"!loop.buffer<[{rows}, {columns}], i32>"
        return f"""
        loop.kernel @walk{symbols}(%x: {x}, %y: {y}) {{
          loop.for %i = 0 to {rows} {self.outer} {{
            loop.for %j = 0 to {columns} {self.inner} {{
              %v = loop.load %x[{subscript}] : {x}
              loop.store %v, %y[%i, %j] : {y}
            }}
          }}
        }}"""

    @property
    def expected(self) -> np.ndarray:
        i, j = np.ogrid[: self.rows, : self.columns]
        a, b, c = self.factors
        return (a * i + (b * j + c) // self.step) % SIZE

    @property
    def storage(self) -> np.ndarray:
        """x[k] = k, as its layout stores it."""
        x = np.arange(SIZE, dtype=np.int32).reshape(-1, self.panel)
        return np.ascontiguousarray(x.T if self.order == "interleaved" else x)


CASES = st.builds(
    Case,
    rows=st.integers(0, 5),
    columns=st.integers(0, 21),
    symbolic=st.booleans(),
    outer=st.sampled_from(["", "parallel"]),
    inner=st.sampled_from(["", "vector(4)", "vector(8)", "parallel vector(4)"]),
    factors=st.tuples(st.integers(-4, 4), st.integers(-3, 5), st.integers(-20, 20)),
    step=st.sampled_from([1, 1, 2, 3, 4]),
    panel=st.sampled_from([2, 4, 6, 8, 16]),
    order=st.sampled_from(["plain", "panels", "interleaved"]),
)


@settings(max_examples=80)
@given(CASES)
def test_addresses(case: Case):
    y = np.full(case.rows * case.columns + 8, -1, np.int32)
    CompiledKernel(case.text)(case.storage, y, sizes={"r": case.rows, "c": case.columns})
    np.testing.assert_array_equal(y[:-8].reshape(case.rows, case.columns), case.expected)
    assert (y[-8:] == -1).all()
