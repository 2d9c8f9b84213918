"""The register tile, or micro-kernel: mr rows by nr columns of accumulators stay in registers while
the loops over K add to them.

    acc[6][32] in registers
    for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
    for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += ...
    for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.layouts import lane_stride
from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    loads_in,
    loops_in,
    perfect_nest,
    stores_in,
    subscripts,
)
from weft.compiler.loop.primitives import (
    collapse,
    dim_innermost,
    distribute,
    dot_product,
    matrix_product,
    nontemporal,
    pack,
    pipeline,
    reorder,
    stage_accumulators,
    stage_tile,
    tile,
    tile_ragged,
    unroll,
)
from weft.compiler.loop.schedules.gemm.blocked_summation import block_long_sum
from weft.compiler.loop.schedules.gemm.matrix_blocks import split_parts
from weft.compiler.loop.schedules.gemm.pack_panels import column_axis
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.prefetch_operands import (
    prefetch_panel,
    prefetch_results,
    prefetch_rows,
)
from weft.compiler.loop.schedules.gemm.remainders import is_whole, rows_of_tile, split_rows
from weft.compiler.loop.schedules.gemm.tile_params import LONGEST_UNROLL, leaves_room
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_tile
from weft.compiler.loop.schedules.innermost_loops import (
    main_and_remainder,
    streams_past_caches,
    transpose_copy,
)
from weft.compiler.loop.strides import is_strided, stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Quotient, product
from weft.dialects.loop.ops import AccessOp, ForOp
from weft.dialects.loop.program import is_brief
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of

LEAST_PIPELINED = 3
"""Products along a sum among which what reads it takes no time of its own."""

LEAST_MATRIX_ROWS = 4
"""Rows below which lanes multiply words no later than registers that hold tiles do."""


def split_tile_rows(chain: Sequence[ForOp], plan: Plan) -> list[list[ForOp]]:
    """The nest in parts, each of tiles of rows of one size."""
    return split_rows(chain, plan.rows) if plan.has_rows else [list(chain)]


def tile_rows(
    chain: Sequence[ForOp],
    plan: Plan,
    target: Target,
    result: SSAValue,
    next_panel: SSAValue | None = None,
    *,
    partial: bool = False,
) -> list[ForOp]:
    """Tiles the rows of a nest, the last loop but one, and computes its tiles in registers, while
    the `next_panel` of a weight is prefetched; `partial` sums are added to what memory holds.
    Returns the loops around a tile.
    """
    *outer, ji = chain
    inner = [ji]
    height = rows_of_tile(chain[-2], plan.rows) if plan.has_rows else 1
    if not plan.has_rows or height != plan.rows:
        next_panel = None
    if plan.has_rows:
        io, ii, _ = tile(outer.pop(), height)
        outer, inner = [*outer, io], [ii, ji]
    around = inner[0].parent_op()
    assert isinstance(around, ForOp), "tiles of columns are inside the loop over them"
    if plan.matrix is not None and height >= LEAST_MATRIX_ROWS:
        _multiply_tiles(result, around, inner, plan, target)
        return outer
    accumulators, staged = _stage_accumulators(result, around, ji, plan.lanes, partial=partial)
    nests, reductions = separate(inner, plan, target)
    staged += _stage_scattered(nests, around, plan, target)
    parts = block_long_sum(reductions, accumulators, plan.sum_block)
    if next_panel is not None and len(reductions) == 1:
        prefetch_panel(next_panel, around, plan.lanes)
    for nest in (*nests, *staged, *parts):
        if not _transpose(nest, plan, target):
            unroll_tile(nest, plan.lanes)
    if plan.per_tile:
        prefetch_rows(outer[-1])
        prefetch_results(outer[-1])
    return outer


def store_tiles(nest: Sequence[ForOp], plan: Plan, target: Target) -> None:
    """Makes vectors of what is in front of or behind the sums of a block, a tile at a time; what is
    stored across the columns is transposed in registers, so that its tiles are whole vectors.
    """
    across = any(is_strided(each, nest[-1]) for each in stores_in(nest[-1]))
    for *_, rows, ji in split_rows(nest, plan.lanes if across else plan.rows):
        io, ii, _ = tile(rows, rows_of_tile(rows, plan.lanes if across else plan.rows))
        parts = [[ii, ji]]
        for each in (*parts, *_stage_scattered(parts, io, plan, target)):
            if not _transpose(each, plan, target):
                unroll_tile(each, plan.lanes)


def _multiply_tiles(
    result: SSAValue, around: ForOp, inner: Sequence[ForOp], plan: Plan, target: Target
) -> None:
    """Computes a tile of rows and columns in registers that hold tiles of matrices, whose sums are
    in memory before and behind that: in the result itself, where they are that and L2 keeps it.
    """
    assert plan.matrix is not None, "a plan of tiles of matrices says of how many words"
    totals, staged = result, []
    if plan.k_block is not None or not _is_stored_as_it_is(result, around, inner, target):
        totals, staged = _stage_accumulators(result, around, inner[-1], plan.lanes, "scratch")
    for nest in (*_distribute(inner), *staged):
        taps = [loop for loop in perfect_nest(nest[0]) if loop not in nest]
        if not taps:
            _unroll_around(nest, totals, plan)
            continue
        terms = taps.pop()
        words = next(loop for loop in taps if _is_in_words(loop, terms, plan))
        tiles = tile(words, plan.matrix)
        sums = [tiles.outer if loop is words else loop for loop in taps]
        steps, *_ = reorder(*sums, *nest, tiles.inner, terms)
        for part in split_parts(steps, plan):
            matrix_product(part)


def _unroll_around(nest: Sequence[ForOp], sums: SSAValue, plan: Plan) -> None:
    """Makes vectors of what is in front of or behind the products of a tile: along its columns, or,
    where only its rows are next to each other in what is stored, along these, of sums that are
    transposed in registers, a block at a time.

        for i:  for j:  y[j, i] = f(acc[i, j])
        ->  for b:  for j:  for i vector:  r[j, i] = acc[i, j]
                    for j:  for i vector:  y[j, i] = f(r[j, i])
    """
    rows, columns = nest[0], nest[-1]
    stores = stores_in(rows)
    if not all(is_strided(each, columns) and stride(each, rows) == 1 for each in stores):
        unroll_tile(nest, plan.lanes, rows=False)
        return
    for part in main_and_remainder(reorder(columns, rows)[0], plan.lanes):
        across, _ = reorder(perfect_nest(part)[1], part)
        for each in main_and_remainder(across, plan.lanes):
            _transpose_blocks(perfect_nest(each), sums, plan)


def _transpose_blocks(nest: Sequence[ForOp], sums: SSAValue, plan: Plan) -> None:
    """The same for rows and columns that are whole vectors, or less than one; too few for blocks
    are not transposed.
    """
    sides = [min(plan.lanes, loop.extent.constant or plan.lanes) for loop in nest]
    (io, ii, _), (jo, ji, _) = (tile(loop, n) for loop, n in zip(nest, sides, strict=True))
    block = collapse(*reorder(jo, io, ji, ii)[:2])
    read = next((each for each in loads_in(ii) if each.buffer is sums), None)
    if read is not None and min(sides) >= plan.lanes // 2:
        axis = column_axis(read, ii)
        assert axis is not None, "the rows index the sums"
        staged = stage_tile(sums, block, "registers")
        pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), axis))
        transpose_copy(staged.load_in, plan.lanes, unrolled=True)
    unroll_tile((ji, ii), plan.lanes)


def pipeline_tiles(top: ForOp, target: Target) -> None:
    """Computes what reads the sums of a tile in registers among the products of the next one, which
    take so long that vectors are idle meanwhile. Whole lines of results that L2 does not keep are
    stored past the caches: to read lines before they are written takes longer than the products.
    """
    products = [loop for loop in loops_in(top) if loop.matrix is not None]
    for sums in products:
        around, epilogue = sums.parent_op(), sums.next_op
        several = isinstance(around, ForOp) and around is not top and around.extent != 1
        long = (sums.extent.constant or 0) >= LEAST_PIPELINED
        if several and long and isinstance(epilogue, ForOp):
            with suppress(IllegalSchedule):  # it reads more than the sums
                pipeline(sums, epilogue)
    for store in stores_in(top) if products else ():
        if streams_past_caches(store, target):
            with suppress(IllegalSchedule):  # the kernel reads it again
                nontemporal(store)


def _is_stored_as_it_is(
    result: SSAValue, around: ForOp, inner: Sequence[ForOp], target: Target
) -> bool:
    """Whether the sums of a tile are the result, which has them in rows of neighbours; L2 keeps it,
    for a register that is stored to memory row by row waits for each.
    """
    rows, columns = inner
    accesses = accesses_to(result, around)
    spaced = all(stride(each, columns) == 1 and stride(each, rows) is not None for each in accesses)
    buffer_type = buffer_type_of(result)
    size = buffer_type.size.constant
    most = target.l2_bytes * 3 // 8
    kept = size is not None and size * width(buffer_type.element) // 8 <= most
    return spaced and kept and isinstance(columns.body.block.last_op, ForOp)


def _is_in_words(loop: ForOp, terms: ForOp, plan: Plan) -> bool:
    """Whether a loop goes through a factor's words, as many as a register has of which are
    neighbours.
    """
    words = plan.matrix or 1
    loads = [load for load in loads_in(terms) if lane_stride(load, terms, plan.terms) == 1]
    near = any(lane_stride(load, loop, words) == plan.terms for load in loads)
    return near and is_whole(loop, words)


def tile_columns(columns: ForOp, plan: Plan) -> tuple[ForOp, ForOp]:
    """Tiles of the shape's width; of a remainder one tile of its constant width, or vectors of
    which the last is masked.
    """
    extent = columns.extent.constant
    if extent is None and not is_whole(columns, plan.width):
        return tile_ragged(columns, plan.lanes)[:2]
    return tile(columns, min(plan.width, extent or plan.width))[:2]


def _transpose(nest: Sequence[ForOp], plan: Plan, target: Target) -> bool:
    """Transposes in registers what is only copied between a tile and memory where rows are
    contiguous, if stores are of whole vectors or as fast; false for other nests.
    """
    stores = stores_in(nest[-1])
    along = [loop for loop in nest if all(stride(store, loop) == 1 for store in stores)]
    whole = all(is_whole(loop, plan.lanes) for loop in along)
    return (whole or target.has_masks) and transpose_copy(nest, plan.lanes, unrolled=True)


def _stage_accumulators(
    result: SSAValue,
    at: ForOp,
    ji: ForOp,
    lanes: int,
    scope: str = "registers",
    *,
    partial: bool = False,
) -> tuple[SSAValue, list[list[ForOp]]]:
    """Keeps the accumulators of a tile in registers, its columns contiguous; returns them and the
    nests that load them, where memory holds partial results, and store them, or that set them to
    zero and add them, where they are `partial` results themselves. Of columns that may be less than
    a vector, each row has whole vectors, for registers are not addressed by elements.
    """
    axis = column_axis(accesses_to(result, at)[0], ji)
    assert axis is not None, "the columns index the result"
    staged = (stage_accumulators if partial else stage_tile)(result, at, scope)
    multiple = lanes if ji.extent.constant is None else 1
    layout = dim_innermost(buffer_type_of(staged.buffer), axis, multiple)
    accumulators = pack(staged.buffer, layout)
    return accumulators, [list(nest) for nest in (staged.load_in, staged.write_back) if nest]


def _stage_scattered(
    nests: Sequence[Sequence[ForOp]], around: ForOp, plan: Plan, target: Target
) -> list[list[ForOp]]:
    """Keeps in registers what nests without a reduction access with lanes far apart but rows side
    by side, in tiles that are boxes, so that it is transposed on its way from and to memory;
    returns the nests that load and store it.
    """
    found: list[list[ForOp]] = []
    for nest in nests if plan.has_rows else ():
        rows, columns = nest
        long = min(loop.extent.constant or 0 for loop in nest) >= plan.lanes // 2
        whole = is_whole(rows, plan.lanes) or target.has_masks
        if not (long and whole) or perfect_nest(columns)[-1] is not columns:
            continue
        for buffer, axis in _scattered(rows, columns, around):
            staged = stage_tile(buffer, around, "registers")
            pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), axis))
            found += [list(each) for each in (staged.load_in, staged.write_back) if each]
    return found


def _scattered(rows: ForOp, columns: ForOp, around: ForOp) -> list[tuple[SSAValue, int]]:
    """The buffers that a nest, and nothing else around it, accesses so, and their dims of the
    columns.
    """
    found: list[tuple[SSAValue, int]] = []
    for buffer in dict.fromkeys(access.buffer for access in accesses_in(rows)):
        accesses = accesses_to(buffer, around)
        axis = column_axis(accesses[0], columns)
        alone = len(accesses_to(buffer, rows)) == len(accesses)
        across = all(stride(access, rows) == 1 for access in accesses)
        apart = all(is_strided(access, columns) for access in accesses)
        if axis is not None and alone and across and apart and all(map(_is_box, accesses)):
            found.append((buffer, axis))
    return found


def _is_box(access: AccessOp) -> bool:
    """Whether a tile is a box of a buffer: no loop of it goes through two dims."""
    terms = [term for each in subscripts(access) for term in each.terms]
    return not any(isinstance(atom, Quotient) for term in terms for atom in term)


def separate(
    inner: Sequence[ForOp], plan: Plan, target: Target
) -> tuple[list[list[ForOp]], list[ForOp]]:
    """Distributes the loops inside a tile over what comes before, in and after the
    reduction, which moves outside; returns the nests and the loops of the reduction.
    """
    nests = _distribute(inner)
    reductions: list[ForOp] = []
    for nest in nests:
        found = [loop for loop in perfect_nest(nest[0]) if loop not in nest]
        if found:
            # The terms of a dot product are those of one instruction, inside all other loops.
            words = [found.pop()] if plan.terms > 1 else []
            found = _overlapping_last(found, nest[0])
            reorder(*found, *nest, *words)
            for loop in words:
                dot_product(loop)
            tile_elements = product(loop.extent for loop in inner).constant
            if tile_elements is not None and leaves_room(-(-tile_elements // plan.lanes), target):
                _unroll_short(found[-1])
        reductions = reductions or found
    return nests, reductions


def _distribute(inner: Sequence[ForOp]) -> list[list[ForOp]]:
    """Distributes the loops inside a tile over what comes before, in and after the reduction."""
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
    return nests


def _overlapping_last(reductions: list[ForOp], rows: ForOp) -> list[ForOp]:
    """The reductions, a short one innermost that indexes the same dim of an operand as the rows of
    a tile do: unrolled together they load what overlapping windows share once.
    """
    for access in accesses_in(rows):
        for expr in subscripts(access):
            atoms = set(expr.atoms())
            for loop in reductions:
                extent = loop.extent.constant or LONGEST_UNROLL + 1
                if {rows.index, loop.index} <= atoms and extent <= LONGEST_UNROLL:
                    return [*(each for each in reductions if each is not loop), loop]
    return reductions


def _unroll_short(loop: ForOp) -> None:
    """Unrolls a short loop, unless that takes longer than all of its kernel."""
    if (loop.extent.constant or LONGEST_UNROLL + 1) <= LONGEST_UNROLL and not is_brief(loop):
        unroll(loop)
