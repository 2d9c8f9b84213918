"""Several nests over common outer loops, as in a softmax or a normalisation:
fused at the row, one pass over memory.

Also what takes any kernel that no other schedule matched: independent nests stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block

from compiler.loop.nest import perfect_nest
from compiler.loop.primitives import block_reduction, fuse, stage
from compiler.loop.schedules.leaves import (
    collapse_contiguous,
    parallelize_outermost,
    privatize,
    unscheduled,
    vectorize_leaves,
)
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.loop.ops import ForOp, StoreOp
from dialects.loop.program import KernelOp

NAME = "rows"

BLOCK = 32 * 1024
"""Elements that one thread combines at a time where a reduction has a single result."""

LEAST_BLOCKS = 4
"""Fewer are not worth a parallel loop."""


def fuse_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Fuses the nests that have no marks yet; names no schedule, for others make them fast."""
    if unscheduled(kernel):
        fuse_rows(kernel.body.block)
    yield from ()


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest that has no marks yet."""
    for loop in unscheduled(kernel):
        apply(loop, target)
        yield NAME


def fuse_rows(block: Block) -> list[ForOp]:
    """Fuses neighbouring loops of equal extent, level by level from the outside;
    returns the loops that are left.
    """
    loops = [op for op in block.ops if isinstance(op, ForOp)]
    kept: list[ForOp] = []
    for loop in loops:
        if kept and (fused := _try_fuse(kept[-1], loop)) is not None:
            kept[-1] = fused
        else:
            kept.append(loop)
    for loop in kept:
        fuse_rows(loop.body.block)
    return kept


def _try_fuse(first: ForOp, second: ForOp) -> ForOp | None:
    if first.reduction is not None or second.reduction is not None or first.extent != second.extent:
        return None
    try:
        return fuse(first, second)
    except IllegalSchedule:
        return None


def apply(loop: ForOp, target: Target) -> None:
    """Vectorises the leaves of a fused nest and runs its outermost loop in parallel."""
    if loop.reduction is None:
        privatize(perfect_nest(loop)[-1])
    else:
        loop = collapse_contiguous(loop)
        if (loop.extent.constant or LEAST_BLOCKS * BLOCK) >= LEAST_BLOCKS * BLOCK:
            _apply_in_blocks(loop, target)
            return
    vectorize_leaves(loop, target)
    parallelize_outermost(loop)


def _apply_in_blocks(loop: ForOp, target: Target) -> None:
    """Runs a long reduction to a single element as many short ones in parallel."""
    try:
        blocks = block_reduction(loop, BLOCK)
    except IllegalSchedule:
        vectorize_leaves(loop, target)
        return
    for store in [op for op in blocks.outer.body.block.ops if isinstance(op, StoreOp)]:
        stage(store.buffer, blocks.outer, "registers")
    vectorize_leaves(blocks.inner, target)
    parallelize_outermost(blocks.outer)
    for rest in (blocks.remainder, blocks.combine):
        if rest is not None:
            vectorize_leaves(rest, target)
