"""Packs the operand that the columns of a contraction index into panels of the register tile's
width, so that the tile reads it contiguously.

A weight is packed before all calls. Another operand is packed where its columns are strided or many
rows read it: a panel at a time onto the stack, where it stays in L2 for all rows, or as a whole
into the workspace in front of the contraction.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    indexed_dims,
    is_inside,
    most_iterations,
    perfect_nest,
    subscripts,
)
from weft.compiler.loop.primitives import (
    collapse,
    compute_at,
    dim_innermost,
    flatten,
    interleave,
    pack,
    panels,
    parallelize,
    reorder,
    split_at,
    stage_tile,
    tile,
    tile_ragged,
    unroll,
    vectorize,
    widen,
)
from weft.compiler.loop.schedules.gemm.blocks import LARGEST_PANEL
from weft.compiler.loop.schedules.gemm.plan import Packing, Plan
from weft.compiler.loop.schedules.gemm.remainders import is_whole, split_columns
from weft.compiler.loop.schedules.innermost_loops import vectorize_innermost
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import product
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import BufferType, LayoutAttr, buffer_type_of

LINE_WORDS = 16
"""Words of a line of the caches."""

ROWS_OF_BLOCK = 8
"""Rows of an operand that are packed together: each is read to its end, and what goes to one panel
is written together.
"""


def panels_of(operand: BufferType, axis: int, plan: Plan, terms: int | None) -> LayoutAttr:
    """The layout in the plan's panels along an axis, in words along the dim of `terms` if any."""
    layout = panels(operand, axis, plan.width, plan.group)
    return layout if terms is None else interleave(layout, terms, plan.terms)


def pack_operand(
    kernel: KernelOp, operand: SSAValue, axis: int, plan: Plan, terms: int | None = None
) -> SSAValue:
    """Packs all of an operand into the plan's panels, in parallel; returns the copy, with narrow
    floats in the type of the accumulators where the plan widens it. What the kernel itself computed
    before is stored in panels from the start.
    """
    staged = stage_tile(operand, kernel, "workspace")
    copy = pack(staged.buffer, panels_of(buffer_type_of(staged.buffer), axis, plan, terms))
    copy = _widened(copy, plan, "whole")
    if not staged.load_in:
        return copy
    if terms is not None:
        parallelize(fill_words(staged.load_in, axis, terms, plan))
        return copy
    if plan.group is not None:
        loops = _split_groups(staged.load_in, axis, plan.group)
        fill_panels(loops, axis, plan.width, plan.lanes)
        return copy
    for nest in fill_panels(staged.load_in, axis, plan.width, plan.lanes):
        parallelize(nest[0])
    return copy


def _widened(copy: SSAValue, plan: Plan, packing: Packing) -> SSAValue:
    """A copy in the type of the accumulators, where the plan has it so: that of all panels in front
    of the product, or of one that is stored as it is.
    """
    owner, is_own = copy.owner, plan.widened_panel and plan.packing == packing
    return widen(owner).result if is_own and isinstance(owner, AllocOp) else copy


def _split_groups(loops: Sequence[ForOp], axis: int, group: int) -> list[ForOp]:
    """Makes a parallel loop over groups of columns; returns the loops inside."""
    atoms = subscripts(accesses_in(loops[0])[-1])[axis].atoms()
    column = next(loop for loop in loops if loop.index in atoms)
    others = [loop for loop in loops if loop is not column]
    groups, inside, _ = tile(reorder(column, *others)[0], group)
    parallelize(groups)
    return [inside, *others]


def pack_flat_operand(
    kernel: KernelOp, operand: SSAValue, axis: int, size: int, lanes: int
) -> SSAValue:
    """The same for columns that index this dim and the next one, which the copy has as one."""
    staged = stage_tile(operand, kernel, "workspace")
    assert isinstance(staged.buffer.owner, AllocOp), "a copy is allocated"
    subscript = subscripts(accesses_in(staged.load_in[0])[-1])
    outer, inner = (
        next(loop for loop in staged.load_in if loop.index in set(expr.atoms()))
        for expr in subscript[axis : axis + 2]
    )
    others = [loop for loop in staged.load_in if loop not in (outer, inner)]
    columns = collapse(outer, inner)
    flat = flatten(staged.buffer.owner, axis).result
    copy = pack(flat, panels(buffer_type_of(flat), axis, size))
    chain = reorder(columns, *others)
    for column, *rest in split_columns(chain, size):
        for nest in fill_panels([*rest, column], axis, size, lanes):
            parallelize(nest[0])
    return copy


