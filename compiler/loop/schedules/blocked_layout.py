"""Nests over buffers whose channels lie in blocks: the loop over channels is cut into blocks, and
the one within a block becomes the innermost, where it is a vector.

    for c:  for h:  for w:  S(c, h, w)   ->   for co:  for h:  for w:  for ci:  S(16*co + ci, h, w)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.loop.layouts import is_in_blocks, lane_stride
from compiler.loop.nest import accesses_in, loops_in, perfect_nest
from compiler.loop.primitives import reorder, tile
from compiler.loop.schedules.innermost_loops import lanes_of, unscheduled
from compiler.target.target import Target
from dialects.loop.ops import ForOp
from dialects.loop.program import KernelOp


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Cuts the nests that have no marks yet; names no schedule, for others make them fast."""
    for loop in unscheduled(kernel):
        nest = perfect_nest(loop)
        if loops_in(nest[-1]) or any(level.reduction is not None for level in nest):
            continue
        lanes = lanes_of([loop], target)
        channels = _channels(nest, lanes)
        if channels is not None and lanes > 1:
            _cut(nest, channels, lanes)
    yield from ()


def _channels(nest: Sequence[ForOp], lanes: int) -> ForOp | None:
    """The loop along which some accesses move within blocks of as many lanes, and most are as good
    for a vector: within blocks, on and on, as numbers of a channel lie, or not at all.
    """
    accesses = accesses_in(nest[-1])
    for loop in nest:
        extent = loop.extent.constant
        if extent is None or extent < lanes:
            continue
        near = [access for access in accesses if lane_stride(access, loop, lanes) in (0, 1)]
        blocked = any(is_in_blocks(access, loop, lanes) for access in near)
        if blocked and len(near) * 2 >= len(accesses):
            return loop
    return None


def _cut(nest: Sequence[ForOp], channels: ForOp, lanes: int) -> None:
    """Tiles the loop over channels; a part of a block that is left over becomes a nest apart."""
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
