"""A nest of independent iterations: as few loops as its accesses allow,
tiles in parallel, vectors within.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from compiler.loop.nest import accesses_in, loops_in, perfect_nest
from compiler.loop.primitives import collapse, hoist, nontemporal, tile, unroll, vectorize
from compiler.loop.schedules.innermost_loops import (
    abreast,
    collapse_contiguous,
    is_past_caches,
    is_place,
    lanes_for,
    parallelize_outermost,
    stride,
    unscheduled,
)
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp

NAME = "pointwise"

VECTORS = 4
"""Vectors per tile; enough independent work for the units,
little enough to leave no long remainder.
"""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest of independent iterations that has no marks yet."""
    for loop in unscheduled(kernel):
        if matches(loop):
            apply(loop, target)
            yield NAME


def matches(loop: ForOp) -> bool:
    """A perfect nest around loads, scalar operations and stores, none of its loops a reduction."""
    nest = perfect_nest(loop)
    plain = not loops_in(nest[-1]) and all(not op.regions for op in nest[-1].body.block.ops)
    return plain and all(level.reduction is None for level in nest)


def apply(loop: ForOp, target: Target) -> None:
    """Collapses, tiles, vectorises and parallelises the nest; loops that repeat elements join."""
    nest = perfect_nest(collapse_contiguous(loop))
    if len(nest) > 1 and _repeats(nest[-2], nest[-1], target):
        nest[-2:] = [collapse(nest[-2], nest[-1])]
    inner = nest[-1]
    lanes = lanes_for(inner, target)
    if lanes == 1 or _writes_scattered(inner):
        parallelize_outermost(nest[0])
        return
    _store_past_caches(inner, target)
    tiled = len(nest) == 1 and (inner.extent.constant or 2**62) > VECTORS * lanes
    tiles = tile(inner, VECTORS * lanes) if tiled else None
    if tiles is None:
        inner = vectorize(inner, abreast(inner, lanes, target))
        parallelize_outermost(nest[0])
        _find_rows_once(inner)
        return
    width = abreast(tiles.inner, lanes, target)
    vectorize(tiles.inner, width)
    if width < VECTORS * lanes:
        unroll(tiles.inner)
    if tiles.remainder is not None:
        vectorize(tiles.remainder, lanes)
    parallelize_outermost(tiles.outer)


def _find_rows_once(loop: ForOp) -> None:
    """Has the number of a row, and what follows from it alone, computed in front of the row."""
    places = [access for access in accesses_in(loop) if is_place(access, loop)]
    for op in list(loop.body.block.ops) if places else ():
        with suppress(IllegalSchedule):  # it varies along the row
            hoist(op)


def _store_past_caches(loop: ForOp, target: Target) -> None:
    """Has results that no cache holds written to memory itself: their lines are not read before,
    and those of operands stay.
    """
    for store in [access for access in accesses_in(loop) if isinstance(access, StoreOp)]:
        if stride(store, loop) == 1 and is_past_caches(store, target):
            with suppress(IllegalSchedule):  # the kernel reads it again
                nontemporal(store)


def _repeats(outer: ForOp, inner: ForOp, target: Target) -> bool:
    """Whether two loops store on and on where the inner, shorter than a vector, loads one element
    again and again: as one loop they fill vectors, and a vector holds whole runs of repeats.
    """
    count, lanes = inner.extent.constant, lanes_for(outer, target)
    if count is None or not 1 < count < lanes or lanes % count:
        return False
    steps = [(a, stride(a, outer), stride(a, inner)) for a in accesses_in(inner)]
    on = [far == count and near == 1 for _, far, near in steps]
    again = [isinstance(a, LoadOp) and far == 1 and near == 0 for a, far, near in steps]
    return all(x or y for x, y in zip(on, again, strict=True)) and any(again)


def _writes_scattered(loop: ForOp) -> bool:
    """Whether neighbouring iterations store apart while they load
    together: lanes would gain nothing.
    """
    steps = {type(access): stride(access, loop) for access in accesses_in(loop)}
    return steps.get(StoreOp) != 1 and steps.get(LoadOp) != 1
