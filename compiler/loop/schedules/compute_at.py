"""What fills a buffer that a reduction reads, done where it is read: a channel's padded plane is
written right before the windows over it, rows of it right before those that need them, and stays
in a near cache. Of what is filled and then partly overwritten, only the border is filled.

    for j:  p[j] = pad(x[j])        ->   for j:  p[j] = pad(x[j]);  y[j] = windows(p[j])
    for j:  y[j] = windows(p[j])

Of a row that lanes load every second element of, first come all even elements, then all odd ones:
they are brought apart once, where the row is filled, and every tap is a vector as it lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import NoneAttr

from compiler.loop.nest import accesses_in, is_branch, loops_in, perfect_nest, ranges_around
from compiler.loop.primitives import (
    drop_overwritten,
    fuse,
    pack,
    prefetch,
    reorder,
    split_at,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from compiler.loop.schedules.innermost_loops import (
    AHEAD,
    lanes_for,
    privatize,
    stride,
    vectorize_leaves,
    whole_and_rest,
)
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, Operand, atom_expr
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.scalar import width
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type

MOST_APART = 4
"""Elements between those that lanes load, up to which rows are laid out for them."""

LARGEST_PLANE = 64 * 1024
"""Bytes of an operand of one iteration that a thread has on its stack."""


def join_producers(consumers: list[ForOp], target: Target) -> list[ForOp]:
    """Fuses neighbouring nests with the first, and that with the nests in front that fill its
    operands, as long as the outer loops agree; returns the outer loops that are left.

    What is fused has no marks yet on its outer loop; the leaves of producers become vectors.
    """
    first, *rest = consumers
    left: list[ForOp] = []
    parts: list[ForOp] = []
    for consumer in rest:
        fused = None if left else _try_fuse(first, consumer)
        first = fused or first
        left += [] if fused else [consumer]
    for producer in list(_producers(first)):
        if producer.extent != first.extent or not loops_in(producer):
            break
        leaves = [op for op in producer.body.block.ops if isinstance(op, ForOp)]
        fused = _try_fuse(producer, first)
        if fused is None:
            break
        first, parts = fused, [*leaves, *parts]
    privatize(first, LARGEST_PLANE)
    fills = [nest for part in parts for kept in _fill_border(part) for nest in _fill_in_step(kept)]
    _bring_apart(first, fills, target)
    for each in fills:
        if each.parent is not None and not any(loop.vector for loop in (each, *loops_in(each))):
            vectorize_leaves(each, target)
            _read_ahead(each)
    return [first, *left]


def _bring_apart(first: ForOp, fills: Sequence[ForOp], target: Target) -> None:
    """Has what lanes load every few elements of lie in one run, in the planes of one iteration."""
    rows = [loop for fill in fills for loop in (fill, *loops_in(fill)) if not loops_in(loop)]
    for plane in [op for op in first.body.block.ops if isinstance(op, AllocOp)]:
        stores = [use.operation for use in plane.result.uses if isinstance(use.operation, StoreOp)]
        filled = list(dict.fromkeys(enclosing_loops(store)[-1] for store in stores))
        step = _step_of_lanes(plane)
        if step is None or not all(row in rows and _goes_along(row, plane) for row in filled):
            continue
        pack(plane.result, _by_remainder(buffer_type(plane.result), step))
        for row in filled:
            if (row.extent.constant or 0) >= step:
                _fill_by_remainder(row, step, target)


def _step_of_lanes(plane: AllocOp) -> int | None:
    """How many elements of a row of a buffer on the stack lie between those that neighbouring lanes
    load, if there are as many everywhere.
    """
    kind = buffer_type(plane.result)
    if plane.scope.data != "scratch" or not isinstance(kind.layout, NoneAttr):
        return None
    loads = [use.operation for use in plane.result.uses if isinstance(use.operation, LoadOp)]
    steps = {_step_along_row(load) for load in loads}
    step = steps.pop() if len(steps) == 1 else None
    return step if step is not None and 1 < step <= MOST_APART else None


def _step_along_row(load: LoadOp) -> int | None:
    """How far along the last dim neighbouring lanes load, if they are at all in one row."""
    lanes = [loop for loop in enclosing_loops(load) if loop.vector is not None]
    distances = [(stride(load, loop), load.index[-1].coefficient(loop.index)) for loop in lanes]
    alike = len(distances) == 1 and distances[0][0] == distances[0][1]
    return distances[0][1].constant if alike else None


def _by_remainder(kind: BufferType, step: int) -> LayoutAttr:
    """The layout whose rows have all elements with one remainder next to each other."""
    *outer, row = (Expr.of(Operand(dim)) for dim in range(kind.rank))
    *sizes, length = kind.shape
    index = ExprsAttr((*outer, row % step, row // step))
    return LayoutAttr(index, ExprsAttr((*sizes, Expr.of(step), length.ceildiv(step))))


def _goes_along(row: ForOp, plane: AllocOp) -> bool:
    """Whether a loop of known length fills rows of a buffer, one element after the other."""
    stores = _stores(row)
    plain = not any(is_branch(op) for op in row.body.block.ops)
    along = all(store.index[-1].coefficient(row.index) == 1 for store in stores)
    alone = all(store.buffer is plane.result for store in stores)
    return plain and along and alone and row.extent.constant is not None


def _fill_by_remainder(row: ForOp, step: int, target: Target) -> None:
    """Fills a row with vectors of elements that have one remainder."""
    lanes = lanes_for(row, target)
    outer, inner, _ = tile(row, step)
    reorder(inner, outer)
    for part in whole_and_rest(outer, lanes):
        if part.extent != 1:
            vectorize(part, lanes_for(part, target))
    unroll(inner)


def _producers(consumer: ForOp) -> Iterator[ForOp]:
    """The nests right in front, from the last on, that store to a local buffer which is read."""
    read = {
        access.buffer
        for access in accesses_in(consumer)
        if isinstance(access, LoadOp) and isinstance(access.buffer.owner, AllocOp)
    }
    before = consumer.prev_op
    while before is not None:
        following = before.prev_op
        if isinstance(before, ForOp):
            stored = {a.buffer for a in accesses_in(before) if isinstance(a, StoreOp)}
            if not stored <= read or before.parallel is not None:
                return
            yield before
        before = following


def _try_fuse(first: ForOp, second: ForOp) -> ForOp | None:
    try:
        return fuse(first, second)
    except IllegalSchedule:
        return None


def _fill_border(fill: ForOp) -> list[ForOp]:
    """Leaves out of a nest that fills a buffer what the next nest stores there; returns the nests
    that are left.
    """
    again = fill.next_op
    while again is not None and not isinstance(again, ForOp):
        again = again.next_op
    stores, copies = _stores(fill), [] if again is None else _stores(again)
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
        drop_overwritten(loop)
    except IllegalSchedule:
        return kept  # what was split does the same
    return [each for each in kept if each.parent is not None]


def _split(loop: ForOp, point: Expr, kept: list[ForOp]) -> tuple[ForOp, ForOp]:
    """Splits a loop, which may be one of those that are kept."""
    parts = split_at(loop, point)
    if loop in kept:
        place = kept.index(loop)
        kept[place : place + 1] = parts
    return parts


def _fill_in_step(fill: ForOp) -> list[ForOp]:
    """Has a nest that fills rows of a buffer keep just ahead of the tiles behind it that read them,
    so that memory is read while tiles are computed; returns the nests that fill.

        for k < 112:  p[k + 1] = x[k]            for k < 1:  p[k + 1] = x[k]
        for io < 7:  S(p[16*io .. 16*io+17])  ->  for io < 7:
                                                     for ki < min(16, 111 - 16*io):  p[..] = x[..]
                                                     S(p[16*io .. 16*io+17])
    """
    tiles, stores = fill.next_op, _stores(fill)
    if not isinstance(tiles, ForOp) or len(stores) != 1:
        return [fill]
    ahead = _rows_ahead(stores[0], fill, tiles)
    left = None if ahead is None else (fill.extent - ahead.first).constant
    if ahead is None or left is None or tiles.extent != -(-left // ahead.step) or left <= 0:
        return [fill]
    parts = [fill] if ahead.first == 0 else list(split_at(fill, ahead.first))
    steps = tile_ragged(parts[-1], ahead.step)
    _try_fuse(steps.outer, tiles)
    return [*parts[:-1], steps.inner]


class _Ahead(NamedTuple):
    """The rows that are filled in front of all tiles, and with each of them."""

    first: int
    step: int


def _rows_ahead(store: StoreOp, fill: ForOp, tiles: ForOp) -> _Ahead | None:
    """What tiles need of the rows that a loop stores, if each of them goes on by as many."""
    offsets = [(axis, expr - atom_expr(fill.index)) for axis, expr in enumerate(store.index)]
    found = [(axis, offset.constant) for axis, offset in offsets if offset.constant is not None]
    reads = [access for access in accesses_in(tiles) if access.buffer is store.buffer]
    if len(found) != 1 or not reads or fill.lower != 0 or fill.step.data != 1:
        return None
    axis, offset = found[0]
    steps = {access.index[axis].coefficient(tiles.index).constant for access in reads}
    step = steps.pop()
    if steps or step is None or step < 1:
        return None
    ends: list[int] = []
    for access in reads:
        row = access.index[axis] - atom_expr(tiles.index) * step
        end = row.range(ranges_around(access))[1]
        if end is None:
            return None
        ends.append(end)
    return _Ahead(max(0, max(ends) - (offset or 0) + 1 - step), step)


def _stores(nest: ForOp) -> list[StoreOp]:
    return [access for access in accesses_in(nest) if isinstance(access, StoreOp)]


def _stored_again(loop: ForOp, store: StoreOp, again: StoreOp) -> tuple[Expr, Expr] | None:
    """From which iteration on, and for how many, a later store goes along the same dim."""
    here = atom_expr(loop.index)
    if here not in store.index or loop.lower != 0 or loop.step.data != 1:
        return None
    there = again.index[store.index.index(here)]
    for other in enclosing_loops(again):
        start = there - atom_expr(other.index) + other.lower
        if other.step.data == 1 and start.constant is not None:
            return start, other.extent
    return None


def _read_ahead(leaf: ForOp) -> None:
    """Lets a copy of an argument read rows ahead of the one that it copies."""
    inner = perfect_nest(leaf)[-1]
    for access in accesses_in(inner):
        distance = stride(access, leaf)
        row = (distance.constant or 0) if distance is not None else 0
        held = isinstance(access.buffer.owner, AllocOp)
        if isinstance(access, LoadOp) and not held and stride(access, inner) == 1 and row > 0:
            rows = max(1, AHEAD * 8 // width(access.buffer_type.element) // row)
            prefetch(access, leaf, rows)
