"""Producer fusion: what fills a buffer that a reduction reads is computed where it is read. A
channel's padded plane is written right before the windows over it, rows of it right before those
that need them, and stays in L1 or L2. Of what is filled and then partly overwritten, only the
border is filled.

    for j:  p[j] = pad(x[j])        ->   for j:  p[j] = pad(x[j]);  y[j] = windows(p[j])
    for j:  y[j] = windows(p[j])

A row of which lanes load every second element is deinterleaved once, where it is filled: first come
all even elements, then all odd ones, and every tap loads contiguous vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

from xdsl.dialects.builtin import NoneAttr

from weft.compiler.loop.matchers import is_straight_line
from weft.compiler.loop.nest import (
    accesses_to,
    child_loops,
    indexed_dims,
    is_indexed_by_loops,
    loads_in,
    loops_in,
    perfect_nest,
    ranges_around,
    stores_in,
)
from weft.compiler.loop.primitives import (
    eliminate_dead_stores,
    pack,
    prefetch,
    reorder,
    split_at,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.fuse_nests import try_fuse
from weft.compiler.loop.schedules.innermost_loops import (
    PREFETCH_BYTES,
    lanes_for,
    main_and_remainder,
    privatize,
    vectorize_innermost,
)
from weft.compiler.loop.schedules.parallel_loops import least_tasks
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, Operand
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type_of

LONGEST_STEP = 4
"""The longest stride of lanes for which rows are deinterleaved."""

LARGEST_PLANE = 64 * 1024
"""Bytes of an operand of one iteration that a thread has on its stack."""


def fuse_producers(consumers: list[ForOp], target: Target) -> list[ForOp]:
    """Fuses neighbouring nests with the first, and that with the nests in front that fill its
    operands, as long as the outer loops agree; returns the outer loops that are left.

    What is fused has no marks yet on its outer loop; the innermost loops of producers become
    vectors.
    """
    # Parts of one reduction, a main loop and a remainder, share what fills their operand, so they
    # become one nest first; one behind a part that is left would have to move across it.
    inner = [loop for consumer in consumers for loop in child_loops(consumer)]
    first, *rest = consumers
    if next(_producers(first), None) is None:
        return _fuse_alike(consumers)
    left: list[ForOp] = []
    parts: list[ForOp] = []
    for consumer in rest:
        fused = None if left else try_fuse(first, consumer)
        first = fused or first
        left += [] if fused else [consumer]
    for each in list(_producers(first)):
        producer = _outermost_alike(each, first)
        if producer.extent != first.extent or not loops_in(producer):
            break
        own = child_loops(producer)
        fused = try_fuse(producer, first)
        if fused is None:
            break
        first, parts = fused, [*own, *parts]
    # Images are around channels: what is filled for an image is so for each channel of it.
    if parts and not left and len(inner) == len(consumers):
        fuse_producers(inner, target)
        parts = [each for each in parts if each.parent is first.body.block]
    # The buffer of a fused producer is used inside one iteration alone: a plane of its own makes
    # the iterations independent, and is small enough to stay in L1 or L2.
    privatize(first, LARGEST_PLANE)
    fills = [nest for part in parts for kept in fill_border(part) for nest in _fill_per_tile(kept)]
    _deinterleave(first, fills, target)
    for each in fills:
        if each.parent is not None and not any(loop.vector for loop in (each, *loops_in(each))):
            vectorize_innermost(each, target)
            _prefetch_rows(each)
    return [first, *left]


def _fuse_alike(nests: Sequence[ForOp]) -> list[ForOp]:
    """Fuses neighbouring nests as deep as they agree, but not by the outermost loop alone where
    that may have a single iteration: threads share the loops of a perfect nest.
    """
    kept = [nests[0]]
    for each in nests[1:]:
        last = kept[-1]
        levels = zip(perfect_nest(last), perfect_nest(each), strict=False)
        alike = len(list(takewhile(lambda pair: pair[0].extent == pair[1].extent, levels)))
        single = least_tasks(last.extent) == 1
        fused = try_fuse(last, each) if alike > int(single) else None
        kept[-1:] = [last, each] if fused is None else [fused]
        if fused is not None:
            _fuse_inside(fused)
    for each in kept:
        privatize(each, LARGEST_PLANE)
    return kept


def _fuse_inside(loop: ForOp) -> None:
    """Fuses the loops inside of one, where there is nothing else, and those inside of these."""
    while (inner := child_loops(loop)) and len(inner) == len(loop.body.block.ops):
        loop, *rest = inner
        for each in rest:
            fused = try_fuse(loop, each)
            if fused is None:
                return
            loop = fused


def _outermost_alike(producer: ForOp, consumer: ForOp) -> ForOp:
    """The outer loop of a producer, whose loops are reordered so that it is the one that fills what
    an iteration of the consumer reads: a consumer may have its channels around a small batch.
    """
    read = {
        (load.buffer, dim) for load in loads_in(consumer) for dim in indexed_dims(load, consumer)
    }
    nest = perfect_nest(producer)
    for position, loop in enumerate(nest):
        filled = {
            (store.buffer, dim)
            for store in stores_in(producer)
            for dim in indexed_dims(store, loop)
        }
        if loop.extent == consumer.extent and filled & read:
            with suppress(IllegalSchedule):
                return reorder(loop, *nest[:position])[0]
    return producer


def _deinterleave(first: ForOp, fills: Sequence[ForOp], target: Target) -> None:
    """Makes what lanes load with a stride contiguous, in the planes of one iteration."""
    # It pays only where loops that can be tiled by the stride fill the rows contiguously: otherwise
    # the fill would scatter what the loads no longer gather.
    rows = [loop for fill in fills for loop in (fill, *loops_in(fill)) if not loops_in(loop)]
    for plane in [op for op in first.body.block.ops if isinstance(op, AllocOp)]:
        stores = [use.operation for use in plane.result.uses if isinstance(use.operation, StoreOp)]
        filled = list(dict.fromkeys(enclosing_loops(store)[-1] for store in stores))
        step = _step_of_lanes(plane)
        if step is None or not all(
            row in rows and _fills_contiguously(row, plane) for row in filled
        ):
            continue
        pack(plane.result, _deinterleaved(buffer_type_of(plane.result), step))
        for row in filled:
            if (row.extent.constant or 0) >= step:
                _fill_deinterleaved(row, step, target)


def _step_of_lanes(plane: AllocOp) -> int | None:
    """The stride with which lanes load rows of a buffer on the stack, if it is one everywhere."""
    buffer_type = buffer_type_of(plane.result)
    if plane.scope.data != "scratch" or not isinstance(buffer_type.layout, NoneAttr):
        return None
    loads = [use.operation for use in plane.result.uses if isinstance(use.operation, LoadOp)]
    steps = {_step_along_row(load) for load in loads}
    step = steps.pop() if len(steps) == 1 else None
    return step if step is not None and 1 < step <= LONGEST_STEP else None


def _step_along_row(load: LoadOp) -> int | None:
    """The stride of lanes along the last dim, if they load from one row at all."""
    lanes = [loop for loop in enclosing_loops(load) if loop.vector is not None]
    distances = [(stride(load, loop), load.index[-1].coefficient(loop.index)) for loop in lanes]
    alike = len(distances) == 1 and distances[0][0] == distances[0][1]
    return distances[0][1].constant if alike else None


def _deinterleaved(buffer_type: BufferType, step: int) -> LayoutAttr:
    """The layout whose rows are deinterleaved: elements of one remainder are contiguous."""
    *outer, row = (Expr.of(Operand(dim)) for dim in range(buffer_type.rank))
    *sizes, length = buffer_type.shape
    index = ExprsAttr((*outer, row % step, row // step))
    return LayoutAttr(index, ExprsAttr((*sizes, Expr.of(step), length.ceildiv(step))))


def _fills_contiguously(row: ForOp, plane: AllocOp) -> bool:
    """Whether a loop of constant length fills rows of a buffer contiguously."""
    stores = stores_in(row)
    plain = is_straight_line(row)
    along = all(store.index[-1].coefficient(row.index) == 1 for store in stores)
    alone = all(store.buffer is plane.result for store in stores)
    return plain and along and alone and row.extent.constant is not None


def _fill_deinterleaved(row: ForOp, step: int, target: Target) -> None:
    """Fills a row with vectors of elements that have one remainder."""
    lanes = lanes_for(row, target)
    outer, inner, _ = tile(row, step)
    reorder(inner, outer)
    for part in main_and_remainder(outer, lanes):
        if part.extent != 1:
            vectorize(part, lanes_for(part, target))
    unroll(inner)


def _producers(consumer: ForOp) -> Iterator[ForOp]:
    """The nests right in front, from the last on, that store to a local buffer which is read."""
    read = {load.buffer for load in loads_in(consumer) if isinstance(load.buffer.owner, AllocOp)}
    before = consumer.prev_op
    while before is not None:
        following = before.prev_op
        if isinstance(before, ForOp):
            stored = {store.buffer for store in stores_in(before)}
            if not stored <= read or before.parallel is not None:
                return
            yield before
        before = following


def fill_border(fill: ForOp) -> list[ForOp]:
    """Leaves out of a nest that fills a buffer what the next nest stores there; returns the nests
    that are left.
    """
    # The loops are split around the box that is stored again, level by level: what is outside of it
    # becomes a nest of its own at each level, and the nest over the box itself is dead.
    again = fill.next_op
    while again is not None and not isinstance(again, ForOp):
        again = again.next_op
    stores, copies = stores_in(fill), [] if again is None else stores_in(again)
    if len(stores) != 1 or len(copies) != 1 or stores[0].buffer is not copies[0].buffer:
        return [fill]
    nest = perfect_nest(fill)
    regions = [_stored_again(loop, stores[0], copies[0]) for loop in nest]
    known = [region for region in regions if region is not None]
    if len(known) < len(nest):
        return [fill]
    kept, loop = [fill], fill
    try:
        for level, (start, extent) in enumerate(known):
            loop = loop if level == 0 else perfect_nest(loop)[1]
            if start != 0:
                loop = _split(loop, start, kept)[1]
            if loop.extent != extent:
                loop = _split(loop, extent, kept)[0]
        eliminate_dead_stores(loop)
    except IllegalSchedule:
        return kept  # what was split does the same
    return [each for each in kept if each.parent is not None]


def _split(loop: ForOp, point: Expr, kept: list[ForOp]) -> tuple[ForOp, ForOp]:
    """Splits a loop, which may be one of those that are kept."""
    parts = split_at(loop, point)
    if loop in kept:
        position = kept.index(loop)
        kept[position : position + 1] = parts
    return parts


def _fill_per_tile(fill: ForOp) -> list[ForOp]:
    """Fuses a nest that fills rows of a buffer with the tiles behind it that read them: each tile
    fills the rows that it is the first to need, so that memory is read while tiles are computed.
    Returns the nests that fill: the prologue, with the rows that the first tile needs more, and
    that of each tile.

        for k < 112:  p[k + 1] = x[k]            for k < 1:  p[k + 1] = x[k]
        for io < 7:  S(p[16*io .. 16*io+17])  ->  for io < 7:
                                                     for ki < min(16, 111 - 16*io):  p[..] = x[..]
                                                     S(p[16*io .. 16*io+17])
    """
    tiles, stores = fill.next_op, stores_in(fill)
    if not isinstance(tiles, ForOp) or tiles.extent == 1 or len(stores) != 1:
        return [fill]
    prologue = _prologue_of(stores[0], fill, tiles)
    left = None if prologue is None else (fill.extent - prologue.rows).constant
    # The loop over steps of rows fuses with that over tiles only if both have as many iterations.
    if prologue is None or left is None or tiles.extent != -(-left // prologue.step) or left <= 0:
        return [fill]
    parts = [fill] if prologue.rows == 0 else list(split_at(fill, prologue.rows))
    steps = tile_ragged(parts[-1], prologue.step)
    try_fuse(steps.outer, tiles)
    return [*parts[:-1], steps.inner]


class _Prologue(NamedTuple):
    """The rows that are filled in front of all tiles, and how many each of them fills."""

    rows: int
    step: int


def _prologue_of(store: StoreOp, fill: ForOp, tiles: ForOp) -> _Prologue | None:
    """The rows that the first tile needs more than each later one, if all of them advance alike."""
    offsets = [(axis, expr - Expr.atom(fill.index)) for axis, expr in enumerate(store.index)]
    found = [(axis, offset.constant) for axis, offset in offsets if offset.constant is not None]
    reads = accesses_to(store.buffer, tiles)
    if len(found) != 1 or not reads or fill.lower != 0 or fill.step.data != 1:
        return None
    axis, offset = found[0]
    steps = {access.index[axis].coefficient(tiles.index).constant for access in reads}
    step = steps.pop()
    if steps or step is None or step < 1:
        return None
    ends: list[int] = []
    for access in reads:
        row = access.index[axis] - Expr.atom(tiles.index) * step
        end = row.range(ranges_around(access))[1]
        if end is None:
            return None
        ends.append(end)
    return _Prologue(max(0, max(ends) - (offset or 0) + 1 - step), step)


def _stored_again(loop: ForOp, store: StoreOp, again: StoreOp) -> tuple[Expr, Expr] | None:
    """From which iteration on, and for how many, a later store writes along the same dim."""
    here = Expr.atom(loop.index)
    if here not in store.index or loop.lower != 0 or loop.step.data != 1:
        return None
    there = again.index[store.index.index(here)]
    for other in enclosing_loops(again):
        start = there - Expr.atom(other.index) + other.lower
        if other.step.data == 1 and start.constant is not None:
            return start, other.extent
    return None


def _prefetch_rows(nest: ForOp) -> None:
    """Prefetches rows of an argument ahead of the one that a nest copies."""
    inner = perfect_nest(nest)[-1]
    for load in loads_in(inner):
        distance = stride(load, nest)
        row = (distance.constant or 0) if distance is not None else 0
        held = isinstance(load.buffer.owner, AllocOp)
        known = is_indexed_by_loops(load)
        if known and not held and stride(load, inner) == 1 and row > 0:
            rows = max(1, PREFETCH_BYTES * 8 // width(load.buffer_type.element) // row)
            prefetch(load, nest, rows)
