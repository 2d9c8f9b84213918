"""Reductions whose results lie side by side where their operands do, as in pooling and in sums over
leading axes: neighbouring results are the lanes of a vector that stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.loop.layouts import lane_stride
from compiler.loop.nest import accesses_in, loops_in, perfect_nest, update_of
from compiler.loop.schedules.gemm.accumulation import (
    Accumulation,
    aligned,
    is_short,
    neighbours,
    overlap,
)
from compiler.loop.schedules.gemm.register_tile import accumulate
from compiler.loop.schedules.innermost_loops import lanes_of, stride
from compiler.target.target import Target
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp

NAME = "window"

NARROW = (0, 1, 2, 3, 4)
"""Distances of neighbouring lanes that are loaded as whole vectors."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such reduction of the kernel; yields once for each."""
    nests = [perfect_nest(op) for op in kernel.body.block.ops if isinstance(op, ForOp)]
    for nest in nests:
        found = find(nest, target)
        if found is not None and accumulate(kernel, found, target):
            yield NAME


def find(nest: list[ForOp], target: Target) -> Accumulation | None:
    """The reduction with the nests around it, if its last outer loop can be a vector."""
    outer = [loop for loop in nest if loop.reduction is None]
    reductions = nest[len(outer) :]
    store = _accumulator(nest)
    if store is None or any(loop.reduction is None for loop in reductions):
        return None
    lanes = lanes_of([nest[0]], target)
    long = [n for n in reversed(range(len(outer))) if outer[n].extent != 1]
    columns = next((n for n in long if _is_narrow(nest[-1], outer[n], store, lanes)), None)
    if columns is None or (columns != long[0] and stride(store, outer[columns]) == 1):
        return None
    rows = long[0]
    if columns == long[0]:
        rows = next(iter(long[1:]), None)
        loads = [access for access in accesses_in(nest[-1]) if isinstance(access, LoadOp)]
        shared = rows is not None and any(overlap(load, outer[rows], reductions) for load in loads)
        rows = rows if shared or is_short(outer[columns], lanes, target) else None
    before, after = neighbours(nest[0], store)
    nests = [aligned(loop, outer) for loop in (*before, nest[0], *after)]
    if any([a.extent for a in each] != [b.extent for b in outer] for each in nests):
        return None
    return Accumulation(nests, reductions, columns, rows, [], None, store.buffer, narrow=True)


def _is_narrow(inner: ForOp, columns: ForOp, store: StoreOp, lanes: int) -> bool:
    """Whether neighbouring lanes store to neighbours, and load what lies close together."""
    steps = [lane_stride(access, columns, lanes) for access in accesses_in(inner)]
    return lane_stride(store, columns, lanes) == 1 and all(
        step is not None and step.constant in NARROW for step in steps
    )


def _accumulator(nest: list[ForOp]) -> StoreOp | None:
    """The one store of the innermost loop, where it updates what it loads."""
    inner = nest[-1]
    if inner.reduction is None or loops_in(inner) or any(op.regions for op in inner.body.block.ops):
        return None
    stores = [op for op in inner.body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    return None if update is None else update.store
