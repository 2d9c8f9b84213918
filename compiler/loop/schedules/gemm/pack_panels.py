"""Panels: how the operand that the columns of a product move is brought together, so that a tile
reads it in the order in which it lies.

A weight lies in panels ahead of every call. Another operand is copied where its columns are
scattered or many rows read it: a panel at a time onto the stack, where it stays in the second cache
for all rows, or all of it into the workspace in front of the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, SSAValue

from compiler.loop.nest import (
    accesses_in,
    is_inside,
    loops_in,
    most_iterations,
    perfect_nest,
    subscripts,
)
from compiler.loop.primitives import (
    collapse,
    flatten,
    fuse_at,
    pack,
    panels,
    parallelize,
    reorder,
    split_at,
    stage,
    tile,
    tile_ragged,
    unroll,
    vectorize,
    widen,
)
from compiler.loop.schedules.gemm.remainders import split_columns
from compiler.loop.schedules.gemm.tile_params import Params
from compiler.loop.schedules.innermost_loops import parallelize_outermost, stride, vectorize_leaves
from compiler.target.target import LINE, PAGE, Target
from dialects.errors import IllegalSchedule
from dialects.expr import Atom, Expr, Operand, atom_expr, product
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, enclosing_loops
from dialects.loop.program import KernelOp
from dialects.loop.scalar import width
from dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer_type

WIDENED_USES = 64
"""Uses of each element that pay for a copy of an operand in a wider type."""

LARGEST_PANEL = 512 * 1024
"""Bytes of a panel on the stack for which threads of most hosts have room."""

LEAST_PANELS = 8
"""Fewer are too few for threads to share."""

FEWEST_ROWS = 16
"""Rows of two tiles, below which nothing is read from a panel again."""

CROWDED = 4
"""Times over that the rows of a panel fill their sets of the first cache before a copy pays."""

ROWS_OF_BLOCK = 8
"""Rows of an operand that are copied into panels together: each is read as far as it goes, and
what comes to lie in one panel is written together.
"""


def panel_axis(load: LoadOp, column: ForOp, size: int) -> int | None:
    """The dim of the panel that the columns count through in whole tiles;
    None where there is no such dim.
    """
    exprs = subscripts(load)
    axes = [axis for axis, expr in enumerate(exprs) if column.index in set(expr.atoms())]
    if len(axes) != 1:
        return None
    return axes[0] if (exprs[axes[0]] - atom_expr(column.index)) % size == 0 else None


def flat_axis(load: LoadOp, column: ForOp) -> int | None:
    """The first of the two neighbouring dims that columns count through as if these were one, in a
    row-major buffer, as through the rows of an image; None where there are no such dims.
    """
    kind, exprs = load.buffer_type, subscripts(load)
    axes = [axis for axis, expr in enumerate(exprs) if column.index in set(expr.atoms())]
    plain = isinstance(kind.layout, NoneAttr) and stride(load, column) == 1
    return axes[0] if plain and len(axes) == 2 and axes[1] == axes[0] + 1 else None


def pays_to_copy(load: LoadOp, column: ForOp, target: Target, params: Params) -> bool:
    """Whether to copy the whole operand into panels before the product: where it is no smaller than
    the second cache, or its columns are scattered, and so many rows read it that this is cheap.
    Half as many do where what one sum reads lies whole pages apart, in few sets of the caches.
    """
    rows, bytes = _uses(load)
    least = params.copy_rows // 2 if _lies_pages_apart(load) else params.copy_rows
    if rows is None or bytes is None or rows < least:
        return False
    return bytes >= target.l2_bytes or (stride(load, column) != 1 and bytes > params.stack_bytes)


def stays_near(
    load: LoadOp, column: ForOp, size: int, target: Target, params: Params, *, weight: bool
) -> bool:
    """Whether an operand is better copied a panel at a time, by who computes with it: it is no
    smaller than the second cache, its columns lie together, a panel takes half of that cache at
    most, there are panels for many threads, and enough rows read it. It is not written to memory
    then, nor read from there again, so fewer rows pay for it than for a copy of all of it, and the
    fewer the more the terms of a sum crowd; a `weight` lies in panels already.
    """
    loops = enclosing_loops(load)
    moving = [loop for loop in loops if loop.index in _moving(load) and loop is not column]
    sums = [loop for loop in loops if loop.reduction is not None]
    depth, columns = product(loop.extent for loop in sums).constant, column.extent.constant
    plain = len(sums) == 1 and sums == moving and computed_type(load) == load.result.type
    if not plain or depth is None or columns is None or stride(load, column) != 1:
        return False
    rows, bytes = _uses(load)
    crowding = _crowding(load, sums[0], depth, target)
    least = params.copy_rows if weight else max(FEWEST_ROWS, params.near_rows / max(1, crowding))
    if rows is None or bytes is None or rows < least:
        return False
    if bytes < target.l2_bytes and not _crowds_lines(load, sums[0], depth, size, target):
        return False
    panel = depth * size * width(load.result.type) // 8
    fits = panel <= min(target.l2_bytes // 2, LARGEST_PANEL)
    return fits and columns >= LEAST_PANELS * size


def _crowds_lines(load: LoadOp, terms: ForOp, depth: int, size: int, target: Target) -> bool:
    """Whether rows of a panel are a line each, which fall in so few sets of the first cache that
    most of them come from the second for each tile of rows.
    """
    line = size * width(load.result.type) // 8 <= LINE
    over = _crowding(load, terms, depth, target) * target.l2_bytes / target.l1_bytes
    return line and over >= CROWDED


def _uses(load: LoadOp) -> tuple[int | None, int | None]:
    """How many rows read each element of an operand, and its bytes where it is multiplied."""
    loops, moving = enclosing_loops(load), _moving(load)
    rows = product(loop.extent for loop in loops if loop.index not in moving).constant
    own = product(loop.extent for loop in loops if loop.index in moving).constant
    return rows, None if own is None else own * width(computed_type(load)) // 8


def _crowding(load: LoadOp, terms: ForOp, depth: int, target: Target) -> float:
    """How many times over the terms of a sum fill the sets of the second cache that they fall in:
    the larger the power of two that divides the distance between them, the fewer there are.
    """
    step = stride(load, terms)
    apart = (0 if step is None else step.constant or 0) * width(load.buffer_type.element) // 8
    return depth * (apart & -apart) / target.l2_bytes


def _moving(load: LoadOp) -> set[Atom]:
    return {atom for expr in subscripts(load) for atom in expr.atoms()}


def _lies_pages_apart(load: LoadOp) -> bool:
    """Whether the terms of a sum are apart by a known distance of whole pages."""
    sums = [loop for loop in enclosing_loops(load) if loop.reduction is not None]
    steps = [step.constant for loop in sums if (step := stride(load, loop)) is not None]
    bits = width(buffer_type(load.buffer).element)
    return any(step and step * bits // 8 % PAGE == 0 for step in steps)


def copy_panels(
    kernel: KernelOp, load: LoadOp, axis: int, size: int, lanes: int, *, widened: bool
) -> SSAValue:
    """Copies all of an operand into panels of so many columns, in parallel; returns the copy,
    narrow floats in the type of the sums where it is to be `widened`. What the kernel itself
    computed before lies in panels from the start.
    """
    widened &= is_extended(load)
    staged = stage(load.buffer, kernel, "workspace")
    copy = pack(staged.buffer, panels(buffer_type(staged.buffer), axis, size))
    if widened and isinstance(copy.owner, AllocOp):
        copy = widen(copy.owner).result
    if not staged.load_in:
        return copy
    for nest in fill_panels(staged.load_in, axis, size, lanes):
        parallelize(nest[0])
    return copy


def copy_flat_panels(kernel: KernelOp, load: LoadOp, axis: int, size: int, lanes: int) -> SSAValue:
    """The same for columns that count through two dims, which the copy has as one."""
    staged = stage(load.buffer, kernel, "workspace")
    assert isinstance(staged.buffer.owner, AllocOp), "a copy is allocated"
    place = subscripts(accesses_in(staged.load_in[0])[-1])
    outer, inner = (
        next(loop for loop in staged.load_in if loop.index in set(expr.atoms()))
        for expr in place[axis : axis + 2]
    )
    others = [loop for loop in staged.load_in if loop not in (outer, inner)]
    columns = collapse(outer, inner)
    flat = flatten(staged.buffer.owner, axis).result
    copy = pack(flat, panels(buffer_type(flat), axis, size))
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
    """Copies the operand of the rows in the type of the sums, where that is wider than its own and
    so many columns read each element that it would be extended over and over. True if it did.
    """
    moving = _moving(load)
    others = [loop.extent for loop in enclosing_loops(load) if loop.index not in moving]
    uses = product(others).constant
    if not is_extended(load) or uses is None or uses < WIDENED_USES:
        return False
    staged = stage(load.buffer, kernel, "workspace")
    assert isinstance(staged.buffer.owner, AllocOp), "a copy is allocated"
    widen(staged.buffer.owner)
    vectorize_leaves(staged.load_in[0], target)
    parallelize_outermost(staged.load_in[0])
    return True


def fill_panels(
    loops: Sequence[ForOp], axis: int, size: int, lanes: int
) -> list[tuple[ForOp, ...]]:
    """Makes the loops that copy into panels fast: vectors of neighbouring columns, which are loaded
    as they lie, or in blocks that are turned on the way. Returns the nests that they become.
    """
    load, store = accesses_in(loops[0])
    moving = set(subscripts(store)[axis].atoms())
    column = next((loop for loop in loops if loop.index in moving), None)
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
        known = first.extent.constant is not None
        line, others = (first, more[:-1]) if known else (None, [first, *more[:-1]])
        nests.append(_fill(more[-1], others, line, size, lanes))
    return nests


def _fill(
    column: ForOp, others: Sequence[ForOp], line: ForOp | None, size: int, lanes: int
) -> tuple[ForOp, ...]:
    """Vectors of columns within panels, inside a line that is written out, if there is one; else
    a few rows after the other, through all panels.
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


