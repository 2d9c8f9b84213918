"""Packs the operand that the columns of a contraction index into panels of the register tile's
width, so that the tile reads it contiguously.

A weight is packed before all calls. Another operand is packed where its columns are strided or many
rows read it: a panel at a time onto the stack, where it stays in L2 for all rows, or as a whole
into the workspace in front of the contraction.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, SSAValue

from weft.compiler.loop.nest import (
    accesses_in,
    accesses_to,
    indexed_dims,
    is_inside,
    loops_in,
    most_iterations,
    perfect_nest,
    subscript_atoms,
    subscripts,
)
from weft.compiler.loop.primitives import (
    collapse,
    compute_at,
    dim_innermost,
    flatten,
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
from weft.compiler.loop.schedules.gemm.remainders import split_columns
from weft.compiler.loop.schedules.gemm.tile_params import Params
from weft.compiler.loop.schedules.innermost_loops import (
    parallelize_outermost,
    stride,
    vectorize_innermost,
)
from weft.compiler.target.target import LINE, PAGE, Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, product
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, enclosing_loops
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of

WIDENED_USES = 64
"""Uses of each element that pay for a copy of an operand in a wider type."""

LARGEST_PANEL = 512 * 1024
"""Bytes of a panel for which threads of most hosts have room on the stack."""

LEAST_PANELS = 8
"""Fewer are too few for threads to share."""

FEWEST_ROWS = 16
"""Rows of two tiles, below which no panel is read twice."""

CONFLICTS = 4
"""Times over that the rows of a panel fill their sets of L1 before packing it pays."""

ROWS_OF_BLOCK = 8
"""Rows of an operand that are packed together: each is read to its end, and what goes to one panel
is written together.
"""


def panel_axis(load: LoadOp, column: ForOp, size: int) -> int | None:
    """The dim that the columns index in whole tiles; None where there is no one such dim."""
    axis = column_axis(load, column)
    if axis is None:
        return None
    return axis if (subscripts(load)[axis] - Expr.atom(column.index)) % size == 0 else None


def flat_axis(load: LoadOp, column: ForOp) -> int | None:
    """The first of the two neighbouring dims that columns index as if these were one, in a
    row-major buffer, as they do the rows of an image; None where there are no such dims.
    """
    axes = indexed_dims(load, column)
    plain = isinstance(load.buffer_type.layout, NoneAttr) and stride(load, column) == 1
    return axes[0] if plain and len(axes) == 2 and axes[1] == axes[0] + 1 else None


def pays_to_copy(load: LoadOp, column: ForOp, target: Target, params: Params) -> bool:
    """Whether to pack the whole operand in front of the contraction: where it is no smaller than
    L2, or its columns are strided, and so many rows read it that this is cheap. Half as many do
    where the stride along K is of whole pages, so that K falls in few sets of the caches.
    """
    rows, bytes = _uses(load)
    least = params.copy_rows // 2 if _has_page_stride(load) else params.copy_rows
    if rows is None or bytes is None or rows < least:
        return False
    return bytes >= target.l2_bytes or (stride(load, column) != 1 and bytes > params.stack_bytes)


def pays_per_tile(
    load: LoadOp, column: ForOp, size: int, target: Target, params: Params, *, weight: bool
) -> bool:
    """Whether an operand is better packed a panel at a time, by the thread that computes with it:
    it is no smaller than L2, its columns are contiguous, a panel takes half of L2 at most, there
    are panels for many threads, and enough rows read it. A panel is not written to memory nor read
    from there again, so fewer rows pay for it than for packing all of the operand, and the fewer
    the more set conflicts the elements along K have; a `weight` is packed already.
    """
    loops, atoms = enclosing_loops(load), subscript_atoms(load)
    others = [loop for loop in loops if loop.index in atoms and loop is not column]
    sums = [loop for loop in loops if loop.reduction is not None]
    depth, columns = product(loop.extent for loop in sums).constant, column.extent.constant
    plain = len(sums) == 1 and sums == others and computed_type(load) == load.result.type
    if not plain or depth is None or columns is None or stride(load, column) != 1:
        return False
    rows, bytes = _uses(load)
    # Elements along K that fall into the same sets evict each other before the next tile of rows
    # reads them again, so packing pays for fewer rows.
    conflicts = max(1, _set_conflicts(load, sums[0], depth, target))
    least = params.copy_rows if weight else max(FEWEST_ROWS, params.panel_rows / conflicts)
    if rows is None or bytes is None or rows < least:
        return False
    if bytes < target.l2_bytes and not _conflicts_in_l1(load, sums[0], depth, size, target):
        return False
    # Half of L2, since the tiles of rows and of the result pass through the other half meanwhile.
    panel = depth * size * width(load.result.type) // 8
    fits = panel <= min(target.l2_bytes // 2, LARGEST_PANEL)
    return fits and columns >= LEAST_PANELS * size


def _conflicts_in_l1(load: LoadOp, k_loop: ForOp, depth: int, size: int, target: Target) -> bool:
    """Whether rows of a panel are a line each, which fall in so few sets of L1 that most of them
    come from L2 for each tile of rows.
    """
    line = size * width(load.result.type) // 8 <= LINE
    over = _set_conflicts(load, k_loop, depth, target) * target.l2_bytes / target.l1_bytes
    return line and over >= CONFLICTS


def _uses(load: LoadOp) -> tuple[int | None, int | None]:
    """How many rows read each element of an operand, and its bytes where it is multiplied."""
    loops, atoms = enclosing_loops(load), subscript_atoms(load)
    rows = product(loop.extent for loop in loops if loop.index not in atoms).constant
    own = product(loop.extent for loop in loops if loop.index in atoms).constant
    return rows, None if own is None else own * width(computed_type(load)) // 8


def _set_conflicts(load: LoadOp, k_loop: ForOp, depth: int, target: Target) -> float:
    """How many times over the elements along K fill the sets of L2 that they fall in: the larger
    the power of two that divides their stride, the fewer sets there are.
    """
    step = stride(load, k_loop)
    bytes = (0 if step is None else step.constant or 0) * width(load.buffer_type.element) // 8
    return depth * (bytes & -bytes) / target.l2_bytes


def _has_page_stride(load: LoadOp) -> bool:
    """Whether the stride along K is a known number of whole pages."""
    sums = [loop for loop in enclosing_loops(load) if loop.reduction is not None]
    steps = [step.constant for loop in sums if (step := stride(load, loop)) is not None]
    bits = width(buffer_type_of(load.buffer).element)
    return any(step and step * bits // 8 % PAGE == 0 for step in steps)


def pack_operand(
    kernel: KernelOp, load: LoadOp, axis: int, size: int, lanes: int, *, widened: bool
) -> SSAValue:
    """Packs all of an operand into panels of so many columns, in parallel; returns the copy, with
    narrow floats in the type of the accumulators where it is to be `widened`. What the kernel
    itself computed before is stored in panels from the start.
    """
    widened &= is_extended(load)
    staged = stage_tile(load.buffer, kernel, "workspace")
    copy = pack(staged.buffer, panels(buffer_type_of(staged.buffer), axis, size))
    if widened and isinstance(copy.owner, AllocOp):
        copy = widen(copy.owner).result
    if not staged.load_in:
        return copy
    for nest in fill_panels(staged.load_in, axis, size, lanes):
        parallelize(nest[0])
    return copy


def pack_flat_operand(kernel: KernelOp, load: LoadOp, axis: int, size: int, lanes: int) -> SSAValue:
    """The same for columns that index two dims, which the copy has as one."""
    staged = stage_tile(load.buffer, kernel, "workspace")
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


def is_extended(load: LoadOp) -> bool:
    """Whether the elements of an operand are narrow floats, which are only loaded and extended."""
    accesses = [use.operation for use in load.buffer.uses]
    return all(
        isinstance(access, LoadOp)
        and all(isinstance(use.operation, arith.ExtFOp) for use in access.result.uses)
        for access in accesses
    )


def computed_type(load: LoadOp) -> Attribute:
    """The type in which an operand's elements are multiplied."""
    (use, *_) = load.result.uses
    extended = use.operation
    return extended.results[0].type if isinstance(extended, arith.ExtFOp) else load.result.type


