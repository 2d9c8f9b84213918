"""Primitives that change how buffers are stored: pack, flatten, hoist_allocation."""

from __future__ import annotations

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from weft.compiler.loop.legality import require_only_accessed
from weft.compiler.loop.nest import bounds_of, describe, ranges_of, reallocate, redirect, value_name
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr, Operand
from weft.dialects.interval import Range
from weft.dialects.loop.ops import AllocOp, ForOp, enclosing_loops
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer, buffer_type_of


@primitive
def pack(buffer: SSAValue, layout: LayoutAttr | None) -> SSAValue:
    """Gives an argument or local buffer of a kernel another layout, None for the row-major order;
    subscripts stay as they are.

        %B: !loop.buffer<[64, 96], f32>
        ->  %B: !loop.buffer<[64, 96], f32, [(d1 floordiv 16), d0, (d1 mod 16)] in [6, 64, 16]>

    The caller of the kernel sees the new type and converts the argument to it. Returns the value
    that replaces the buffer. Raises IllegalSchedule for a buffer that is viewed under another
    shape, and for a layout with positions outside of its storage.
    """
    type = buffer_type_of(buffer)
    require_only_accessed("pack", buffer)
    if layout is not None:
        _require_positions(type, layout)
    packed = BufferType(type.dims, type.element, NoneAttr() if layout is None else layout)
    return Rewriter.replace_value_with_new_type(buffer, packed)


def _require_positions(type: BufferType, layout: LayoutAttr) -> None:
    """Refuses a layout that puts an element where its storage is known not to reach."""
    subscripts, storage = layout.subscripts.data, layout.storage.data
    indices: dict[Atom, Range] = {
        Operand(position): (0, None if dim.constant is None else dim.constant - 1)
        for position, dim in enumerate(type.shape)
    }
    unknown = {atom for expr in subscripts for atom in expr.atoms() if isinstance(atom, Operand)}
    fits = len(subscripts) == len(storage) and unknown <= indices.keys()
    for expr, size in zip(subscripts, storage, strict=False):
        low, high = expr.range(indices)
        most = size.constant
        below = low is not None and low < 0
        fits &= not below and (high is None or most is None or high < most)
    if not fits:
        dims = ", ".join(map(str, type.shape))
        raise IllegalSchedule(
            f"pack requires places inside of its storage for [{dims}], got {layout.body()}"
        )


