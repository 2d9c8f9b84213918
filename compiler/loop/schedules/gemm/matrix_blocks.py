"""Blocks of products in registers that hold tiles of matrices: rows are packed for all panels in
the order in which registers read them, and a long K goes by parts, so that L1 keeps a panel's part
while all tiles of rows are multiplied with it.

    for jo:  for io:  acc = 0;  for k:  acc += x[io, k] * w[k, jo];  y[io, jo] = f(acc)
    ->  for ic parallel:  p = x[ic]
          for jo:  for io:  acc[io] = 0;  for k < 16:  acc[io] += p[io, k] * w[k, jo]
                   for io:  for k < 16:  acc[io] += p[io, 16 + k] * ..;  y[io, jo] = f(acc[io])
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import accesses_in, accesses_to, describe, indexed_dims
from weft.compiler.loop.primitives import (
    distribute,
    hoist_allocation,
    interleave,
    pack,
    panels,
    prefetch_shares,
    reorder,
    split_at,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.gemm.pack_panels import column_axis, dim_of_terms
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp
from weft.dialects.loop.types import buffer_type_of


def split_parts(steps: ForOp, plan: Plan) -> list[ForOp]:
    """The steps along a sum in parts of those of the plan's blocks of K."""
    parts = [steps]
    if plan.k_block is not None and plan.matrix is not None:
        size = plan.k_block // plan.matrix
        while (parts[-1].extent.constant or 0) > size:
            parts += split_at(parts.pop(), size)
    return parts


def block_rows(outer: Sequence[ForOp], operand: SSAValue, panel: SSAValue, plan: Plan) -> ForOp:
    """Makes blocks of tiles of rows the outermost loop, packs their rows on the thread's stack, and
    computes a part of K for all tiles of a block before the next one. Returns the loop over blocks.
    """
    assert plan.row_block is not None, "a plan with packed rows of tiles says of how many"
    *around, io = outer
    blocks = tile(io, plan.row_block // plan.rows)
    reorder(blocks.outer, *around, blocks.inner)
    _pack_rows(operand, blocks.outer, blocks.inner, plan)
    for part in _distribute_parts(blocks.inner):
        _prefetch_panel(panel, around[-1], part)
    return blocks.outer


def _pack_rows(operand: SSAValue, block: ForOp, tiles: ForOp, plan: Plan) -> None:
    """Brings what a register holds together: `[row / 32][k / 64][row mod 32][k mod 64]`."""
    assert plan.matrix is not None, "a plan of tiles of matrices says of how many words"
    line, load = plan.matrix * plan.terms, accesses_to(operand, block)[0]
    axis, terms = column_axis(load, tiles), dim_of_terms(load, plan)
    if axis is None or terms is None:
        rule = "rows and words that a dim counts each"
        raise IllegalSchedule(f"contraction requires {rule}, got {describe(load)}")
    staged = stage_tile(operand, block, "scratch")
    layout = panels(buffer_type_of(staged.buffer), axis, plan.rows)
    pack(staged.buffer, interleave(layout, terms, line))
    store = accesses_in(staged.load_in[0])[-1]
    rows, words = (
        next(loop for loop in staged.load_in if dim in indexed_dims(store, loop))
        for dim in (axis, terms)
    )
    outer, inner = tile(rows, plan.rows)[:2]
    lines, elements = tile(words, line)[:2]
    reorder(outer, lines, inner, elements)
    vectorize(elements, line)


def _distribute_parts(tiles: ForOp) -> list[ForOp]:
    """Computes all tiles by a part of K before the next part; their sums are in memory meanwhile.
    Returns the steps along a sum of each part.
    """
    parts = [op for op in tiles.body.block.ops if isinstance(op, ForOp) and op.matrix is not None]
    for allocation in list(tiles.body.block.ops) if len(parts) > 1 else ():
        if isinstance(allocation, AllocOp):
            hoist_allocation(allocation, per_iteration=True)
    for part in parts[1:]:
        tiles = distribute(tiles, part)
    return parts


def _prefetch_panel(panel: SSAValue, columns: ForOp, part: ForOp) -> None:
    """Each step prefetches its share of the lines of the next panel."""
    (load,) = accesses_to(panel, part)
    (rows,) = part.body.block.ops
    assert isinstance(rows, ForOp), "a step multiplies tiles"
    unroll(prefetch_shares(load, columns, rows))
