"""Sliding windows, as in pooling, and short reductions over leading axes: results that are
contiguous where their operands are become the lanes of a vector that stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.compiler.loop.layouts import lane_stride
from weft.compiler.loop.matchers import sole_update, split_nest
from weft.compiler.loop.nest import accesses_in, child_loops, loads_in, perfect_nest
from weft.compiler.loop.schedules.gemm.accumulation import (
    Accumulation,
    aligned_nests,
    is_short,
    overlap,
)
from weft.compiler.loop.schedules.gemm.macro_kernel import build_macro_kernel
from weft.compiler.loop.schedules.innermost_loops import lanes_of, stride
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import ForOp, StoreOp
from weft.dialects.loop.program import KernelOp

NAME = "sliding-window"

NARROW = (0, 1, 2, 3, 4)
"""Strides of lanes that are loaded as whole vectors."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such reduction of the kernel; yields once for each."""
    for nest in [perfect_nest(loop) for loop in child_loops(kernel)]:
        found = find(nest, target)
        if found is not None and build_macro_kernel(kernel, found, target):
            yield NAME


def find(nest: list[ForOp], target: Target) -> Accumulation | None:
    """The reduction with the nests around it, if its last outer loop can be a vector."""
    split, update = split_nest(nest), sole_update(nest[-1])
    if split is None or update is None:
        return None
    outer, reductions = split
    store = update.store
    lanes = lanes_of([nest[0]], target)
    # A loop that is not the innermost becomes the vector only in a blocked layout, where lanes are
    # contiguous though the stride is not 1. A nest that stores contiguously along an outer loop is
    # a transposition, and left to other schedules.
    long = [n for n in reversed(range(len(outer))) if outer[n].extent != 1]
    columns = next((n for n in long if _is_narrow(nest[-1], outer[n], store, lanes)), None)
    if columns is None or (columns != long[0] and stride(store, outer[columns]) == 1):
        return None
    rows = long[0]
    # Rows beside contiguous columns are worth a tile if windows of neighbouring rows overlap, so
    # that a load serves several, or if few vectors would leave the units waiting.
    if columns == long[0]:
        rows = next(iter(long[1:]), None)
        shared = rows is not None and any(
            overlap(load, outer[rows], reductions) for load in loads_in(nest[-1])
        )
        rows = rows if shared or is_short(outer[columns], lanes, target) else None
    found = aligned_nests(nest[0], store, outer)
    if found is None:
        return None
    return Accumulation(
        nests=found.nests,
        reductions=reductions,
        columns=columns,
        rows=rows,
        result=store.buffer,
        narrow=True,
    )


def _is_narrow(inner: ForOp, columns: ForOp, store: StoreOp, lanes: int) -> bool:
    """Whether lanes store contiguously, and load with a stride of a few elements."""
    steps = [lane_stride(access, columns, lanes) for access in accesses_in(inner)]
    return lane_stride(store, columns, lanes) == 1 and all(
        step is not None and step.constant in NARROW for step in steps
    )
