"""Row-wise kernels, as a softmax or a normalisation: several nests over the same outer loops are
fused at the row, so that there is one pass over memory.

The schedule takes any kernel that no other one matched, too; it does not fuse independent nests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from math import prod
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue

from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    child_loops,
    is_defined_inside,
    is_indexed_by_loops,
    is_inside,
    is_pure,
    loads_in,
    loops_in,
    perfect_nest,
    stores_in,
)
from weft.compiler.loop.primitives import (
    block_reduction,
    carry_store,
    collapse,
    distribute,
    forward_store,
    hoist,
    prefetch,
    reorder,
    reuse_buffer,
    stage_tile,
    tile,
    tile_ragged,
    vectorize,
)
from weft.compiler.loop.schedules.compute_at import fill_border
from weft.compiler.loop.schedules.fuse_nests import try_fuse
from weft.compiler.loop.schedules.fuse_reduction import fuse_reductions
from weft.compiler.loop.schedules.innermost_loops import (
    PREFETCH_BYTES,
    collapse_contiguous,
    has_strided_access,
    is_scheduled,
    lanes_of,
    prefers_streams,
    privatize,
    unscheduled,
    vectorize_innermost,
)
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.schedules.unroll_and_jam import POLYNOMIALS, jam_factor_of_pass
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width

NAME = "row-wise"

BLOCK = 32 * 1024
"""Elements that one thread combines at a time where a reduction has a single result."""

STREAMS = 4
"""Streams of a block, which are read interleaved."""

LEAST_BLOCKS = 4
"""Fewer are not worth a parallel loop."""

LEAST_ROW = 512
"""Bytes; shorter rows arrive in time once the processor's prefetcher has seen a few of them."""


def fuse_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Fuses the nests that have no marks yet, which then pass values on in registers; yields no
    name, for other schedules make them fast. Of what is filled and then partly overwritten, only
    the border is filled: those nests share nothing with others.
    """
    if unscheduled(kernel):
        filled = [fill_border(loop) for loop in unscheduled(kernel)]
        borders = [each for sides in filled if _is_border(sides) for each in sides]
        fuse_rows(kernel, borders)
        for loop in unscheduled(kernel):
            _forward_stored(loop)
        _store_nests_in_results(kernel)
    yield from ()


def _is_border(sides: Sequence[ForOp]) -> bool:
    return sum(len(stores_in(side)) for side in sides) > 1 and not any(map(loads_in, sides))


def _forward_stored(loop: ForOp) -> None:
    """Replaces loads of what the same iteration has stored before, where nothing may have changed
    it since.
    """
    stored: set[tuple[Block | None, SSAValue]] = set()
    for access in accesses_in(loop):
        key = access.parent, access.buffer
        if isinstance(access, StoreOp):
            stored.add(key)
        elif isinstance(access, LoadOp) and key in stored:
            with suppress(IllegalSchedule):
                forward_store(access)


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest that has no marks yet."""
    for loop in unscheduled(kernel):
        apply(loop, target)
        yield NAME


def fuse_rows(parent: ForOp | KernelOp, apart: Collection[ForOp] = ()) -> list[ForOp]:
    """Fuses neighbouring loops of equal extent, but for those that stay `apart`, level by level
    from the outside; returns the loops that are left.
    """
    kept: list[ForOp] = []
    for loop in child_loops(parent):
        if loop in apart:
            continue
        if kept and (fused := _try_fuse_independent(kept[-1], loop)) is not None:
            kept[-1] = fused
        else:
            kept.append(loop)
    for loop in kept:
        fuse_rows(loop)
    if isinstance(parent, ForOp):
        fuse_reductions(kept)
    return kept


def _try_fuse_independent(first: ForOp, second: ForOp) -> ForOp | None:
    if first.reduction is not None or second.reduction is not None or first.extent != second.extent:
        return None
    if is_scheduled(first) != is_scheduled(second):  # no schedule looks into one that is in part
        return None
    return try_fuse(first, second)


def apply(loop: ForOp, target: Target) -> None:
    """Vectorises the innermost loops of a fused nest and runs its outermost loop in parallel."""
    if loop.reduction is None:
        row = perfect_nest(loop)[-1]
        block = _gather_functions(row, target)
        row, loop = block, block if loop is row else loop
        privatize(row)
        _store_in_results(row)
    else:
        loop = collapse_contiguous(loop)
        if (loop.extent.constant or LEAST_BLOCKS * BLOCK) >= LEAST_BLOCKS * BLOCK:
            _apply_in_blocks(loop, target)
            return
    vectorize_innermost(loop, target)
    _lighten(loop)
    loop = parallelize_outermost(loop)
    row = perfect_nest(loop)[-1]
    _jam_vectors(row, target)
    _prefetch_next_row(row, target)


