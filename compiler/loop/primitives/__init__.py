"""Schedule primitives: rewrites of loop nests, in place, that raise rather than change meaning.

Structure first, marks last: what restructures a loop refuses one that is already parallel, vector
or unrolled.
"""

from compiler.loop.primitives.dropping import drop_overwritten
from compiler.loop.primitives.fusing import drop_empty, drop_unread, forward, fuse, fuse_at, inline
from compiler.loop.primitives.marking import nontemporal, parallelize, unroll, vectorize
from compiler.loop.primitives.ordering import distribute, hoist, reorder
from compiler.loop.primitives.packing import flatten, hoist_allocation, pack, panels
from compiler.loop.primitives.prefetching import prefetch
from compiler.loop.primitives.reducing import (
    Blocks,
    PartialResults,
    block_reduction,
    split_reduction,
)
from compiler.loop.primitives.staging import Staged, stage, stage_partial
from compiler.loop.primitives.tiling import Tiles, collapse, normalize, split_at, tile, tile_ragged
from compiler.loop.primitives.widening import widen

PRIMITIVES = (
    tile,
    tile_ragged,
    split_at,
    normalize,
    collapse,
    reorder,
    distribute,
    hoist,
    fuse,
    fuse_at,
    inline,
    forward,
    drop_unread,
    drop_empty,
    drop_overwritten,
    stage,
    stage_partial,
    split_reduction,
    block_reduction,
    pack,
    flatten,
    hoist_allocation,
    widen,
    vectorize,
    unroll,
    parallelize,
    nontemporal,
    prefetch,
)
"""All that a schedule is made of; each is a pass as well, and a line of a schedule file."""

__all__ = [
    "PRIMITIVES",
    "Blocks",
    "PartialResults",
    "Staged",
    "Tiles",
    "block_reduction",
    "collapse",
    "distribute",
    "drop_empty",
    "drop_overwritten",
    "drop_unread",
    "flatten",
    "forward",
    "fuse",
    "fuse_at",
    "hoist",
    "hoist_allocation",
    "inline",
    "nontemporal",
    "normalize",
    "pack",
    "panels",
    "parallelize",
    "prefetch",
    "reorder",
    "split_at",
    "split_reduction",
    "stage",
    "stage_partial",
    "tile",
    "tile_ragged",
    "unroll",
    "vectorize",
    "widen",
]
