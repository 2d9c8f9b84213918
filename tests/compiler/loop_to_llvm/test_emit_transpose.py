"""Blocks that are copied with rows and columns swapped: turned in registers, all elements."""

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel, assembly
from weft.compiler.target import TARGETS

WIDE = next(target for target in TARGETS if target.name == "x86-64-v4")
NARROW = next(target for target in TARGETS if target.name == "x86-64-v3")


def block_kernel(rows: object, columns: object, lanes: int, element: str, symbols: str = "") -> str:
    """y[i + 2, j] = x[j + 3, i + 1] over so many rows and columns of y."""
    kind = f"!loop.buffer<[24, 24], {element}>"
    return f"""
    loop.kernel @turn{symbols}(%x: {kind}, %y: {kind}) {{
      loop.for %i = 0 to {rows} unroll {{ loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %a = loop.load %x[%j + 3, %i + 1] : {kind}
        loop.store %a, %y[%i + 2, %j] : {kind}
      }} }}
    }}"""


def check(kernel: CompiledKernel, dtype: type, rows: int, columns: int, **sizes: int) -> None:
    values = np.arange(576) % 7 < 3 if dtype is np.bool_ else np.arange(576)
    x, y = values.reshape(24, 24).astype(dtype), np.zeros((24, 24), dtype)
    kernel(x, y, sizes=sizes)
    expected = np.zeros_like(y)
    expected[2 : 2 + rows, :columns] = x[3 : 3 + columns, 1 : 1 + rows].T
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("element", "dtype"), [("f32", np.float32), ("ui8", np.uint8), ("i1", np.bool_)]
)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_a_block_of_any_size(element: str, dtype: type, lanes: int, rows: int, columns: int):
    check(CompiledKernel(block_kernel(rows, columns, lanes, element)), dtype, rows, columns)


def test_a_block_of_columns_that_only_the_call_knows():
    kernel = CompiledKernel(block_kernel(8, "min(n, 7)", 8, "f64", "[n]"))
    for n in range(10):
        check(kernel, np.float64, 8, min(n, 7), n=n)


def test_whole_vectors_are_loaded_and_stored():
    text = assembly(block_kernel(16, 16, 16, "f32"), WIDE)
    assert text.count("zmm") > 0
    assert not [line for line in text.splitlines() if line.strip().startswith("vmovss")]


def test_registers_take_in_the_runs_of_several_rows():
    text = assembly(block_kernel(4, 8, 8, "f32"), NARROW)
    loads = [line for line in text.splitlines() if "vinsertf128" in line and "(" in line]
    assert len(loads) == 4
    assert "vmaskmov" not in text


def test_what_lies_along_neither_loop_is_copied_as_it_stands():
    kind = "!loop.buffer<[24, 24], f32>"
    kernel = CompiledKernel(f"""
    loop.kernel @apart(%x: {kind}, %y: {kind}) {{
      loop.for %i = 0 to 4 unroll {{ loop.for %j = 0 to 4 unroll vector(4) {{
        %a = loop.load %x[%j, 2 * %i] : {kind}
        loop.store %a, %y[%i, %j] : {kind}
      }} }}
    }}""")
    x, y = np.arange(576, dtype=np.float32).reshape(24, 24), np.zeros((24, 24), np.float32)
    kernel(x, y)
    np.testing.assert_array_equal(y[:4, :4], x[:4, :8:2].T)