def panels(type: BufferType, axis: int, width: int, group: int | None = None) -> LayoutAttr:
    """The layout in panels of `width` along an axis: number slowest, position in one fastest.

    The last panel is padded where the width does not divide the dim, or that of each `group` of so
    many elements.
    """
    along, size = Expr.of(Operand(axis)), type.shape[axis]
    others = [(Expr.of(Operand(d)), dim) for d, dim in enumerate(type.shape) if d != axis]
    outer: list[tuple[Expr, Expr]] = []
    if group is not None:
        outer = [(along // group, size.ceildiv(group))]
        along, size = along % group, Expr.of(group)
    outer.append((along // width, size.ceildiv(width)))
    dims = [*outer, *others, (along % width, Expr.of(width))]
    subscripts, storage = zip(*dims, strict=True)
    return LayoutAttr(ExprsAttr(subscripts), ExprsAttr(storage))


def interleave(layout: LayoutAttr, dim: int, count: int) -> LayoutAttr:
    """The layout with so many neighbours along a dim, which is a subscript of its own, fastest.

    Panels of `[k, n]` with words of four along k are
    `[(d1 floordiv 16), (d0 floordiv 4), (d1 mod 16), (d0 mod 4)]`.
    """
    along = Expr.of(Operand(dim))
    subscripts, storage = list(layout.subscripts.data), list(layout.storage.data)
    position = subscripts.index(along)
    subscripts[position : position + 1] = [along // count]
    storage[position] = storage[position].ceildiv(count)
    return LayoutAttr(
        ExprsAttr((*subscripts, along % count)), ExprsAttr((*storage, Expr.of(count)))
    )


def dim_innermost(type: BufferType, axis: int, multiple: int = 1) -> LayoutAttr:
    """The row-major layout with one dim moved to the end, where its elements are contiguous, and
    its storage a multiple of a number of elements.
    """
    order = [dim for dim in range(type.rank) if dim != axis]
    subscripts = tuple(Expr.of(Operand(dim)) for dim in (*order, axis))
    storage = *(type.shape[dim] for dim in order), type.shape[axis].ceildiv(multiple) * multiple
    return LayoutAttr(ExprsAttr(subscripts), ExprsAttr(storage))


@primitive
def flatten(allocation: AllocOp, axis: int) -> AllocOp:
    """Makes one dim of two neighbouring ones, `axis` and the next, of a local row-major buffer.

        t = alloc [12, h, w];  t[c, i, j] = ...   ->   t = alloc [12, h*w];  t[c, w*i + j] = ...

    Of loops that are collapsed, w*(ij floordiv w) + ij mod w is ij again, so that tiles of it are
    boxes. Raises IllegalSchedule for a buffer without those dims, with a layout, or seen under
    another shape.
    """
    type, name = buffer_type_of(allocation.result), value_name(allocation.result)
    if not 0 <= axis < type.rank - 1 or not isinstance(type.layout, NoneAttr):
        rule = f"a row-major buffer with dims {axis} and {axis + 1}"
        raise IllegalSchedule(f"flatten requires {rule}, got {name}: {type}")
    accesses = require_only_accessed("flatten", allocation.result)
    inner = type.shape[axis + 1]
    shape = [*type.shape[:axis], type.shape[axis] * inner, *type.shape[axis + 2 :]]
    flat = reallocate(allocation, buffer(shape, type.element), before=allocation)
    for access in accesses:
        index = access.index
        ranges = ranges_of(bounds_of(enclosing_loops(access)))
        position = (index[axis] * inner + index[axis + 1]).simplify(ranges)
        redirect(access, flat.result, [*index[:axis], position, *index[axis + 2 :]])
    Rewriter.erase_op(allocation)
    return flat


@primitive
def hoist_allocation(allocation: AllocOp, *, per_iteration: bool = False) -> AllocOp:
    """Moves a local buffer in front of the loop that allocates it.

        for h:                                     t = alloc workspace [12, n]
          t = alloc workspace [n]             ->   for h:
          for j:  t[j] = ...                         for j:  t[h, j] = ...

    With `per_iteration` each iteration has a part of the buffer, as shown, so that they may run in
    parallel though threads share the workspace; without it they use the same buffer one after the
    other, and there is no new dim. Raises IllegalSchedule for a buffer that no loop allocates or
    that is seen under another shape, and for a loop that is parallel, does not count from zero or
    has a varying extent.
    """
    loop, type = allocation.parent_op(), buffer_type_of(allocation.result)
    if not isinstance(loop, ForOp) or loop.parallel is not None or loop.operands_:
        got = value_name(allocation.result)
        raise IllegalSchedule(f"hoist_allocation requires a loop over sizes around it, got {got}")
    if loop.lower != 0 or loop.step.data != 1:
        got = describe(loop)
        raise IllegalSchedule(f"hoist_allocation requires a loop that counts from 0, got {got}")
    accesses = require_only_accessed("hoist_allocation", allocation.result)
    hoisted_type = with_dim(type, loop.extent) if per_iteration else type
    hoisted = reallocate(allocation, hoisted_type, before=loop)
    for access in accesses:
        index = (Expr.atom(loop.index), *access.index) if per_iteration else access.index
        redirect(access, hoisted.result, index)
    Rewriter.erase_op(allocation)
    return hoisted


def with_dim(type: BufferType, extent: Expr) -> BufferType:
    """The type with a slowest dim more, in the shape and in the storage."""
    if isinstance(type.layout, NoneAttr):
        return buffer([extent, *type.shape], type.element)
    moved: dict[Atom, Expr] = {Operand(n): Expr.of(Operand(n + 1)) for n in range(type.rank)}
    subscripts = [expr.substitute(moved) for expr in type.layout.subscripts.data]
    layout = LayoutAttr(
        ExprsAttr((Expr.of(Operand(0)), *subscripts)), ExprsAttr((extent, *type.storage))
    )
    return buffer([extent, *type.shape], type.element, layout)
