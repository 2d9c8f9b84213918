"""Prefetches what register tiles read and write next, while they compute.

The panel of a weight that the next tile of columns reads comes from memory while the tiles of rows
over this one are computed:

    for jo parallel:  for io:  for k:  for ii unroll:  for ji vector unroll:
        prefetch Y[k, jo + 1];  acc[ii, ji] += X[i, k] * Y[k, j]
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import accesses_to, loads_in, loops_in, perfect_nest, stores_in
from weft.compiler.loop.primitives import prefetch, prefetch_shares, stage_tile, tile, unroll
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_tile
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import LINE
from weft.dialects.loop.ops import AllocOp, ForOp, enclosing_loops
from weft.dialects.loop.scalar import width

TERMS_BETWEEN: Final = 16
"""Terms of a sum between prefetches of what the next panel is packed of."""


def load_and_prefetch(source: SSAValue, at: ForOp, loop: ForOp, lanes: int, *, level: str) -> None:
    """Loads what an iteration reads of a buffer to registers once, and prefetches that of the next
    iteration of a loop around it.
    """
    vector = stage_tile(source, at, "registers").load_in
    unroll_tile(vector, lanes)
    if not isinstance(source.owner, AllocOp):
        (load,) = loads_in(vector[0])
        line = lanes * width(load.buffer_type.element) // 8 >= LINE
        lines = prefetch(load, loop, 1, level=level, before=None if line else vector[0])
        for each in lines:
            unroll(each)


def prefetch_panel(panel: SSAValue, around: ForOp, lanes: int) -> None:
    """Prefetches a row of the panel of the next tile of columns, which the outermost loop counts,
    into L2 for each row that the tile reads.
    """
    loops = enclosing_loops(accesses_to(panel, around)[0])
    k_loops = [loop for loop in loops if loop.reduction is not None]
    load_and_prefetch(panel, k_loops[-1], loops[0], lanes, level="L2")


def prefetch_next_source(fill: ForOp, columns: ForOp, tiles: ForOp) -> None:
    """Prefetches what the panel of the next tile of columns is packed of into L2 while the tiles of
    rows over this one are computed, a few of its lines in front of each few terms: lines that no
    prefetcher foresees come one behind the other, while all tiles are multiplied.
    """
    k_loop = [loop for loop in loops_in(tiles) if loop.reduction is not None][-1]
    if (k_loop.extent.constant or 0) > TERMS_BETWEEN:
        k_loop = tile(k_loop, TERMS_BETWEEN).inner
    source = loads_in(fill)[0]
    if stride(source, columns) != 0:
        unroll(prefetch_shares(source, columns, k_loop))


def prefetch_source_while_filling(fill: ForOp, columns: ForOp) -> None:
    """The same while this panel is packed, where it is not known how many tiles of rows follow."""
    *_, row = perfect_nest(fill)
    for loop in prefetch(loads_in(row)[0], columns, 1, level="L2", before=row):
        unroll(loop)


def prefetch_rows(tiles: ForOp) -> None:
    """Prefetches rows before they are read, a line of each at a time: a block of a long K ahead,
    and at its end the first of the next tile's, else those of the next tile. Each row of a tile
    begins in a page of its own, across which the processor does not prefetch by itself.
    """
    *blocks, k_loop = [loop for loop in loops_in(tiles) if loop.reduction is not None]
    count = k_loop.extent.constant
    for load in loads_in(k_loop):
        line = LINE * 8 // width(load.buffer_type.element)
        is_row = stride(load, tiles) != 0 and stride(load, k_loop) == 1
        held = isinstance(load.buffer.owner, AllocOp)
        if is_row and not held and count is not None and count >= line:
            inner = tile(k_loop, line).inner
            in_blocks = len(blocks) == 1 and blocks[0].extent.constant is not None
            step, around = (blocks[0], tiles) if in_blocks else (tiles, None)
            for loop in prefetch(load, step, before=inner, around=around):
                unroll(loop)
            return


def prefetch_results(tiles: ForOp) -> None:
    """Prefetches the lines that the next tile of rows writes when this one is written: they come
    while it is computed, and its stores do not wait for them.
    """
    for store in stores_in(tiles):
        if isinstance(store.buffer.owner, AllocOp) or stride(store, tiles) == 0:
            continue
        nest = next(loop for loop in enclosing_loops(store) if loop.parent_op() is tiles)
        for loop in prefetch(store, tiles, before=nest):
            unroll(loop)
