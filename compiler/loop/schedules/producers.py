"""What fills a buffer that a reduction reads, done where it is read: a channel's padded plane is
written right before the windows over it, rows of it right before those that need them, and stays
in a near cache. Of what is filled and then partly overwritten, only the border is filled.

    for j:  p[j] = pad(x[j])        ->   for j:  p[j] = pad(x[j]);  y[j] = windows(p[j])
    for j:  y[j] = windows(p[j])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compiler.loop.nest import accesses_in, loops_in, perfect_nest, ranges_around
from compiler.loop.primitives import drop_overwritten, fuse, prefetch, split_at, tile_ragged
from compiler.loop.schedules.leaves import AHEAD, privatize, stride, vectorize_leaves
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, atom_expr
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.scalar import width

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
    for part in parts:
        for each in [nest for kept in _fill_border(part) for nest in _fill_in_step(kept)]:
            vectorize_leaves(each, target)
            _read_ahead(each)
    return [first, *left]


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