def widen_rows(kernel: KernelOp, operand: SSAValue, target: Target) -> None:
    """Copies the operand of the rows in the type of the accumulators, in front of the product."""
    staged = stage_tile(operand, kernel, "workspace")
    assert isinstance(staged.buffer.owner, AllocOp), "a copy is allocated"
    widen(staged.buffer.owner)
    vectorize_innermost(staged.load_in[0], target)
    parallelize_outermost(staged.load_in[0])


def fill_panels(
    loops: Sequence[ForOp], axis: int, size: int, lanes: int
) -> list[tuple[ForOp, ...]]:
    """Makes the loops that pack panels fast: vectors of neighbouring columns, which are loaded
    contiguously, or in blocks that are transposed in registers. Returns the nests that they become.
    """
    load, store = accesses_in(loops[0])
    atoms = set(subscripts(store)[axis].atoms())
    column = next((loop for loop in loops if loop.index in atoms), None)
    if column is None:
        return []
    others = [loop for loop in loops if loop is not column]
    line = None if stride(load, column) == 1 else _line(load, others, column)
    if line is None or (most_iterations(line) or lanes) < lanes:
        return [_fill(column, others, None, size, lanes)]
    others.remove(line)
    reorder(line, *others, column)
    ko, ki, rest = tile(line, lanes)
    nests = [_fill(column, [ko, *others], ki, size, lanes)]
    if rest is not None:
        first, *more = perfect_nest(rest)
        has_constant_extent = first.extent.constant is not None
        line, others = (first, more[:-1]) if has_constant_extent else (None, [first, *more[:-1]])
        nests.append(_fill(more[-1], others, line, size, lanes))
    return nests


def fill_words(loops: Sequence[ForOp], axis: int, terms: int, plan: Plan) -> ForOp:
    """Makes the loops that pack words: each is stored as a whole, in the order of the panels, or,
    where memory has the words of a column next to each other, a line of them at a time. Returns the
    outer loop.
    """
    load, store = accesses_in(loops[0])
    column, line = (
        next((loop for loop in loops if loop.index in set(subscripts(store)[dim].atoms())), None)
        for dim in (axis, terms)
    )
    assert line is not None, "four or more terms are counted by a loop"
    columns = [] if column is None else [column]
    others = [loop for loop in loops if loop not in (column, line)]
    by_lines = stride(load, line) == 1 and column is not None
    outer, word = tile(line, plan.terms)[:2]
    nest = [outer, *columns]
    if by_lines and column is not None:
        (panel, column), (lines, outer) = (
            _in_tiles(column, plan.width),
            _in_tiles(outer, LINE_WORDS),
        )
        nest = [*panel, *lines, column, outer]
    top, *_ = reorder(*others, *nest, word)
    if by_lines and is_whole(outer, LINE_WORDS):
        unroll(outer)
    vectorize(word, plan.terms)
    return top


def _line(load: AccessOp, others: list[ForOp], column: ForOp) -> ForOp | None:
    """The loop along which the operand is contiguous, after collapsing all those whose iterations
    continue it, such as the taps of a filter, which alone are no vector; None if there is none.
    """
    line = next((loop for loop in others if stride(load, loop) == 1), None)
    while line is not None:
        length = line.extent
        around = next((loop for loop in others if stride(load, loop) == length), None)
        if around is None or around is line:
            return line
        others.remove(around)
        others.remove(line)
        reorder(*others, column, around, line)
        line = collapse(around, line)
        others.append(line)
    return None


def _fill(
    column: ForOp, others: Sequence[ForOp], line: ForOp | None, size: int, lanes: int
) -> tuple[ForOp, ...]:
    """Vectors of columns within panels, inside an unrolled line, if there is one; else a few rows
    at a time, through all panels.
    """
    jo, ji = _in_tiles(column, size)
    jm, ji = _in_tiles(ji, lanes) if line is not None else ([], ji)
    if line is None and jo and others:
        ko, ki = _in_tiles(others[-1], ROWS_OF_BLOCK)
        nest = reorder(*ko, *others[:-1], *jo, ki, ji)
    else:
        nest = reorder(*jo, *jm, *others, *([] if line is None else [line]), ji)
    if lanes > 1:
        unroll(vectorize(ji, lanes))
    if line is not None:
        unroll(line)
    return nest


def _in_tiles(loop: ForOp, size: int) -> tuple[list[ForOp], ForOp]:
    """The loop in tiles of so many iterations, or alone where it is no longer than one."""
    most = most_iterations(loop)
    if most is not None and most <= size:
        return [], loop
    outer, inner, _ = tile_ragged(loop, size)
    return [outer], inner


