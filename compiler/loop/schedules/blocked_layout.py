"""Nests over buffers in a blocked layout (NCHWc): the loop over channels is tiled into blocks, and
the one within a block becomes the innermost, where it is a vector.

    for c:  for h:  for w:  S(c, h, w)   ->   for co:  for h:  for w:  for ci:  S(16*co + ci, h, w)

So does one that combines all of such a buffer, which it then reads in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.compiler.loop.layouts import is_in_blocks, lane_stride
from weft.compiler.loop.nest import accesses_in, loops_in, perfect_nest
from weft.compiler.loop.primitives import reorder, tile
from weft.compiler.loop.schedules.innermost_loops import lanes_of, unscheduled
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import KernelOp


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Tiles the nests that have no marks yet; yields no name, for others make them fast."""
    for loop in unscheduled(kernel):
        nest = perfect_nest(loop)
        if loops_in(nest[-1]) or len({level.reduction for level in nest}) > 1:
            continue
        lanes = lanes_of([loop], target)
        channels = _channels(nest, lanes)
        if channels is not None and lanes > 1:
            _tile_channels(nest, channels, lanes)
    yield from ()


def _channels(nest: Sequence[ForOp], lanes: int) -> ForOp | None:
    """The loop along which some accesses index blocks of as many lanes, and most are as good for a
    vector: in blocks, contiguous, or the same in all iterations.
    """
    accesses = accesses_in(nest[-1])
    for loop in nest:
        extent = loop.extent.constant
        if extent is None or extent < lanes:
            continue
        suited = [access for access in accesses if lane_stride(access, loop, lanes) in (0, 1)]
        blocked = any(is_in_blocks(access, loop, lanes) for access in suited)
        if blocked and len(suited) * 2 >= len(accesses):
            return loop
    return None


def _tile_channels(nest: Sequence[ForOp], channels: ForOp, lanes: int) -> None:
    """Tiles the loop over channels; the remainder, part of a block, becomes a nest of its own."""
    position = nest.index(channels)
    others = [loop for loop in nest if loop is not channels]
    whole = channels.extent % lanes == 0
    if not whole:
        reorder(channels, *others)
    tiles = tile(channels, lanes)
    if tiles.remainder is not None:
        rest = perfect_nest(tiles.remainder)
        reorder(*rest[1:], rest[0])
    reorder(*others[:position], tiles.outer, *others[position:], tiles.inner)