def stage_panel(
    panel: SSAValue, jo: ForOp, ji: ForOp, lanes: int, params: Params, *, near: bool
) -> list[tuple[ForOp, ...]] | None:
    """Packs the panel's columns next to each other, where they are scattered or it stays `near`,
    and few enough for the stack. Returns the nests that copy it, or None where it is not copied.
    """
    most = LARGEST_PANEL if near else params.stack_bytes
    loads = [access for access in accesses_in(jo) if access.buffer is panel]
    if not near and all(stride(load, ji) in (0, 1) for load in loads):
        return None
    reductions = [loop for loop in loops_in(jo) if loop.reduction is not None]
    rows = product(loop.extent for loop in reductions).constant
    bytes = width(buffer_type(panel).element) // 8 * (most_iterations(ji) or 1)
    axis = column_axis(loads[0], ji)
    if rows is None or rows * bytes > most or axis is None:
        return None
    try:
        staged = stage(panel, jo, "scratch")
    except IllegalSchedule:
        return None
    kind = buffer_type(staged.buffer)
    if (kind.size.constant or 0) * width(kind.element) // 8 > most:
        got = f"{kind.size} elements"
        raise IllegalSchedule(f"contraction requires a panel that fits the stack, got {got}")
    pack(staged.buffer, columns_last(kind, axis))
    return fill_panels(staged.load_in, axis, kind.shape[axis].constant or 1, lanes)