def _gather_functions(row: ForOp, target: Target) -> ForOp:
    """Takes as many short rows at a time as a vector has lanes where each row has mathematical
    functions of its own, as the logarithm of a sum, so that these are computed for all at once.
    Returns the loop over such blocks, or the row.

        for i:  for k:  s[i] += x[i, k];  t[i] = log(s[i]);  for k:  y[i, k] = x[i, k] - t[i]
        ->  for io:  for ii < 16:  for k:  s += ...
                     for ii < 16:  t = log(s)
                     for ii < 16:  for k:  y = ...
    """
    lanes = lanes_of([row], target)
    parts = [[*group] for _, group in groupby(row.body.block.ops, lambda op: isinstance(op, ForOp))]
    cuts = [
        number
        for number, part in enumerate(parts)
        if any(isinstance(op, POLYNOMIALS) for op in part)
    ]
    many = row.extent.constant is None or row.extent.constant >= lanes
    if not cuts or len(parts) == 1 or not many or not _are_short(row, lanes, target):
        return row
    block = tile_ragged(row, lanes)
    for number in reversed(range(1, len(parts))):
        if not {number, number - 1}.isdisjoint(cuts):
            with suppress(IllegalSchedule):
                distribute(block.inner, parts[number][0])
    return block.outer


def _are_short(row: ForOp, count: int, target: Target) -> bool:
    """Whether L1 keeps what so many rows read and store between two passes."""
    bytes = 0
    for loop in child_loops(row):
        extent = loop.extent.constant
        if extent is None or loops_in(loop):
            return False
        moved = {access.buffer: width(access.buffer_type.element) for access in accesses_in(loop)}
        bytes = max(bytes, extent * sum(moved.values()) // 8)
    return 0 < count * bytes <= target.l1_bytes // 2


def _lighten(loop: ForOp) -> None:
    """Takes out of loops that go from element to element what is the same in all iterations, and
    keeps in registers what they store for the next one.
    """
    for inner in reversed([loop, *loops_in(loop)]):
        if inner.hints():
            continue
        for op in list(inner.body.block.ops):
            moves = isinstance(op, LoadOp) and any(inner.index in dim.atoms() for dim in op.index)
            with suppress(IllegalSchedule):
                if isinstance(op, LoadOp) and moves and not isinstance(op.buffer.owner, AllocOp):
                    carry_store(op)
                elif is_pure(op) and _reads_constants(op, inner):
                    for operand in op.operands:
                        if is_defined_inside(operand, inner):
                            hoist(cast(OpResult, operand).op)
                    hoist(op)


def _reads_constants(op: Operation, loop: ForOp) -> bool:
    """Whether an operation that is no constant reads nothing of a loop but constants."""
    inside = [each.owner for each in op.operands if is_defined_inside(each, loop)]
    constants = all(isinstance(each, arith.ConstantOp) for each in inside)
    return constants and not isinstance(op, arith.ConstantOp)


def _store_in_results(row: ForOp) -> None:
    """Stores temporaries of a row that is no short one in the row of a result of their type: what
    all rows are kept in would be memory that is read and written for nothing.
    """
    stored = dict.fromkeys(store.buffer for store in stores_in(row))
    for allocation in [each.owner for each in stored if isinstance(each.owner, AllocOp)]:
        if not is_inside(allocation, row):
            _store_in_result(allocation, row)


def _store_nests_in_results(kernel: KernelOp) -> None:
    """The same for what one nest of a kernel stores and others read, as of a single long row."""
    nests = unscheduled(kernel)
    for allocation in [op for op in kernel.body.block.ops if isinstance(op, AllocOp)]:
        users = [use.operation for use in allocation.result.uses]
        using = [nest for nest in nests if any(is_inside(each, nest) for each in users)]
        if len(using) > 1:
            _store_in_result(allocation, using[-1])


def _store_in_result(allocation: AllocOp, nest: ForOp) -> None:
    """Stores a temporary in the last of the results that a nest stores where that is legal."""
    for store in reversed(stores_in(nest)):
        if store.buffer is not allocation.result:
            with suppress(IllegalSchedule):
                reuse_buffer(allocation, store)
                return


def _jam_vectors(row: ForOp, target: Target) -> None:
    """Interleaves several vectors of a long pass over the row."""
    for inner in child_loops(row):
        lanes = lanes_of([inner], target)
        plain = inner.unroll is None and inner.reduction is None and not has_strided_access(inner)
        if plain and inner.vector == IntAttr(lanes) and lanes > 1:
            vectorize(inner, lanes * jam_factor_of_pass(inner, lanes, target))


def _prefetch_next_row(row: ForOp, target: Target) -> None:
    """Prefetches the next row of an operand while the last pass over this row computes: the first
    pass over a row would wait for its beginning.
    """
    passes = child_loops(row)
    loads: dict[SSAValue, LoadOp] = {}
    for load in loads_in(row):
        if not _is_row(load, row, target):
            continue
        # The remainder of a pass would ask for the end of the row alone.
        before = loads.get(load.buffer)
        if before is None or _iterations(load, row) >= _iterations(before, row):
            loads[load.buffer] = load
    for load in loads.values():
        if sum(bool(accesses_to(load.buffer, inner)) for inner in passes) > 1:
            prefetch(load, row)


def _iterations(load: LoadOp, row: ForOp) -> int:
    """How often an iteration of a loop comes to a load, where that is constant; 0 elsewhere."""
    inside = [loop for loop in enclosing_loops(load) if loop is not row and is_inside(loop, row)]
    return prod(loop.extent.constant or 0 for loop in inside)


def _is_row(load: LoadOp, row: ForOp, target: Target) -> bool:
    """Whether a load reads an argument contiguously that has one row, of a few lines up to a half
    of L1, for each iteration.
    """
    inner = enclosing_loops(load)[-1]
    step, distance = stride(load, inner), stride(load, row)
    if isinstance(load.buffer.owner, AllocOp) or step != 1 or distance is None:
        return False
    if not is_indexed_by_loops(load):
        return False
    bytes = (distance.constant or 0) * width(load.buffer_type.element) // 8
    return LEAST_ROW <= bytes <= target.l1_bytes // 2


def _apply_in_blocks(loop: ForOp, target: Target) -> None:
    """Runs a long reduction to a single element as many short ones in parallel."""
    try:
        blocks = block_reduction(loop, BLOCK)
    except IllegalSchedule:
        vectorize_innermost(loop, target)
        return
    for store in [op for op in blocks.outer.body.block.ops if isinstance(op, StoreOp)]:
        stage_tile(store.buffer, blocks.outer, "registers")
    if prefers_streams(target):
        vectorize_innermost(_interleave_streams(blocks.inner, target), target)
        parallelize_outermost(blocks.outer)
    else:
        vectorize_innermost(blocks.inner, target)
        parallelize_outermost(blocks.outer)
        _prefetch_block(blocks.outer)
    for rest in (blocks.remainder, blocks.combine):
        if rest is not None:
            vectorize_innermost(rest, target)


def _interleave_streams(loop: ForOp, target: Target) -> ForOp:
    """Splits a block into several streams that are read interleaved, a vector of each at a time:
    the prefetcher follows each of them, and so asks memory for more lines at once than of one.

        for k < 32768:  s += x[k]
        ->  for k < 32768:  s += x[k mod 32 floordiv 8 * 8192 + k floordiv 32 * 8 + k mod 8]
    """
    runs = any(stride(access, loop) == 1 for access in accesses_in(loop))
    if loops_in(loop) or len(stores_in(loop)) != 1 or not runs:
        return loop
    extent = loop.extent.constant
    assert extent is not None, "blocks have a constant size"
    streams, steps, _ = tile(loop, extent // STREAMS)
    vectors, lanes, _ = tile(steps, lanes_of([loop], target))
    reorder(vectors, streams, lanes)
    return collapse(vectors, collapse(streams, lanes), named="k")


def _prefetch_block(block: ForOp) -> None:
    """Prefetches arguments ahead of the vectors that a block adds up."""
    for load in loads_in(block):
        inside = [loop for loop in enclosing_loops(load) if loop is not block]
        steps = [loop for loop in inside if loop.vector is None]
        distance = stride(load, steps[-1]) if steps else None
        elements = (distance.constant or 0) if distance is not None else 0
        held = isinstance(load.buffer.owner, AllocOp)
        if elements > 0 and not held and is_indexed_by_loops(load):
            ahead = PREFETCH_BYTES * 8 // width(load.buffer_type.element) // elements
            prefetch(load, steps[-1], max(1, ahead))
