"""Accumulation in registers: what the schedules of sums of products and of windows share.

for jo parallel:  for ...:  for io:              columns in panels, rows in tiles
    acc[6][32] in registers
    for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
    for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += ...
    for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Operation, SSAValue

from compiler.loop.nest import (
    accesses_in,
    perfect_nest,
    subscripts,
    weight_arguments,
)
from compiler.loop.primitives import (
    distribute,
    fuse,
    pack,
    panels,
    reorder,
    stage,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from compiler.loop.schedules.compute_at import join_producers
from compiler.loop.schedules.gemm.accumulation import Accumulation
from compiler.loop.schedules.gemm.blocked_summation import cut_long_sum
from compiler.loop.schedules.gemm.gemv import (
    block_columns,
    is_stream,
    stream_rows,
    vectorize_columns,
)
from compiler.loop.schedules.gemm.loop_order import ENOUGH, spread, spread_near
from compiler.loop.schedules.gemm.pack_panels import (
    column_axis,
    columns_last,
    copy_flat_panels,
    copy_panels,
    fill_with_first,
    flat_axis,
    is_deep,
    pack_columns,
    panel_axis,
    pays_to_copy,
    rows_first,
    stage_panel,
    stays_near,
    turned_rows,
    widen_rows,
)
from compiler.loop.schedules.gemm.packed_buffers import (
    panel_ahead,
    pays_ahead,
    read_rows_ahead,
    write_ahead,
    write_out,
    write_out_terms,
)
from compiler.loop.schedules.gemm.remainders import (
    is_whole,
    rows_of_tile,
    split_columns,
    split_rows,
)
from compiler.loop.schedules.gemm.tile_params import (
    Params,
    default_params,
    narrow_params,
    wide_params,
)
from compiler.loop.schedules.innermost_loops import (
    lanes_of,
    parallelize_outermost,
    stride,
    turn_copy,
)
from compiler.loop.schedules.simplify import drop_stored_only
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.expr import product
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import width
from dialects.loop.types import buffer_type

LONGEST_UNROLL = 8
"""Iterations of an innermost reduction loop that is written out."""


@dataclass(frozen=True)
class Shape:
    """How the tiles of one reduction look: register tile, lanes of a vector,
    whether there are rows at all, how many loops move both operands, whether each panel is copied
    for its tiles alone, and whether it is part of a weight.
    """

    params: Params
    lanes: int
    has_rows: bool
    both: int
    target: Target
    narrow: bool
    near: bool
    weight: bool

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.params.vectors * self.lanes


def accumulate(
    kernel: KernelOp, found: Accumulation, target: Target, params: Params | None = None
) -> bool:
    """Fuses the nests, splits off what is no whole tile, and tiles each part, by default as large
    as the target's registers allow; false where fusing is not legal.
    """
    loops = found.nests[0]
    lanes = lanes_of([nest[0] for nest in found.nests], target)
    rows = 1 if found.rows is None else loops[found.rows].extent.constant
    columns = loops[found.columns].extent.constant
    wanted = narrow_params if found.narrow and rows != 1 else default_params
    weight = found.panel is not None and found.panel.buffer in weight_arguments(kernel)
    near = _near_params(found, target, lanes, params, weight=weight)
    params = near or params or wanted(target, rows, columns, lanes)
    both = len(found.both)
    shape = Shape(
        params, lanes, found.rows is not None, both, target, found.narrow, near is not None, weight
    )
    shared = _fuse([list(reorder(*[nest[n] for n in _order(found)])) for nest in found.nests])
    if shared is None:
        return False
    shared = list(reorder(shared.pop(shape.both), *shared))
    panel = None if found.panel is None else _bring_together(kernel, found.panel, shared, shape)
    plain = shape.has_rows and not shape.both
    beside = found.beside
    if shape.has_rows and beside is not None and widen_rows(kernel, beside, target):
        beside = None
    turned = turned_rows(beside, panel, target) if plain else None
    streams = _streams(kernel, found, shared[0], shape)
    tops: list[ForOp] = []
    for part in split_columns(shared, shape.width):
        if streams and is_whole(part[0], shape.width):
            tops.append(_stream_part(part, shape, found.result))
        else:
            tops += _tile_part(part, shape, panel, found.result, turned)
    if found.narrow:
        tops = join_producers(tops, target)
    for top in tops:
        if target.has_few_registers:
            write_out_terms(top, lanes)
        parallelize_outermost(top)
    drop_stored_only(found.result)
    return True


def _near_params(
    found: Accumulation, target: Target, lanes: int, params: Params | None, *, weight: bool
) -> Params | None:
    """The tile, by default a wide one, of a product whose panels are copied one at a time, or None
    for another product.
    """
    if found.panel is None or found.rows is None or found.narrow:
        return None
    loops = enclosing_loops(found.panel)
    row, column = loops[found.rows], loops[found.columns]
    if params is None:
        params = wide_params(target, row.extent.constant, column.extent.constant, lanes)
    near = stays_near(found.panel, column, params.vectors * lanes, target, params, weight=weight)
    return params if near else None


def _bring_together(
    kernel: KernelOp, load: LoadOp, shared: Sequence[ForOp], shape: Shape
) -> SSAValue:
    """The operand that the columns move, in panels where it is a weight or a copy pays."""
    panel, column = load.buffer, shared[0]
    axis = panel_axis(load, column, shape.width)
    if axis is not None and shape.weight:
        return pack(panel, panels(buffer_type(panel), axis, shape.width))
    if (
        axis is not None
        and not shape.near
        and pays_to_copy(load, column, shape.target, shape.params)
    ):
        near = shape.has_rows and stride(load, column) == 1
        return copy_panels(kernel, load, axis, shape.width, shape.lanes, widened=near)
    flat = flat_axis(load, column) if shape.near and not shape.weight else None
    if flat is not None:
        return copy_flat_panels(kernel, load, flat, shape.width, shape.lanes)
    return panel


def _streams(kernel: KernelOp, found: Accumulation, column: ForOp, shape: Shape) -> bool:
    """Whether one row is multiplied with a matrix that lies by long rows, and is no weight."""
    load = found.panel
    if load is None or shape.has_rows or load.buffer in weight_arguments(kernel):
        return False
    return is_stream(load, column, found.reductions)


def _stream_part(chain: Sequence[ForOp], shape: Shape, result: SSAValue) -> ForOp:
    """Computes whole tiles of columns from a matrix read by rows; returns the outer loop."""
    around, *tiles = block_columns(chain, shape.both, shape.width)
    for jp, ji in _separate(tiles, shape)[0]:
        outside = jp.parent_op()
        if isinstance(outside, ForOp) and outside.reduction is not None:
            stream_rows(jp, ji, result, shape.lanes)
        else:
            vectorize_columns(ji, shape.lanes)
    return around[0]


def _order(found: Accumulation) -> list[int]:
    """The loops that move both operands, the columns, the others, and the rows innermost."""
    rows = [] if found.rows is None else [found.rows]
    others = [n for n in range(len(found.nests[0])) if n not in (found.columns, *rows, *found.both)]
    return [*found.both, found.columns, *others, *rows]


def _fuse(nests: Sequence[list[ForOp]]) -> list[ForOp] | None:
    """One nest of the shared loops around all statements;
    None where a statement has to wait for another nest.
    """
    shared = list(nests[0])
    try:
        for nest in nests[1:]:
            for level, loop in enumerate(nest):
                shared[level] = fuse(shared[level], loop)
    except IllegalSchedule:
        return None
    return shared


def _split_rows(chain: Sequence[ForOp], shape: Shape) -> list[list[ForOp]]:
    """The nest in parts, each of tiles of rows of one size."""
    return split_rows(chain, shape.params.rows) if shape.has_rows else [list(chain)]


def _tile_part(
    chain: Sequence[ForOp],
    shape: Shape,
    panel: SSAValue | None,
    result: SSAValue,
    turned: SSAValue | None,
) -> list[ForOp]:
    """Tiles, stages and marks one nest whose columns hold whole tiles, or are fewer than one has;
    returns the outer loops of what it became.

    All tiles of rows share a panel that is packed for them, and unknown numbers of rows the columns
    that a thread has; or all columns a tile of `turned` rows.
    """
    columns, *others = chain
    jo, ji = _tile_columns(columns, shape)
    around, inside = [*others[: shape.both], jo], [*others[shape.both :], ji]
    reorder(*around, *inside)
    size = shape.params.rows, shape.width
    if panel is not None and shape.has_rows and is_deep(panel, jo, *size, shape.target):
        return [_tile_in_blocks(around, inside, panel, shape, result)]
    near = shape.near and not shape.weight and not _is_copied(panel)
    staged = None
    if panel is not None:
        staged = stage_panel(panel, jo, ji, shape.lanes, shape.params, near=near)
    next_panel = None if turned is not None else _next_panel(panel, around, inside, shape)
    if staged is not None or _shares_columns(inside, around, panel, shape):
        parts = _split_rows(inside, shape)
        outer, *_ = [_tile_rows(part, shape, result, next_panel) for part in parts]
        if staged and near:
            fill_with_first(staged, outer[-1])
        return [around[0]]
    tops: list[ForOp] = []
    for part in _split_rows([*around, *inside], shape):
        outer = _tile_rows(part, shape, result, next_panel)
        if turned is not None:
            tops.append(rows_first(outer, turned, shape.target))
            continue
        tiles = part[len(around) - 1]  # jo, or that of a part that was split off
        if shape.narrow and shape.has_rows and _go_on(result, tiles, shape.width):
            outer = list(reorder(*(loop for loop in outer if loop is not tiles), tiles))
        if shape.both:
            tops.append(outer[0])
        elif shape.narrow or next_panel is not None:
            tops.append(spread(outer))
        else:
            tops.append(spread_near(outer, shape.target))
    return tops


def _is_copied(panel: SSAValue | None) -> bool:
    """Whether an operand was copied into panels in front of the product."""
    if panel is None or not isinstance(panel.owner, AllocOp):
        return False
    return not isinstance(buffer_type(panel).layout, NoneAttr)


def _next_panel(
    panel: SSAValue | None, around: Sequence[ForOp], inside: Sequence[ForOp], shape: Shape
) -> SSAValue | None:
    """The weight whose next panel is worth bringing near while the tiles of rows over one are
    computed: those of one panel follow each other then, and are a few.
    """
    plain = shape.weight and shape.has_rows and not shape.narrow and not shape.near
    if panel is None or not plain or len(around) != 1 or len(inside) != 2:
        return None
    jo, rows = around[0], inside[0]
    if (jo.extent.constant or 0) < ENOUGH:
        return None
    pays = pays_ahead(panel, jo, rows.extent // shape.params.rows, shape.target)
    return panel if pays else None


def _go_on(result: SSAValue, jo: ForOp, size: int) -> bool:
    """Whether memory goes on from one tile of columns to the next: what rows read is near then."""
    sums = [access for access in accesses_in(jo) if access.buffer is result]
    return all(stride(access, jo) == size for access in sums)


def _shares_columns(
    inside: Sequence[ForOp], around: Sequence[ForOp], panel: SSAValue | None, shape: Shape
) -> bool:
    """Whether there are tiles of rows of several sizes for each of many tiles of columns, which
    then are read from memory once: sizes of an unknown number of rows, or rows that are left beside
    a weight that the second cache does not hold.
    """
    if not shape.has_rows or len(around) != 1 or (around[0].extent.constant or 0) < ENOUGH:
        return False
    rows = inside[-2].extent
    if rows.constant is None:
        return True
    kind = None if panel is None or not shape.weight else buffer_type(panel)
    bytes = 0 if kind is None else (kind.size.constant or 0) * width(kind.element) // 8
    left = rows.constant > shape.params.rows and rows.constant % shape.params.rows != 0
    return left and bytes >= shape.target.l2_bytes


def _tile_in_blocks(
    around: Sequence[ForOp],
    inside: Sequence[ForOp],
    panel: SSAValue,
    shape: Shape,
    result: SSAValue,
) -> ForOp:
    """Cuts a long sum into blocks, each of which goes through all rows with a part of the panel
    that is brought together before; the sums wait in memory. Returns the outer loop.
    """
    nests, (long,) = _separate(inside, shape)
    (sums,) = [nest for nest in nests if long in enclosing_loops(nest[0])]
    for nest in nests:
        if nest is not sums:
            unroll(vectorize(nest[-1], shape.lanes))
    most = shape.params.stack_bytes // (shape.width * width(buffer_type(panel).element) // 8)
    depth = long.extent.constant or most
    tiles = tile(long, -(-depth // -(-depth // most)))
    blocks = [tiles.outer]
    if tiles.remainder is not None:
        blocks.append(tile(tiles.remainder, tiles.remainder.extent.constant or 1).outer)
    for ko in blocks:
        ki, *nest = perfect_nest(ko)[1:]
        reorder(ko, *nest, ki)
        for part in _split_rows([ko, *nest], shape):
            pack_columns(panel, part[0], part[-1], shape.lanes)
            _tile_rows(part, shape, result)
    return around[0]


def _tile_rows(
    chain: Sequence[ForOp], shape: Shape, result: SSAValue, next_panel: SSAValue | None = None
) -> list[ForOp]:
    """Tiles the rows of a nest, the last loop but one, and computes its tiles in registers, while
    the `next_panel` of a weight comes near; returns the loops around a tile.
    """
    *outer, ji = chain
    inner = [ji]
    if not shape.has_rows or rows_of_tile(chain[-2], shape.params.rows) != shape.params.rows:
        next_panel = None
    if shape.has_rows:
        io, ii, _ = tile(outer.pop(), rows_of_tile(chain[-2], shape.params.rows))
        outer, inner = [*outer, io], [ii, ji]
    around = inner[0].parent_op()
    assert isinstance(around, ForOp), "tiles of columns lie in the loop over them"
    sums, staged = _stage_sums(result, around, ji)
    nests, reductions = _separate(inner, shape)
    partial = cut_long_sum(reductions, sums, shape.params.sum_block)
    if next_panel is not None and len(reductions) == 1:
        panel_ahead(next_panel, around, shape.lanes)
    for nest in (*nests, *staged, *partial):
        if not _turn(nest, shape):
            write_out(nest, shape.lanes)
    if shape.near:
        read_rows_ahead(outer[-1])
        write_ahead(outer[-1])
    return outer


def _turn(nest: Sequence[ForOp], shape: Shape) -> bool:
    """Turns what is only copied between a tile and memory where rows lie together, if stores are of
    whole vectors or as fast; false for other nests.
    """
    stores = [access for access in accesses_in(nest[-1]) if isinstance(access, StoreOp)]
    along = [loop for loop in nest if all(stride(store, loop) == 1 for store in stores)]
    whole = all(is_whole(loop, shape.lanes) for loop in along)
    return (whole or shape.target.has_masks) and turn_copy(nest, shape.lanes, written_out=True)


def _tile_columns(columns: ForOp, shape: Shape) -> tuple[ForOp, ForOp]:
    """Tiles of the shape's width, or what is left: one tile of a known width, or vectors of which
    the last is masked.
    """
    known = columns.extent.constant
    if known is None and not is_whole(columns, shape.width):
        return tile_ragged(columns, shape.lanes)[:2]
    return tile(columns, min(shape.width, known or shape.width))[:2]


def _stage_sums(result: SSAValue, at: ForOp, ji: ForOp) -> tuple[SSAValue, list[list[ForOp]]]:
    """Keeps the tile of sums in registers, its columns next to each other; returns it and the
    nests that load it, where it goes on with sums, and write it back.
    """
    access = next(access for access in accesses_in(at) if access.buffer is result)
    axis = column_axis(access, ji)
    assert axis is not None, "the columns move the result"
    staged = stage(result, at, "registers")
    sums = pack(staged.buffer, columns_last(buffer_type(staged.buffer), axis))
    return sums, [list(nest) for nest in (staged.load_in, staged.write_back) if nest]


def _separate(inner: Sequence[ForOp], shape: Shape) -> tuple[list[list[ForOp]], list[ForOp]]:
    """Distributes the loops inside a tile over what comes before, in and after the
    reduction, which moves outside; returns the nests and the loops of the reduction.
    """
    body = list(inner[-1].body.block.ops)
    start = next(n for n, op in enumerate(body) if isinstance(op, ForOp))
    nests = [list(inner)]
    for cut in (body[start], body[start + 1] if start + 1 < len(body) else None):
        if cut is None or cut.prev_op is None:
            continue
        nest: list[ForOp] = []
        before: Operation = cut
        for loop in reversed(nests[-1]):
            before = distribute(loop, before)
            nest.insert(0, before)
        nests.append(nest)
    reductions: list[ForOp] = []
    for nest in nests:
        found = [loop for loop in perfect_nest(nest[0]) if loop not in nest]
        if found:
            found = _overlapping_last(found, nest[0])
            reorder(*found, *nest)
            if _leaves_room(inner, shape):
                _unroll_short(found[-1])
        reductions = reductions or found
    return nests, reductions


def _overlapping_last(reductions: list[ForOp], rows: ForOp) -> list[ForOp]:
    """The reductions, the one behind the others that is short and moves an operand along the same
    dim as the rows of a tile do: written out together they load what they share once.
    """
    for access in accesses_in(rows):
        for expr in subscripts(access):
            atoms = set(expr.atoms())
            for loop in reductions:
                extent = loop.extent.constant or LONGEST_UNROLL + 1
                if {rows.index, loop.index} <= atoms and extent <= LONGEST_UNROLL:
                    return [*(each for each in reductions if each is not loop), loop]
    return reductions


def _leaves_room(inner: Sequence[ForOp], shape: Shape) -> bool:
    """Whether the sums of a tile take no more than half of the registers.

    Of a reduction written out the compiler loads operands ahead; beside a full tile it would have
    to spill sums for them, and a full tile is work enough for one iteration.
    """
    lanes = product(loop.extent for loop in inner).constant
    return lanes is not None and lanes <= shape.target.vector_registers // 2 * shape.lanes


def _unroll_short(loop: ForOp) -> None:
    if (loop.extent.constant or LONGEST_UNROLL + 1) <= LONGEST_UNROLL:
        unroll(loop)