def fill_with_first(fill: Sequence[tuple[ForOp, ...]], tiles: ForOp) -> None:
    """Has the first tile of rows copy the panel, each row of it right before it multiplies it: the
    loads and stores of the copy find room beside the multiply-adds of a tile.

        for k:  P[k] = Y[k]                      for k:  P[k] = Y[k];  acc += X[0, k] * P[k]
        for io:  for k:  acc += X[io, k] * P[k]  ->  for io > 0:  for k:  acc += X[io, k] * P[k]
    """
    part, *_ = fill[0]
    panel = accesses_in(part)[-1].buffer
    loads = [access for access in accesses_in(tiles) if access.buffer is panel]
    inside = [loop for loop in enclosing_loops(loads[0]) if is_inside(loop, tiles)]
    terms = [loop for loop in inside if loop.reduction is not None]
    if len(fill) != 1 or len(loads) != 1 or product(loop.extent for loop in terms) != part.extent:
        return
    split_at(tiles, 1)
    producer, part, _ = tile(part, part.extent.constant or 1)
    for loop in terms[:-1]:
        part = tile(part, (part.extent // loop.extent).constant or 1).inner
    fuse_at(producer, terms[-1])


def pack_columns(panel: SSAValue, block: ForOp, ji: ForOp, lanes: int) -> None:
    """Brings the columns that an iteration of a block reads together on the thread's stack."""
    load = next(access for access in accesses_in(block) if access.buffer is panel)
    axis = column_axis(load, ji)
    if axis is None:
        raise IllegalSchedule("contraction requires columns that one dim counts, got several")
    staged = stage(panel, block, "scratch")
    kind = buffer_type(staged.buffer)
    pack(staged.buffer, columns_last(kind, axis))
    fill_panels(staged.load_in, axis, kind.shape[axis].constant or 1, lanes)


def is_deep(panel: SSAValue, jo: ForOp, rows: int, columns: int, target: Target) -> bool:
    """Whether tiles of so many rows follow each other over a panel of columns that the second cache
    does not hold.
    """
    reductions = [loop for loop in loops_in(jo) if loop.reduction is not None]
    outer = next((loop.extent.constant for loop in loops_in(jo) if loop.reduction is None), None)
    depth = reductions[0].extent.constant if len(reductions) == 1 else None
    if depth is None or (outer or 0) <= rows:
        return False
    return depth * columns * width(buffer_type(panel).element) // 8 > target.l2_bytes


def turned_rows(beside: LoadOp | None, panel: SSAValue | None, target: Target) -> SSAValue | None:
    """The operand of the rows, where these are its columns, so far apart that it is better read
    once, a tile at a time, while the other operand stays in the second cache.
    """
    if beside is None or panel is None:
        return None
    kinds = [buffer_type(beside.buffer), buffer_type(panel)]
    large, small = ((kind.size.constant or 0) * width(kind.element) // 8 for kind in kinds)
    rows = next((loop for loop in enclosing_loops(beside) if stride(beside, loop) == 1), None)
    fits = 0 < 2 * small <= target.l2_bytes < large
    return beside.buffer if fits and rows is not None and rows.reduction is None else None


def rows_first(outer: Sequence[ForOp], turned: SSAValue, target: Target) -> ForOp:
    """Brings the tiles of rows outside, and the rows of each together on the thread's stack."""
    *around, io = outer
    reorder(io, *around)
    staged = stage(turned, io, "scratch")
    vectorize_leaves(staged.load_in[0], target)
    return io


def column_axis(access: AccessOp, ji: ForOp) -> int | None:
    """The dim that the columns count through; None where there is no one such dim."""
    axes = [axis for axis, expr in enumerate(subscripts(access)) if ji.index in set(expr.atoms())]
    return axes[0] if len(axes) == 1 else None


def columns_last(kind: BufferType, axis: int) -> LayoutAttr:
    """The row-major layout with one dim moved to the end."""
    order = [dim for dim in range(kind.rank) if dim != axis] + [axis]
    subscripts = tuple(Expr.of(Operand(dim)) for dim in order)
    return LayoutAttr(ExprsAttr(subscripts), ExprsAttr(tuple(kind.shape[dim] for dim in order)))
