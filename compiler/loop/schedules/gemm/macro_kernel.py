"""The macro-kernel of contractions and windows: the loops around register tiles, main loops and
remainders, which operand is packed and when, and which loop runs in parallel.

    for jo parallel:  for ...:  for io:              panels of nr columns, tiles of mr rows
        a register tile
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import accesses_to, indexed_dims, perfect_nest, stores_in
from weft.compiler.loop.primitives import (
    dim_innermost,
    pack,
    reorder,
    stage_tile,
    tile,
    tile_ragged,
)
from weft.compiler.loop.schedules.compute_at import fuse_producers
from weft.compiler.loop.schedules.fuse_nests import fuse_nests
from weft.compiler.loop.schedules.gemm.blocks import LEAST_BLOCKS
from weft.compiler.loop.schedules.gemm.gemv import block_columns, stream_rows, vectorize_columns
from weft.compiler.loop.schedules.gemm.loop_order import (
    choose_parallel,
    choose_parallel_by_traffic,
    is_local,
    keep_panels,
    order_by_traffic,
)
from weft.compiler.loop.schedules.gemm.matrix_blocks import block_rows
from weft.compiler.loop.schedules.gemm.pack_panels import (
    column_axis,
    dim_of_terms,
    fill_with_first,
    pack_block,
    pack_flat_operand,
    pack_operand,
    pack_panel,
    pack_rows,
    panels_of,
    widen_rows,
)
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.prefetch_operands import (
    prefetch_next_source,
    prefetch_source_while_filling,
)
from weft.compiler.loop.schedules.gemm.problem import Nests
from weft.compiler.loop.schedules.gemm.register_tile import (
    pipeline_tiles,
    separate,
    split_tile_rows,
    store_tiles,
    tile_columns,
    tile_rows,
)
from weft.compiler.loop.schedules.gemm.remainders import (
    is_whole,
    split_blocks,
    split_columns,
)
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_k
from weft.compiler.loop.schedules.innermost_loops import transpose_copy, vectorize_innermost
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.schedules.simplify import drop_stored_only
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import buffer_type_of


def apply_plan(kernel: KernelOp, nests: Nests, plan: Plan, target: Target) -> bool:
    """Fuses the nests, splits off what is no whole tile, and tiles each part; false, and nothing
    done, where fusing is not legal.
    """
    chains = [reorder(*[nest[n] for n in _order(plan, nest)]) for nest in nests.outer]
    try:
        shared = fuse_nests(chains)
    except IllegalSchedule:
        return False
    # Splitting a loop into main loop and remainder copies all that is inside of it, so the columns
    # become the outermost loop for that; in each part the batch goes back around them.
    shared = list(reorder(shared.pop(len(plan.batch)), *shared))
    panel, rows = _factors(kernel, nests, shared[0], plan, target)
    operands = _Operands(plan, target, panel, rows, nests.result)
    tops: list[ForOp] = []
    for part in split_columns(shared, plan.width):
        if plan.streamed and is_whole(part[0], plan.width):
            tops.append(_stream_part(part, operands))
        else:
            tops += _tile_part(part, operands)
    # Narrow tiles are those of windows and depthwise convolutions, whose outer loops are those of
    # what pads or computes their operand; a wide tile reads all of an operand for each panel.
    if plan.narrow:
        tops = fuse_producers(tops, target)
    for top in tops:
        if plan.matrix is not None:
            pipeline_tiles(top, target)
        if target.has_few_registers:
            unroll_k(top, plan.lanes)
        parallelize_outermost(top)
    drop_stored_only(nests.result)
    return True


def _order(plan: Plan, nest: Sequence[ForOp]) -> list[int]:
    """The batch loops, the columns, the others, and the rows innermost."""
    rows = [] if plan.row is None else [plan.row]
    others = [n for n in range(len(nest)) if n not in (plan.column, *rows, *plan.batch)]
    return [*plan.batch, plan.column, *others, *rows]


class _Operands(NamedTuple):
    """A plan, and the buffers that its tiles read and write: the panel's operand, packed where it
    is so in front of the product, that of the rows, and the result; a window has none but this.
    """

    plan: Plan
    target: Target
    panel: SSAValue | None
    rows: SSAValue | None
    result: SSAValue


def _factors(
    kernel: KernelOp, nests: Nests, column: ForOp, plan: Plan, target: Target
) -> tuple[SSAValue | None, SSAValue | None]:
    """The operand of the panels and that of the rows, as the plan has them copied."""
    if plan.panel is None:
        return None, None
    panel, rows = nests.factors[plan.panel], nests.factors[1 - plan.panel]
    packed = _pack(kernel, panel, column, plan)
    if plan.widened_rows:
        widen_rows(kernel, rows.buffer, target)
    return packed, rows.buffer


def _pack(kernel: KernelOp, load: LoadOp, column: ForOp, plan: Plan) -> SSAValue:
    """The operand that the columns index, in panels where the plan says so."""
    panel, axes = load.buffer, indexed_dims(load, column)
    match plan.packing:
        case "stored":
            terms = dim_of_terms(load, plan)
            return pack(panel, panels_of(buffer_type_of(panel), axes[0], plan, terms))
        case "whole":
            return pack_operand(kernel, panel, axes[0], plan, dim_of_terms(load, plan))
        case "flat":
            return pack_flat_operand(kernel, panel, axes[0], plan.width, plan.lanes)
        case _:
            return panel


def _stream_part(chain: Sequence[ForOp], operands: _Operands) -> ForOp:
    """Computes whole tiles of columns from a matrix read by rows; returns the outer loop."""
    plan, target, _, _, result = operands
    around, *tiles = block_columns(chain, len(plan.batch), plan.width)
    for jp, ji in separate(tiles, plan, target)[0]:
        outside = jp.parent_op()
        if isinstance(outside, ForOp) and outside.reduction is not None:
            stream_rows(jp, ji, result, plan.lanes)
        else:
            vectorize_columns(ji, plan.lanes)
    return around[0]


def _tile_part(chain: Sequence[ForOp], operands: _Operands) -> list[ForOp]:
    """Tiles, stages and marks one nest whose columns hold whole tiles, or are fewer than one has;
    returns the outer loops of what it became.
    """
    plan = operands.plan
    columns, *others = chain
    batch = len(plan.batch)
    jo, ji = tile_columns(columns, plan)
    around, inside = [*others[:batch], jo], [*others[batch:], ji]
    reorder(*around, *inside)
    if plan.k_block is None or plan.matrix is not None:
        return _tile_rows(around, inside, operands)
    if plan.row_block is not None:
        blocks, *left = split_blocks([*around, *inside], len(around), plan.row_block)
        tops = [_block_k(blocks[: len(around)], blocks[len(around) :], plan.k_block, operands)]
        for part in left:
            tops += _tile_rows(part[: len(around)], part[len(around) :], operands)
        return tops
    return [_block_k(around, inside, plan.k_block, operands)]


def _tile_rows(
    around: Sequence[ForOp], inside: Sequence[ForOp], operands: _Operands
) -> list[ForOp]:
    """Tiles the rows `inside` of the loops `around` them, which end with that over panels; returns
    the outer loops.
    """
    plan, target, panel, _, result = operands
    *batch, jo = around
    ji = inside[-1]
    packing = None
    if panel is not None and (plan.copies_panels or plan.packing == "strided"):
        packing = pack_panel(panel, jo, ji, plan)
    several = (jo.extent.constant or 0) > 1
    has_constant_rows = plan.has_rows and inside[-2].extent.constant is not None
    next_panel = panel if plan.prefetched and several and packing is None else None
    # Where one panel serves tiles of rows of several sizes, these stay inside the loop over panels:
    # the thread that packed or loaded a panel computes all rows with it.
    if packing is not None or (plan.shared and several):
        parts = split_tile_rows(inside, plan)
        outer, *_ = [tile_rows(part, plan, target, result, next_panel) for part in parts]
        if packing and plan.prefetched and several and has_constant_rows:
            prefetch_next_source(packing[0][0], jo, outer[-1])
        elif packing and plan.prefetched and several:
            prefetch_source_while_filling(packing[0][0], jo)
        if packing and plan.copies_panels and has_constant_rows:
            fill_with_first(packing, outer[-1])
        return [around[0]]
    # Otherwise each size of tiles is a nest of its own, and its loops may come in any order.
    tops: list[ForOp] = []
    for part in split_tile_rows([*around, *inside], plan):
        outer = tile_rows(part, plan, target, result, next_panel)
        ordered = next_panel is not None
        tops.append(_order_tiles(outer, part[len(batch)], operands, ordered=ordered))
    return tops


def _order_tiles(
    outer: list[ForOp], columns: ForOp, operands: _Operands, *, ordered: bool
) -> ForOp:
    """Orders the loops around tiles: rows outermost where they are packed, else what is parallel
    and loads least into L2, unless they are `ordered` by panels. Returns the outer loop.
    """
    plan, target, panel, rows, _ = operands
    if plan.packed_rows and rows is not None and panel is not None:
        blocks = plan.row_block is not None
        return block_rows(outer, rows, panel, plan) if blocks else pack_rows(outer, rows, target)
    if plan.narrow and plan.has_rows and _is_contiguous(columns, plan.width):
        outer = list(reorder(*(loop for loop in outer if loop is not columns), columns))
    if plan.batch:
        batch = len(plan.batch)
        if not plan.narrow and not ordered:
            order_by_traffic(outer[batch:], target)
        return outer[0]
    if plan.narrow or ordered:
        return choose_parallel(outer)
    if plan.matrix is not None and (blocked := keep_panels(outer, target)) is not None:
        return blocked
    return choose_parallel_by_traffic(outer, target)


def _is_contiguous(jo: ForOp, size: int) -> bool:
    """Whether tiles of columns are contiguous: what rows of one read is in L1 for the next then."""
    results = [each for each in stores_in(jo) if not is_local(each, jo)]
    return jo.extent == 1 or all(stride(store, jo) == size for store in results)


def _block_k(
    around: Sequence[ForOp], inside: Sequence[ForOp], size: int, operands: _Operands
) -> ForOp:
    """Splits a long K into blocks, each of which computes all rows with a part of the panel that is
    packed before, or a block of rows with parts of a few packed panels, one after the other; the
    sums are in memory meanwhile. Returns the outer loop.

        for jo:  for io:  for k:  S  ->  for jc:  for ko:  for jo:  for io:  for ki:  S
    """
    plan, target, panel, _, result = operands
    assert panel is not None, "a window has no panel"
    around, inside, columns = list(around), list(inside), list[ForOp]()
    if plan.column_block is not None:
        around, columns, inside = _blocks(around, inside, plan, plan.column_block)
        result = _stage_sums(result, around[-1], inside[-1], plan, target)
    nests, (long, *taps) = separate([*columns, *inside], plan, target)
    (sums,) = [nest for nest in nests if long in enclosing_loops(nest[0])]
    for nest in nests:
        if nest is not sums:
            store_tiles(nest, plan, target)
    tiles = tile(long, size)
    blocks = [tiles.outer]
    if tiles.remainder is not None:
        blocks.append(tile(tiles.remainder, tiles.remainder.extent.constant or 1).outer)
    for ko in blocks:
        ki, *nest = perfect_nest(ko)[1 : len(sums) + len(taps) + 2]
        inner, nest = [ki, *nest[: len(taps)]], nest[len(taps) :]
        reorder(ko, *nest, *inner)
        fill = None
        if plan.column_block is None or plan.copies_panels:
            fill = pack_block(panel, ko, nest[-1], plan)
        parts = split_tile_rows(nest[len(columns) :], plan)
        tiles, *_ = [tile_rows(each, plan, target, result, partial=True) for each in parts]
        if fill is not None and plan.prefetched:
            prefetch_next_source(fill, ko, tiles[-1])
    return around[0]


def _blocks(
    around: list[ForOp], inside: list[ForOp], plan: Plan, panels: int
) -> tuple[list[ForOp], list[ForOp], list[ForOp]]:
    """Blocks of so many panels, and of the plan's rows: the loops around a block, that over its
    panels, and those inside.
    """
    *around, jo = around
    jc, jo, _ = tile_ragged(jo, min(panels, jo.extent.constant or panels))
    around = [*around, jc]
    if plan.row_block is not None:
        rows, *others = inside
        ic, rows, _ = tile(rows, plan.row_block)
        several = (jc.extent.constant or 0) >= LEAST_BLOCKS
        around, inside = [*around, ic] if several else [ic, *around], [rows, *others]
        reorder(*around, jo, *inside)
    return around, [jo], inside


def _stage_sums(
    result: SSAValue, block: ForOp, columns: ForOp, plan: Plan, target: Target
) -> SSAValue:
    """Keeps the sums of a block in memory of their own, columns next to each other, unless the
    result is just that.
    """
    access = accesses_to(result, block)[0]
    if stride(access, columns) == 1 and not _has_epilogue(columns):
        return result
    axis = column_axis(access, columns)
    if axis is None:
        raise IllegalSchedule("contraction requires columns that one dim counts, got several")
    staged = stage_tile(result, block, "scratch")
    sums = pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), axis))
    if staged.write_back and not transpose_copy(staged.write_back, plan.lanes):
        vectorize_innermost(staged.write_back[0], target)
    return sums


def _has_epilogue(columns: ForOp) -> bool:
    """Whether something is done with the sums of a tile, which is not all that is stored."""
    *_, last = (op for op in columns.body.block.ops if isinstance(op, (ForOp, StoreOp)))
    return isinstance(last, StoreOp)