def pack_panel(panel: SSAValue, jo: ForOp, ji: ForOp, plan: Plan) -> list[tuple[ForOp, ...]] | None:
    """Packs one panel for its tiles on the thread's stack. Returns the nests that pack it, none for
    one of words; None where it is not packed: where subscripts span no box that could be copied, as
    those that loaded values are do, or the other factor is part of the same buffer and the columns
    do not index it.
    """
    load = accesses_to(panel, jo)[0]
    axis, terms = column_axis(load, ji), dim_of_terms(load, plan)
    if axis is None:
        return None
    try:
        staged = stage_tile(panel, jo, "scratch")
    except IllegalSchedule:
        return None
    copy = _widened(staged.buffer, plan, "stored")
    buffer_type = buffer_type_of(copy)
    # The box that subscripts span may be larger than what is read of it, as for strided windows.
    # The copy is in the nest by now, so the schedule is refused as a whole, which undoes it.
    if (buffer_type.size.constant or 0) * width(buffer_type.element) // 8 > LARGEST_PANEL:
        got = f"{buffer_type.size} elements"
        raise IllegalSchedule(f"contraction requires a panel that fits the stack, got {got}")
    layout = dim_innermost(buffer_type, axis)
    pack(copy, layout if terms is None else interleave(layout, terms, plan.terms))
    if terms is not None:
        fill_words(staged.load_in, axis, terms, plan)
        return []
    return fill_panels(staged.load_in, axis, buffer_type.shape[axis].constant or 1, plan.lanes)


def dim_of_terms(load: AccessOp, plan: Plan) -> int | None:
    """The dim of the terms of a word; None where elements are terms."""
    return indexed_dims(load, enclosing_loops(load)[-1])[0] if plan.terms > 1 else None


def fill_with_first(fill: Sequence[tuple[ForOp, ...]], tiles: ForOp) -> None:
    """Has the first tile of rows pack the panel, each row of it right before it multiplies it: the
    loads and stores of packing find room beside the multiply-adds of a tile.

        for k:  P[k] = Y[k]                      for k:  P[k] = Y[k];  acc += X[0, k] * P[k]
        for io:  for k:  acc += X[io, k] * P[k]  ->  for io > 0:  for k:  acc += X[io, k] * P[k]
    """
    part, *_ = fill[0]
    panel = accesses_in(part)[-1].buffer
    loads = accesses_to(panel, tiles)
    inside = [loop for loop in enclosing_loops(loads[0]) if is_inside(loop, tiles)]
    k_loops = [loop for loop in inside if loop.reduction is not None]
    if len(fill) != 1 or len(loads) != 1 or product(loop.extent for loop in k_loops) != part.extent:
        return
    split_at(tiles, 1)
    producer, part, _ = tile(part, part.extent.constant or 1)
    for loop in k_loops[:-1]:
        part = tile(part, (part.extent // loop.extent).constant or 1).inner
    compute_at(producer, k_loops[-1])


def pack_block(panel: SSAValue, block: ForOp, ji: ForOp, plan: Plan) -> ForOp:
    """Packs what one block of K reads of a panel, or of a block of panels, on the thread's stack;
    returns the outer loop that does so.
    """
    axis = column_axis(accesses_to(panel, block)[0], ji)
    if axis is None:
        raise IllegalSchedule("contraction requires columns that one dim counts, got several")
    staged = stage_tile(panel, block, "scratch")
    copy = _widened(staged.buffer, plan, "stored")
    buffer_type = buffer_type_of(copy)
    size = buffer_type.shape[axis].constant or 1
    if plan.column_block is not None and plan.width < size:
        pack(copy, panels(buffer_type, axis, plan.width))
        size = plan.width
    else:
        pack(copy, dim_innermost(buffer_type, axis))
    return fill_panels(staged.load_in, axis, size, plan.lanes)[0][0]


def pack_rows(outer: Sequence[ForOp], operand: SSAValue, target: Target) -> ForOp:
    """Makes the loop over tiles of rows the outermost, and packs the rows of each on the thread's
    stack.
    """
    *around, io = outer
    reorder(io, *around)
    staged = stage_tile(operand, io, "scratch")
    vectorize_innermost(staged.load_in[0], target)
    return io


def column_axis(access: AccessOp, ji: ForOp) -> int | None:
    """The dim that the columns index; None where there is no one such dim."""
    axes = indexed_dims(access, ji)
    return axes[0] if len(axes) == 1 else None