def widen_rows(kernel: KernelOp, load: LoadOp, target: Target) -> bool:
    """Copies the operand of the rows in the type of the accumulators, where that is wider than its
    own and so many columns read each element that it would be extended over and over. True if so.
    """
    atoms = subscript_atoms(load)
    others = [loop.extent for loop in enclosing_loops(load) if loop.index not in atoms]
    uses = product(others).constant
    if not is_extended(load) or uses is None or uses < WIDENED_USES:
        return False
    staged = stage_tile(load.buffer, kernel, "workspace")
    assert isinstance(staged.buffer.owner, AllocOp), "a copy is allocated"
    widen(staged.buffer.owner)
    vectorize_innermost(staged.load_in[0], target)
    parallelize_outermost(staged.load_in[0])
    return True


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
    lines = [loop for loop in others if stride(load, loop) == 1]
    if not lines or stride(load, column) == 1 or (most_iterations(lines[0]) or lanes) < lanes:
        return [_fill(column, others, None, size, lanes)]
    (line,) = lines
    others = [loop for loop in others if loop is not line]
    reorder(line, *others, column)
    ko, ki, rest = tile(line, lanes)
    nests = [_fill(column, [ko, *others], ki, size, lanes)]
    if rest is not None:
        first, *more = perfect_nest(rest)
        has_constant_extent = first.extent.constant is not None
        line, others = (first, more[:-1]) if has_constant_extent else (None, [first, *more[:-1]])
        nests.append(_fill(more[-1], others, line, size, lanes))
    return nests


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


