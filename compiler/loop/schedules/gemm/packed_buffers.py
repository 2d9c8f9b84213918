"""Memory that tiles in registers have brought near ahead of its use, and the loops over them,
written out.

The panel of a weight that the next tile of columns reads comes from memory while the tiles of rows
over this one are computed:

    for jo parallel:  for io:  for k:  for ii unroll:  for ji vector unroll:
        prefetch Y[k, jo + 1];  acc[ii, ji] += X[i, k] * Y[k, j]
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from compiler.loop.layouts import is_in_blocks
from compiler.loop.nest import accesses_in, loops_in
from compiler.loop.primitives import prefetch, stage, tile, unroll, vectorize
from compiler.loop.schedules.gemm.pack_panels import computed_type
from compiler.loop.schedules.innermost_loops import stride
from compiler.target.target import LINE, Target
from dialects.expr import Expr
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.scalar import width
from dialects.loop.types import buffer_type

MOST_TILES = 64
"""Tiles of rows over a panel, next to which the time that it takes to come is worth nothing."""


TERMS = (4, 5, 3, 2)
"""Terms that are written out, as many as divide a sum."""


def write_out(nest: Sequence[ForOp], lanes: int) -> None:
    """Unrolls the loops of a tile, the innermost one over neighbouring columns in vectors."""
    columns = next((loop for loop in reversed(nest) if _is_contiguous(loop)), None)
    for loop in nest:
        if loop is columns:
            vectorize(loop, min(lanes, 1 << ((loop.extent.constant or lanes) - 1).bit_length()))
        unroll(loop)


def _is_contiguous(loop: ForOp) -> bool:
    """Whether iterations that follow each other access neighbours of the tile. Where the last axis
    of a tile is one element, loops over other axes do so too.
    """
    return all(stride(access, loop) == 1 for access in accesses_in(loop) if _is_local(access))


def _is_local(access: AccessOp) -> bool:
    owner = access.buffer.owner
    return isinstance(owner, AllocOp) and owner.scope.data == "registers"


def read_ahead(source: SSAValue, at: ForOp, loop: ForOp, lanes: int, *, cache: str) -> None:
    """Loads what an iteration reads of a buffer to registers once, and has that of the next
    iteration of a loop around it brought near meanwhile.
    """
    vector = stage(source, at, "registers").load_in
    write_out(vector, lanes)
    if not isinstance(source.owner, AllocOp):
        (load,) = [each for each in accesses_in(vector[0]) if isinstance(each, LoadOp)]
        line = lanes * width(load.buffer_type.element) // 8 >= LINE
        lines = prefetch(load, loop, 1, cache=cache, before=None if line else vector[0])
        for each in lines:
            unroll(each)


def pays_ahead(panel: SSAValue, columns: ForOp, tiles: Expr, target: Target) -> bool:
    """Whether the panel of the next tile of columns is better brought into the second cache while
    so many tiles of rows are computed over this one: both take half of it at most, all panels are
    no small part of it, and what a panel costs to load is not spread over many tiles.
    """
    kind = buffer_type(panel)
    load = next(access for access in accesses_in(columns) if access.buffer is panel)
    in_panels = not isinstance(kind.layout, NoneAttr)
    if not in_panels or not isinstance(load, LoadOp) or computed_type(load) != kind.element:
        return False
    known, panels = tiles.constant, columns.extent.constant
    bytes = (kind.size.constant or 0) * width(kind.element) // 8
    if panels is None or (known is not None and not 1 < known <= MOST_TILES):
        return False
    return 4 * bytes // panels <= target.l2_bytes <= 4 * bytes


def panel_ahead(panel: SSAValue, around: ForOp, lanes: int) -> None:
    """Brings a row of the panel of the next tile of columns, which the outermost loop counts, into
    the second cache for each row that the tile reads.
    """
    load = next(access for access in accesses_in(around) if access.buffer is panel)
    loops = enclosing_loops(load)
    terms = [loop for loop in loops if loop.reduction is not None]
    read_ahead(panel, terms[-1], loops[0], lanes, cache="second")


def write_out_terms(top: ForOp, lanes: int = 1) -> None:
    """Writes a few terms of each sum under a loop out: to count takes up a part of the instructions
    beside the few multiply-adds of a small tile. Of a sum over channels in blocks it is a block,
    whose elements lie together.
    """
    for loop in [top, *loops_in(top)]:
        inside, count = loops_in(loop), loop.extent.constant
        written_out = bool(inside) and all(each.unroll is not None for each in inside)
        if loop.reduction is None or loop.unroll is not None or count is None or not written_out:
            continue
        accesses = accesses_in(loop) if lanes > 1 else []
        blocked = any(is_in_blocks(access, loop, lanes) for access in accesses)
        sizes = (lanes, *TERMS) if blocked else TERMS
        most = count if blocked else count - 1
        size = next((n for n in sizes if count % n == 0 and n <= most), None)
        if size == count:
            unroll(loop)
        elif size is not None:
            unroll(tile(loop, size).inner)


def read_rows_ahead(tiles: ForOp) -> None:
    """Has rows brought near before they are read, a line of each at a time: a block of a long sum
    ahead, and at its end the first of the next tile's, else those of the next tile. Each row of a
    tile begins in a page of its own, where the processor does not read ahead by itself.
    """
    *blocks, terms = [loop for loop in loops_in(tiles) if loop.reduction is not None]
    count = terms.extent.constant
    for load in [access for access in accesses_in(terms) if isinstance(access, LoadOp)]:
        line = LINE * 8 // width(load.buffer_type.element)
        moves = stride(load, tiles) != 0 and stride(load, terms) == 1
        held = isinstance(load.buffer.owner, AllocOp)
        if moves and not held and count is not None and count >= line:
            inner = tile(terms, line).inner
            in_blocks = len(blocks) == 1 and blocks[0].extent.constant is not None
            step, around = (blocks[0], tiles) if in_blocks else (tiles, None)
            for loop in prefetch(load, step, before=inner, around=around):
                unroll(loop)
            return


def write_ahead(tiles: ForOp) -> None:
    """Has the lines that the next tile of rows writes brought near when this one is written: they
    come while it is computed, and its stores do not wait for them.
    """
    for store in [access for access in accesses_in(tiles) if isinstance(access, StoreOp)]:
        if isinstance(store.buffer.owner, AllocOp) or stride(store, tiles) == 0:
            continue
        nest = next(loop for loop in enclosing_loops(store) if loop.parent_op() is tiles)
        for loop in prefetch(store, tiles, before=nest):
            unroll(loop)
