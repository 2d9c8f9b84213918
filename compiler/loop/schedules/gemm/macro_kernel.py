"""The macro-kernel of contractions and windows: the loops around register tiles, main loops and
remainders, which operand is packed and when, and which loop runs in parallel.

    for jo parallel:  for ...:  for io:              panels of nr columns, tiles of mr rows
        a register tile
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue

from weft.compiler.loop.nest import accesses_to, perfect_nest, weight_arguments
from weft.compiler.loop.primitives import pack, panels, reorder, tile, unroll, vectorize
from weft.compiler.loop.schedules.compute_at import fuse_producers
from weft.compiler.loop.schedules.fuse_nests import fuse_nests
from weft.compiler.loop.schedules.gemm.accumulation import Accumulation
from weft.compiler.loop.schedules.gemm.gemv import (
    block_columns,
    reads_streams,
    stream_rows,
    vectorize_columns,
)
from weft.compiler.loop.schedules.gemm.loop_order import (
    ENOUGH_TASKS,
    choose_parallel,
    choose_parallel_by_traffic,
)
from weft.compiler.loop.schedules.gemm.pack_panels import (
    exceeds_l2,
    fill_with_first,
    flat_axis,
    pack_block,
    pack_flat_operand,
    pack_operand,
    pack_panel,
    pack_rows,
    panel_axis,
    pays_per_tile,
    pays_to_copy,
    transposed_rows,
    widen_rows,
)
from weft.compiler.loop.schedules.gemm.prefetch_operands import pays_to_prefetch
from weft.compiler.loop.schedules.gemm.register_tile import (
    TileShape,
    separate,
    split_tile_rows,
    tile_columns,
    tile_rows,
)
from weft.compiler.loop.schedules.gemm.remainders import is_whole, split_columns
from weft.compiler.loop.schedules.gemm.tile_params import (
    Params,
    default_params,
    narrow_params,
    wide_params,
)
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_k
from weft.compiler.loop.schedules.innermost_loops import lanes_of, parallelize_outermost, stride
from weft.compiler.loop.schedules.simplify import drop_stored_only
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of


def build_macro_kernel(
    kernel: KernelOp, found: Accumulation, target: Target, params: Params | None = None
) -> bool:
    """Fuses the nests, splits off what is no whole tile, and tiles each part, by default as large
    as the target's registers allow; false where fusing is not legal.
    """
    shape = _tile_shape(kernel, found, target, params)
    nests = [reorder(*[nest[n] for n in _order(found)]) for nest in found.nests]
    try:
        shared = fuse_nests(nests)
    except IllegalSchedule:
        return False
    # Splitting a loop into main loop and remainder copies all that is inside of it, so the columns
    # become the outermost loop for that; in each part the batch goes back around them.
    shared = list(reorder(shared.pop(shape.batch), *shared))
    panel = None if found.panel is None else _pack(kernel, found.panel, shared, shape)
    # Rows follow the panel: whether they are packed per tile depends on whether L2 holds all of the
    # panels meanwhile. Widened rows are a copy already.
    other = found.other
    if shape.has_rows and other is not None and widen_rows(kernel, other, target):
        other = None
    plain = shape.has_rows and not shape.batch
    transposed = transposed_rows(other, panel, target) if plain else None
    streams = _streams(kernel, found, shared[0], shape)
    tops: list[ForOp] = []
    for part in split_columns(shared, shape.width):
        if streams and is_whole(part[0], shape.width):
            tops.append(_stream_part(part, shape, found.result))
        else:
            tops += _tile_part(part, shape, panel, found.result, transposed)
    # Narrow tiles are those of windows and depthwise convolutions, whose outer loops are those of
    # what pads or computes their operand; a wide tile reads all of an operand for each panel.
    if found.narrow:
        tops = fuse_producers(tops, target)
    for top in tops:
        if target.has_few_registers:
            unroll_k(top, shape.lanes)
        parallelize_outermost(top)
    drop_stored_only(found.result)
    return True


def _tile_shape(
    kernel: KernelOp, found: Accumulation, target: Target, params: Params | None
) -> TileShape:
    """The tiles of a reduction: of the given size, or of the one that suits it."""
    loops = found.nests[0]
    lanes = lanes_of([nest[0] for nest in found.nests], target)
    rows = 1 if found.rows is None else loops[found.rows].extent.constant
    columns = loops[found.columns].extent.constant
    default = narrow_params if found.narrow and rows != 1 else default_params
    weight = found.panel is not None and found.panel.buffer in weight_arguments(kernel)
    per_tile = _per_tile_params(found, target, lanes, params, weight=weight)
    return TileShape(
        params=per_tile or params or default(target, rows, columns, lanes),
        lanes=lanes,
        target=target,
        has_rows=found.rows is not None,
        batch=len(found.batch),
        narrow=found.narrow,
        per_tile=per_tile is not None,
        is_weight=weight,
    )


def _per_tile_params(
    found: Accumulation, target: Target, lanes: int, params: Params | None, *, weight: bool
) -> Params | None:
    """The tile, by default a wide one, of a contraction whose panels are packed per tile; None for
    another one.
    """
    if found.panel is None or found.rows is None or found.narrow:
        return None
    loops = enclosing_loops(found.panel)
    row, column = loops[found.rows], loops[found.columns]
    if params is None:
        params = wide_params(target, row.extent.constant, column.extent.constant, lanes)
    size = params.vectors * lanes
    pays = pays_per_tile(found.panel, column, size, target, params, weight=weight)
    return params if pays else None


def _pack(kernel: KernelOp, load: LoadOp, shared: Sequence[ForOp], shape: TileShape) -> SSAValue:
    """The operand that the columns index, in panels where it is a weight or packing pays."""
    panel, column = load.buffer, shared[0]
    axis = panel_axis(load, column, shape.width)
    if axis is not None and shape.is_weight:
        return pack(panel, panels(buffer_type_of(panel), axis, shape.width))
    if (
        axis is not None
        and not shape.per_tile
        and pays_to_copy(load, column, shape.target, shape.params)
    ):
        widened = shape.has_rows and stride(load, column) == 1
        return pack_operand(kernel, load, axis, shape.width, shape.lanes, widened=widened)
    flat = flat_axis(load, column) if shape.per_tile and not shape.is_weight else None
    if flat is not None:
        return pack_flat_operand(kernel, load, flat, shape.width, shape.lanes)
    return panel


def _streams(kernel: KernelOp, found: Accumulation, column: ForOp, shape: TileShape) -> bool:
    """Whether one row is multiplied with a matrix that is stored by long rows, and is no weight."""
    load = found.panel
    if load is None or shape.has_rows or load.buffer in weight_arguments(kernel):
        return False
    return reads_streams(load, column, found.reductions)


def _stream_part(chain: Sequence[ForOp], shape: TileShape, result: SSAValue) -> ForOp:
    """Computes whole tiles of columns from a matrix read by rows; returns the outer loop."""
    around, *tiles = block_columns(chain, shape.batch, shape.width)
    for jp, ji in separate(tiles, shape)[0]:
        outside = jp.parent_op()
        if isinstance(outside, ForOp) and outside.reduction is not None:
            stream_rows(jp, ji, result, shape.lanes)
        else:
            vectorize_columns(ji, shape.lanes)
    return around[0]


def _order(found: Accumulation) -> list[int]:
    """The batch loops, the columns, the others, and the rows innermost."""
    rows = [] if found.rows is None else [found.rows]
    others = [
        n for n in range(len(found.nests[0])) if n not in (found.columns, *rows, *found.batch)
    ]
    return [*found.batch, found.columns, *others, *rows]


def _tile_part(
    chain: Sequence[ForOp],
    shape: TileShape,
    panel: SSAValue | None,
    result: SSAValue,
    transposed: SSAValue | None,
) -> list[ForOp]:
    """Tiles, stages and marks one nest whose columns hold whole tiles, or are fewer than one has;
    returns the outer loops of what it became.
    """
    columns, *others = chain
    jo, ji = tile_columns(columns, shape)
    around, inside = [*others[: shape.batch], jo], [*others[shape.batch :], ji]
    reorder(*around, *inside)
    size = shape.params.rows, shape.width
    # A panel that L2 cannot hold from one tile of rows to the next is read a block of K at a time;
    # accumulators go to memory between blocks.
    if panel is not None and shape.has_rows and exceeds_l2(panel, jo, *size, shape.target):
        return [_block_k(around, inside, panel, shape, result)]
    per_tile = shape.per_tile and not shape.is_weight and not _is_packed(panel)
    packing = None
    if panel is not None:
        packing = pack_panel(panel, jo, ji, shape.lanes, shape.params, contiguous_too=per_tile)
    next_panel = None if transposed is not None else _next_panel(panel, around, inside, shape)
    # Where one panel serves tiles of rows of several sizes, these stay inside the loop over panels:
    # the thread that packed or loaded a panel computes all rows with it.
    if packing is not None or _shares_columns(inside, around, panel, shape):
        parts = split_tile_rows(inside, shape)
        outer, *_ = [tile_rows(part, shape, result, next_panel) for part in parts]
        if packing and per_tile:
            fill_with_first(packing, outer[-1])
        return [around[0]]
    # Otherwise each size of tiles is a nest of its own, and its loops may come in any order: rows
    # outermost where they are packed, else what is parallel and loads least into L2.
    tops: list[ForOp] = []
    for part in split_tile_rows([*around, *inside], shape):
        outer = tile_rows(part, shape, result, next_panel)
        if transposed is not None:
            tops.append(pack_rows(outer, transposed, shape.target))
            continue
        tiles = part[len(around) - 1]  # jo, or that of a part that was split off
        if shape.narrow and shape.has_rows and _is_contiguous(result, tiles, shape.width):
            outer = list(reorder(*(loop for loop in outer if loop is not tiles), tiles))
        if shape.batch:
            tops.append(outer[0])
        elif shape.narrow or next_panel is not None:
            tops.append(choose_parallel(outer))
        else:
            tops.append(choose_parallel_by_traffic(outer, shape.target))
    return tops


def _is_packed(panel: SSAValue | None) -> bool:
    """Whether an operand was packed in front of the contraction."""
    if panel is None or not isinstance(panel.owner, AllocOp):
        return False
    return not isinstance(buffer_type_of(panel).layout, NoneAttr)


def _next_panel(
    panel: SSAValue | None, around: Sequence[ForOp], inside: Sequence[ForOp], shape: TileShape
) -> SSAValue | None:
    """The weight whose next panel is worth prefetching while the tiles of rows over one are
    computed: those of one panel follow each other then, and are a few.
    """
    plain = shape.is_weight and shape.has_rows and not shape.narrow and not shape.per_tile
    if panel is None or not plain or len(around) != 1 or len(inside) != 2:
        return None
    jo, rows = around[0], inside[0]
    if (jo.extent.constant or 0) < ENOUGH_TASKS:
        return None
    pays = pays_to_prefetch(panel, jo, rows.extent // shape.params.rows, shape.target)
    return panel if pays else None


def _is_contiguous(result: SSAValue, jo: ForOp, size: int) -> bool:
    """Whether tiles of columns are contiguous: what rows of one read is in L1 for the next then."""
    return all(stride(access, jo) == size for access in accesses_to(result, jo))


def _shares_columns(
    inside: Sequence[ForOp], around: Sequence[ForOp], panel: SSAValue | None, shape: TileShape
) -> bool:
    """Whether there are tiles of rows of several sizes for each of many tiles of columns, which
    then are read from memory once: those of a dynamic number of rows, or a remainder of rows beside
    a weight that L2 does not hold.
    """
    if not shape.has_rows or len(around) != 1 or (around[0].extent.constant or 0) < ENOUGH_TASKS:
        return False
    rows = inside[-2].extent
    if rows.constant is None:
        return True
    panel_type = None if panel is None or not shape.is_weight else buffer_type_of(panel)
    bytes = (
        0
        if panel_type is None
        else (panel_type.size.constant or 0) * width(panel_type.element) // 8
    )
    left = rows.constant > shape.params.rows and rows.constant % shape.params.rows != 0
    return left and bytes >= shape.target.l2_bytes


def _block_k(
    around: Sequence[ForOp],
    inside: Sequence[ForOp],
    panel: SSAValue,
    shape: TileShape,
    result: SSAValue,
) -> ForOp:
    """Splits a long K into blocks, each of which computes all rows with a part of the panel that is
    packed before; the accumulators are in memory meanwhile. Returns the outer loop.
    """
    nests, (long,) = separate(inside, shape)
    (sums,) = [nest for nest in nests if long in enclosing_loops(nest[0])]
    for nest in nests:
        if nest is not sums:
            unroll(vectorize(nest[-1], shape.lanes))
    most = shape.params.stack_bytes // (shape.width * width(buffer_type_of(panel).element) // 8)
    depth = long.extent.constant or most
    tiles = tile(long, -(-depth // -(-depth // most)))
    blocks = [tiles.outer]
    if tiles.remainder is not None:
        blocks.append(tile(tiles.remainder, tiles.remainder.extent.constant or 1).outer)
    for ko in blocks:
        ki, *nest = perfect_nest(ko)[1:]
        reorder(ko, *nest, ki)
        for part in split_tile_rows([ko, *nest], shape):
            pack_block(panel, part[0], part[-1], shape.lanes)
            tile_rows(part, shape, result)
    return around[0]