def pack_panel(
    panel: SSAValue, jo: ForOp, ji: ForOp, lanes: int, params: Params, *, contiguous_too: bool
) -> list[tuple[ForOp, ...]] | None:
    """Packs one panel for its tiles, where its columns are strided, or `contiguous_too`, and it
    fits the stack. Returns the nests that pack it, or None where it is not packed.
    """
    most = LARGEST_PANEL if contiguous_too else params.stack_bytes
    loads = accesses_to(panel, jo)
    if not contiguous_too and all(stride(load, ji) in (0, 1) for load in loads):
        return None
    reductions = [loop for loop in loops_in(jo) if loop.reduction is not None]
    rows = product(loop.extent for loop in reductions).constant
    bytes = width(buffer_type_of(panel).element) // 8 * (most_iterations(ji) or 1)
    axis = column_axis(loads[0], ji)
    if rows is None or rows * bytes > most or axis is None:
        return None
    # Subscripts that loaded values index span no box that could be copied.
    try:
        staged = stage_tile(panel, jo, "scratch")
    except IllegalSchedule:
        return None
    buffer_type = buffer_type_of(staged.buffer)
    # The box that subscripts span may be larger than what is read of it, as for strided windows.
    # The copy is in the nest by now, so the schedule is refused as a whole, which undoes it.
    if (buffer_type.size.constant or 0) * width(buffer_type.element) // 8 > most:
        got = f"{buffer_type.size} elements"
        raise IllegalSchedule(f"contraction requires a panel that fits the stack, got {got}")
    pack(staged.buffer, dim_innermost(buffer_type, axis))
    return fill_panels(staged.load_in, axis, buffer_type.shape[axis].constant or 1, lanes)


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


def pack_block(panel: SSAValue, block: ForOp, ji: ForOp, lanes: int) -> None:
    """Packs what one block of K reads of a panel on the thread's stack."""
    axis = column_axis(accesses_to(panel, block)[0], ji)
    if axis is None:
        raise IllegalSchedule("contraction requires columns that one dim counts, got several")
    staged = stage_tile(panel, block, "scratch")
    buffer_type = buffer_type_of(staged.buffer)
    pack(staged.buffer, dim_innermost(buffer_type, axis))
    fill_panels(staged.load_in, axis, buffer_type.shape[axis].constant or 1, lanes)


def exceeds_l2(panel: SSAValue, jo: ForOp, rows: int, columns: int, target: Target) -> bool:
    """Whether several tiles of so many rows read a panel of columns that L2 does not hold."""
    reductions = [loop for loop in loops_in(jo) if loop.reduction is not None]
    outer = next((loop.extent.constant for loop in loops_in(jo) if loop.reduction is None), None)
    depth = reductions[0].extent.constant if len(reductions) == 1 else None
    if depth is None or (outer or 0) <= rows:
        return False
    return depth * columns * width(buffer_type_of(panel).element) // 8 > target.l2_bytes


def transposed_rows(
    other: LoadOp | None, panel: SSAValue | None, target: Target
) -> SSAValue | None:
    """The operand of the rows, where it is transposed and so large that it is better read once, a
    tile of rows at a time, while the other operand stays in L2.
    """
    if other is None or panel is None:
        return None
    buffer_types = [buffer_type_of(other.buffer), buffer_type_of(panel)]
    large, small = ((each.size.constant or 0) * width(each.element) // 8 for each in buffer_types)
    rows = next((loop for loop in enclosing_loops(other) if stride(other, loop) == 1), None)
    fits = 0 < 2 * small <= target.l2_bytes < large
    return other.buffer if fits and rows is not None and rows.reduction is None else None


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
