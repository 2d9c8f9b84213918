"""Marks of accesses: stores past the caches and loads ahead change instructions, never results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.compiled_kernel import CompiledKernel, assembly
from weft.compiler.target import TARGETS

WIDE = next(target for target in TARGETS if target.name == "x86-64-v4")
NARROW = next(target for target in TARGETS if target.name == "x86-64-v3")


def copy_kernel(rows: int, columns: int, mark: str = "nontemporal", lanes: int = 8) -> str:
    """y[i, j] = x[i, j] in vectors, which are read ahead."""
    kind = f"!loop.buffer<[{rows}, {columns}], f32>"
    return f"""
    loop.kernel @copy(%x: {kind}, %y: {kind}) {{
      loop.for %i = 0 to {rows} parallel {{ loop.for %j = 0 to {columns} vector({lanes}) {{
        loop.prefetch %x[%i, %j + 1024] locality(2) : {kind}
        %a = loop.load %x[%i, %j] : {kind}
        loop.store %a, %y[%i, %j] {mark} : {kind}
      }} }}
    }}"""


def offset_array(rows: int, columns: int, offset: int) -> np.ndarray:
    """Zeros so many bytes behind a multiple of a line."""
    memory = np.zeros(rows * columns * 4 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + rows * columns * 4].view(np.float32).reshape(rows, columns)


@pytest.mark.parametrize("columns", [16, 21, 5])
@pytest.mark.parametrize("offset", [0, 4, 32])
@pytest.mark.parametrize("lanes", [8, 32])
def test_stores_past_the_caches_store_everything(columns: int, offset: int, lanes: int):
    x = np.arange(6 * columns, dtype=np.float32).reshape(6, columns)
    y = offset_array(6, columns, offset)
    CompiledKernel(copy_kernel(6, columns, lanes=lanes))(x, y)
    np.testing.assert_array_equal(y, x)


def test_stores_past_the_caches_are_in_order_with_what_follows():
    text = assembly(copy_kernel(64, 1024), WIDE)
    assert "vmovntps" in text
    assert "sfence" in text
    assert "sfence" not in assembly(copy_kernel(64, 1024, mark=""), WIDE)


def test_rows_that_no_vector_is_aligned_in_are_stored_through_the_caches():
    assert "vmovntps" not in assembly(copy_kernel(64, 1021), WIDE)


def test_vectors_side_by_side_are_prefetched_line_by_line():
    near = assembly(copy_kernel(64, 1024), NARROW).count("prefetch")
    assert assembly(copy_kernel(64, 1024, lanes=32), NARROW).count("prefetch") == 2 * near
    assert "vmovntps" in assembly(copy_kernel(64, 1024, lanes=32), NARROW)


def test_far_prefetches_end_in_the_second_cache():
    text = assembly(copy_kernel(64, 1024), WIDE)
    (line,) = {line.split()[0] for line in text.splitlines() if "prefetch" in line}
    assert line == "prefetcht1"
