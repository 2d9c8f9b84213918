"""Several nests over common outer loops, as in a softmax or a normalisation:
fused at the row, one pass over memory.

Also what takes any kernel that no other schedule matched: independent nests stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, SSAValue

from compiler.loop.nest import accesses_in, loops_in, perfect_nest
from compiler.loop.primitives import (
    block_reduction,
    collapse,
    forward,
    fuse,
    prefetch,
    reorder,
    stage,
    tile,
    vectorize,
)
from compiler.loop.schedules.fuse_reduction import fuse_sums
from compiler.loop.schedules.innermost_loops import (
    AHEAD,
    collapse_contiguous,
    follows_streams,
    is_scattered,
    lanes_of,
    parallelize_outermost,
    privatize,
    stride,
    unscheduled,
    vectorize_leaves,
)
from compiler.loop.schedules.unroll_and_jam import group_of_pass
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import width

NAME = "rows"

BLOCK = 32 * 1024
"""Elements that one thread combines at a time where a reduction has a single result."""

STREAMS = 4
"""Places of a block that are read in turn."""

LEAST_BLOCKS = 4
"""Fewer are not worth a parallel loop."""

LEAST_ROW = 512
"""Bytes; shorter rows are near by the time that the prefetcher of the machine has seen a few."""


def fuse_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Fuses the nests that have no marks yet, which then hand on values without memory; names no
    schedule, for others make them fast.
    """
    if unscheduled(kernel):
        fuse_rows(kernel.body.block)
        for loop in unscheduled(kernel):
            _forward_stored(loop)
    yield from ()


def _forward_stored(loop: ForOp) -> None:
    """Replaces loads of what the same iteration has stored before, where nothing may have changed
    it since.
    """
    stored: set[tuple[Block | None, SSAValue]] = set()
    for access in accesses_in(loop):
        place = access.parent, access.buffer
        if isinstance(access, StoreOp):
            stored.add(place)
        elif isinstance(access, LoadOp) and place in stored:
            with suppress(IllegalSchedule):
                forward(access)


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
    if isinstance(block.parent_op(), ForOp):
        fuse_sums(kept)
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
    loop = parallelize_outermost(loop)
    row = perfect_nest(loop)[-1]
    _group_vectors(row, target)
    _read_ahead(row, target)


def _group_vectors(row: ForOp, target: Target) -> None:
    """Runs several vectors of a long pass over the row side by side."""
    for leaf in [op for op in row.body.block.ops if isinstance(op, ForOp)]:
        lanes = lanes_of([leaf], target)
        plain = leaf.unroll is None and leaf.reduction is None and not is_scattered(leaf)
        if plain and leaf.vector == IntAttr(lanes) and lanes > 1:
            vectorize(leaf, lanes * group_of_pass(leaf, lanes, target))


def _read_ahead(row: ForOp, target: Target) -> None:
    """Has the next row of an operand brought near while the last pass over this row computes: the
    first pass over a row would wait for its beginning.
    """
    passes = [op for op in row.body.block.ops if isinstance(op, ForOp)]
    loads = {
        load.buffer: load
        for leaf in passes
        for load in accesses_in(leaf)
        if isinstance(load, LoadOp) and _is_row(load, row, target)
    }
    for load in loads.values():
        if len({leaf for leaf in passes if _loads(leaf, load.buffer)}) > 1:
            prefetch(load, row)


def _is_row(load: LoadOp, row: ForOp, target: Target) -> bool:
    """Whether a load walks through an argument that has one row, of a few lines up to a half of the
    first cache, for each iteration.
    """
    leaf = enclosing_loops(load)[-1]
    step, distance = stride(load, leaf), stride(load, row)
    if isinstance(load.buffer.owner, AllocOp) or step != 1 or distance is None:
        return False
    bytes = (distance.constant or 0) * width(load.buffer_type.element) // 8
    return LEAST_ROW <= bytes <= target.l1_bytes // 2


def _loads(loop: ForOp, buffer: SSAValue) -> bool:
    return any(access.buffer is buffer for access in accesses_in(loop))


def _apply_in_blocks(loop: ForOp, target: Target) -> None:
    """Runs a long reduction to a single element as many short ones in parallel."""
    try:
        blocks = block_reduction(loop, BLOCK)
    except IllegalSchedule:
        vectorize_leaves(loop, target)
        return
    for store in [op for op in blocks.outer.body.block.ops if isinstance(op, StoreOp)]:
        stage(store.buffer, blocks.outer, "registers")
    if follows_streams(target):
        vectorize_leaves(_in_streams(blocks.inner, target), target)
        parallelize_outermost(blocks.outer)
    else:
        vectorize_leaves(blocks.inner, target)
        parallelize_outermost(blocks.outer)
        _read_on(blocks.outer)
    for rest in (blocks.remainder, blocks.combine):
        if rest is not None:
            vectorize_leaves(rest, target)


def _in_streams(loop: ForOp, target: Target) -> ForOp:
    """Has a block read at several places in turn, a vector at each: the machine follows each of
    them, and so asks memory for more lines at once than of one.

        for k < 32768:  s += x[k]
        ->  for k < 32768:  s += x[k mod 32 floordiv 8 * 8192 + k floordiv 32 * 8 + k mod 8]
    """
    accesses = accesses_in(loop)
    sums = sum(isinstance(access, StoreOp) for access in accesses)
    runs = any(stride(access, loop) == 1 for access in accesses)
    if loops_in(loop) or sums != 1 or not runs:
        return loop
    extent = loop.extent.constant
    assert extent is not None, "blocks have a constant size"
    streams, steps, _ = tile(loop, extent // STREAMS)
    vectors, lanes, _ = tile(steps, lanes_of([loop], target))
    reorder(vectors, streams, lanes)
    return collapse(vectors, collapse(streams, lanes), named="k")


def _read_on(block: ForOp) -> None:
    """Has arguments read ahead of the vectors that a block adds up."""
    for load in [access for access in accesses_in(block) if isinstance(access, LoadOp)]:
        inside = [loop for loop in enclosing_loops(load) if loop is not block]
        steps = [loop for loop in inside if loop.vector is None]
        distance = stride(load, steps[-1]) if steps else None
        elements = (distance.constant or 0) if distance is not None else 0
        if elements > 0 and not isinstance(load.buffer.owner, AllocOp):
            ahead = AHEAD * 8 // width(load.buffer_type.element) // elements
            prefetch(load, steps[-1], max(1, ahead))
