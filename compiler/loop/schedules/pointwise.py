"""A nest of independent iterations: as few loops as its accesses allow,
tiles in parallel, vectors within.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Final

from weft.compiler.loop.legality import carried_pair
from weft.compiler.loop.matchers import is_straight_line
from weft.compiler.loop.nest import accesses_in, loads_in, perfect_nest, stores_in
from weft.compiler.loop.primitives import hoist, nontemporal, tile, unroll, vectorize
from weft.compiler.loop.schedules.innermost_loops import (
    collapse_contiguous,
    interleaved_lanes,
    is_index_load,
    is_streaming_store,
    lanes_for,
    lanes_of,
    unscheduled,
)
from weft.compiler.loop.schedules.interleave import interleave
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp
from weft.dialects.loop.program import KernelOp

NAME = "pointwise"

VECTORS = 4
"""Vectors per tile: enough independent work for the units, and no long remainder.
"""


SHORT: Final = 16
"""Vectors that take so little time one after another that more code for it is not worth compiling.
"""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest of independent iterations that has no marks yet."""
    for loop in unscheduled(kernel):
        if matches(loop):
            apply(loop, target)
            yield NAME


def matches(loop: ForOp) -> bool:
    """A perfect nest around loads, scalar operations and stores, none of its loops a reduction; of
    the innermost one no iteration reads what another stores, as those do that count.
    """
    nest = perfect_nest(loop)
    if not is_straight_line(nest[-1]) or any(level.reduction is not None for level in nest):
        return False
    stored = {store.buffer for store in stores_in(nest[-1])}
    again = any(load.buffer in stored for load in loads_in(nest[-1]))
    return not again or carried_pair(nest[-1]) is None


def apply(loop: ForOp, target: Target) -> None:
    """Collapses, tiles, vectorises and parallelises the nest, with loops that repeat elements."""
    nest = perfect_nest(collapse_contiguous(loop))
    if tops := interleave(nest, lanes_of(nest[-1:], target)):
        for top in tops:
            parallelize_outermost(top)
        return
    inner = nest[-1]
    lanes = lanes_for(inner, target)
    if lanes == 1 or _only_stores_strided(inner):
        parallelize_outermost(nest[0])
        return
    _stream_stores(inner, target)
    elements = prod(each.extent.constant or 2**62 for each in nest)
    short = elements <= SHORT * lanes
    tiled = len(nest) == 1 and not short
    tiles = tile(inner, VECTORS * lanes) if tiled else None
    if tiles is None:
        inner = vectorize(inner, lanes if short else interleaved_lanes(inner, lanes, target))
        parallelize_outermost(nest[0])
        _hoist_row_index(inner)
        return
    width = interleaved_lanes(tiles.inner, lanes, target)
    vectorize(tiles.inner, width)
    if width < VECTORS * lanes:
        unroll(tiles.inner)
    if tiles.remainder is not None:
        vectorize(tiles.remainder, lanes)
    parallelize_outermost(tiles.outer)


def _hoist_row_index(loop: ForOp) -> None:
    """Computes the index of a row, and what depends on it alone, in front of the row."""
    indices = [access for access in accesses_in(loop) if is_index_load(access, loop)]
    for op in list(loop.body.block.ops) if indices else ():
        with suppress(IllegalSchedule):  # it varies along the row
            hoist(op)


def _stream_stores(loop: ForOp, target: Target) -> None:
    """Makes stores of results that no cache holds non-temporal: their lines are not read before,
    and those of operands stay in the caches.
    """
    for store in stores_in(loop):
        if stride(store, loop) == 1 and is_streaming_store(store, target):
            with suppress(IllegalSchedule):  # the kernel reads it again
                nontemporal(store)


def _only_stores_strided(loop: ForOp) -> bool:
    """Whether stores are strided while loads are contiguous: lanes would gain nothing."""
    steps = {type(access): stride(access, loop) for access in accesses_in(loop)}
    return steps.get(StoreOp) != 1 and steps.get(LoadOp) != 1
