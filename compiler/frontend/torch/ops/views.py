"""ATen's operators that show the same elements under other axes, or parts of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    axes_of,
    axis_of,
    entry,
    only_static,
    result_element,
    with_axis,
)
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Expr, ExprLike, maximum, minimum, product
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64
from weft.dialects.loop.scalar import width

_END: Final = sys.maxsize


def view(b: GraphBuilder, x: Term, size: Sequence[ExprLike]) -> Term:
    """The elements in row-major order under other dims, of which one may be -1."""
    dims = [Expr.of(each) for each in size]
    if Expr.of(-1) in dims:
        rest = product([dim for dim in dims if dim != -1])
        dims = [x.type.size // rest if dim == -1 else dim for dim in dims]
    difference = (x.type.size - product(dims)).constant
    if difference is None:
        return x.of(b.dynamic_reshape(x.value, shape=shape_attr(dims)))
    return x.reshape(dims)


def expand(b: GraphBuilder, x: Term, size: Sequence[ExprLike], implicit: bool = False) -> Term:
    """Dims of 1 repeated; -1 keeps a dim."""
    lead = len(size) - len(x.shape)
    own = [Expr.of(1)] * lead + list(x.shape)
    dims = [old if Expr.of(new) == -1 else Expr.of(new) for old, new in zip(own, size, strict=True)]
    return x.expand(dims)


def permute(b: GraphBuilder, x: Term, dims: Sequence[int]) -> Term:
    """The axes in another order."""
    return x.transpose([axis_of(x, dim) for dim in dims])


def swap(b: GraphBuilder, x: Term, dim0: int, dim1: int) -> Term:
    """Two axes exchanged."""
    order = list(range(len(x.shape)))
    if order:
        first, second = axis_of(x, dim0), axis_of(x, dim1)
        order[first], order[second] = second, first
    return x.transpose(order)


def transposed(b: GraphBuilder, x: Term) -> Term:
    """A matrix with rows and columns exchanged; vectors stay."""
    return x.transpose(list(range(len(x.shape)))[::-1])


def unsqueeze(b: GraphBuilder, x: Term, dim: int) -> Term:
    """With a further dim of 1."""
    return x.insert(dim % (len(x.shape) + 1))


def squeeze(b: GraphBuilder, x: Term, dim: int | Sequence[int] | None = None) -> Term:
    """Without dims of 1, all or those of these axes."""
    axes = axes_of(x, dim) if dim is not None and dim != [] else []
    axes = list(range(len(x.shape))) if dim is None else axes
    return x.reshape([d for axis, d in enumerate(x.shape) if axis not in axes or d != 1])


def start_and_size(
    dim: Expr, start: ExprLike | None, end: ExprLike | None, step: int
) -> tuple[Expr, Expr]:
    """The first index and the number of elements of Python's slice of an axis."""
    low = _bounded(dim, 0 if start is None else start)
    high = dim if end is None or Expr.of(end) == _END else _bounded(dim, end)
    length = (high - low).ceildiv(step) if step != 1 else high - low
    least, _ = length.range({})
    return low, length if least is not None and least >= 0 else maximum([Expr.of(0), length])


def _bounded(dim: Expr, index: ExprLike) -> Expr:
    """An index as Python's slices take it, from 0 to the size."""
    index = Expr.of(index)
    _, high = index.range({})
    if high is not None and high < 0:
        index = index + dim
    least, _ = index.range({})
    if least is None or least < 0:
        index = maximum([Expr.of(0), index])
    room, _ = (dim - index).range({})
    return index if room is not None and room >= 0 else minimum([index, dim])


def slice_axis(
    b: GraphBuilder,
    x: Term,
    dim: int = 0,
    start: ExprLike | None = None,
    end: ExprLike | None = None,
    step: ExprLike = 1,
) -> Term:
    """Python's slice of an axis."""
    axis, stride = axis_of(x, dim), Expr.of(step).constant
    if stride is None:
        raise UnsupportedError(f"requires a constant step, got {step}")
    first, size = start_and_size(x.shape[axis], start, end, stride)
    return strided(x, axis, first, size, stride)


def strided(x: Term, axis: int, start: ExprLike, size: ExprLike, step: ExprLike) -> Term:
    """`size` elements of an axis from a start, with a step."""
    number = Expr.of(step).constant
    if number is None:
        places = counted(x.b, size) * size_term(x.b, step, I64) + size_term(x.b, start, I64)
        return x.take(places, axis)
    if number == 1:
        return x.part(axis, start, size)
    starts, sizes, steps = [Expr.of(0)] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis], sizes[axis], steps[axis] = Expr.of(start), Expr.of(size), number
    return x.of(x.b.slice(x.value, starts=shape_attr(starts), sizes=shape_attr(sizes), steps=steps))


def position(dim: Expr, index: ExprLike) -> Expr:
    """An index of an axis counted from the front."""
    index = Expr.of(index)
    _, high = index.range({})
    return index + dim if high is not None and high < 0 else index


def select(b: GraphBuilder, x: Term, dim: int, index: ExprLike) -> Term:
    """The elements at one index of an axis."""
    axis = axis_of(x, dim)
    part = x.part(axis, position(x.shape[axis], index), 1)
    return part.reshape([*x.shape[:axis], *x.shape[axis + 1 :]])


def inserted(x: Term, updates: Term, axis: int, start: ExprLike, step: ExprLike = 1) -> Term:
    """A tensor with other elements at `start`, `start + step`, ... of an axis."""
    number = Expr.of(step).constant
    updates = updates.cast(x.type.element)
    if number is None:
        return _inserted_by_mask(x, updates, axis, start, step)
    starts, steps = [Expr.of(0)] * len(x.shape), [1] * len(x.shape)
    starts[axis], steps[axis] = Expr.of(start), number
    return x.of(x.b.insert_slice(x.value, updates.value, starts=shape_attr(starts), steps=steps))


def _inserted_by_mask(x: Term, updates: Term, axis: int, start: ExprLike, step: ExprLike) -> Term:
    """The same with a step that varies."""
    count, pace = updates.shape[axis], size_term(x.b, step, I64)
    behind = counted(x.b, x.shape[axis]) - size_term(x.b, start, I64)
    number = (behind / pace).minimum(size_term(x.b, count, I64)).maximum(0)
    held = (behind >= 0) & behind.modulo(pace).equals(0) & (number < size_term(x.b, count, I64))
    rest = [Expr.of(1) if at == axis else dim for at, dim in enumerate(x.shape)]
    spare = joined([updates, updates.number(0).expand(rest)], axis)
    trailing = [1] * (len(x.shape) - axis - 1)
    return held.reshape([x.shape[axis], *trailing]).where(spare.take(number, axis), x)


def select_scatter(b: GraphBuilder, x: Term, src: Term, dim: int, index: ExprLike) -> Term:
    """A tensor with other elements at one index of an axis."""
    axis = axis_of(x, dim)
    return inserted(x, src.insert(axis), axis, position(x.shape[axis], index))


def slice_scatter(
    b: GraphBuilder,
    x: Term,
    src: Term,
    dim: int = 0,
    start: ExprLike | None = None,
    end: ExprLike | None = None,
    step: int = 1,
) -> Term:
    """A tensor with other elements in a slice of an axis."""
    axis = axis_of(x, dim)
    first, size = start_and_size(x.shape[axis], start, end, step)
    dims = [size if at == axis else each for at, each in enumerate(x.shape)]
    return inserted(x, src.expand(dims), axis, first, step)


def _diagonal_box(x: Term, offset: int, dim1: int, dim2: int) -> tuple[list[int], Expr, Expr, Expr]:
    """The order of axes that brings two to the end, and start, size and step of their diagonal."""
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    order = [axis for axis in range(len(x.shape)) if axis not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    size = maximum([0, minimum([rows - max(-offset, 0), columns - max(offset, 0)])])
    start = Expr.of(0) if size == 0 else columns * max(-offset, 0) + max(offset, 0)
    return [*order, first, second], start, size, columns + 1


def diagonal(b: GraphBuilder, x: Term, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Term:
    """The diagonal of two axes, which becomes the last axis."""
    order, start, size, step = _diagonal_box(x, offset, dim1, dim2)
    moved = x.transpose(order)
    *lead, rows, columns = moved.shape
    return strided(moved.reshape([*lead, rows * columns]), len(lead), start, size, step)


def diagonal_scatter(
    b: GraphBuilder, x: Term, src: Term, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Term:
    """A tensor with another diagonal of two axes."""
    order, start, _, step = _diagonal_box(x, offset, dim1, dim2)
    moved = x.transpose(order)
    *lead, rows, columns = moved.shape
    flat = inserted(moved.reshape([*lead, rows * columns]), src, len(lead), start, step)
    inverse = [order.index(axis) for axis in range(len(order))]
    return flat.reshape(moved.shape).transpose(inverse)


def cat(b: GraphBuilder, tensors: Sequence[Term], dim: int = 0) -> Term:
    """Tensors one after the other along an axis; empty vectors do not count."""
    element = result_element(*tensors)
    some = [x for x in tensors if x.shape != (Expr.of(0),)] or list(tensors[:1])
    return joined([x.cast(element) for x in some], axis_of(some[0], dim))


def stack(b: GraphBuilder, tensors: Sequence[Term], dim: int = 0) -> Term:
    """Tensors along a new axis."""
    axis = dim % (len(tensors[0].shape) + 1)
    return cat(b, [x.insert(axis) for x in tensors], axis)


def split_with_sizes(
    b: GraphBuilder, x: Term, split_sizes: Sequence[ExprLike], dim: int = 0
) -> list[Term]:
    """Parts of these sizes along an axis."""
    axis = axis_of(x, dim)
    parts = b.op("split", x.value, sizes=shape_attr(split_sizes), axis=axis).results
    return [x.of(part) for part in parts]


def split(b: GraphBuilder, x: Term, split_size: int, dim: int = 0) -> list[Term]:
    """Parts of one size along an axis, the last one smaller."""
    (size,) = only_static([x.shape[axis_of(x, dim)]], "a split")
    step = max(split_size, 1)
    sizes = [min(step, size - start) for start in range(0, size, step)] or [0]
    return split_with_sizes(b, x, sizes, dim)


def unbind(b: GraphBuilder, x: Term, dim: int = 0) -> list[Term]:
    """The elements at each index of an axis."""
    (size,) = only_static([x.shape[axis_of(x, dim)]], "unbind")
    return [select(b, x, dim, index) for index in range(size)]


def flip(b: GraphBuilder, x: Term, dims: Sequence[int]) -> Term:
    """The elements in the opposite order along axes."""
    for axis in axes_of(x, dims) if dims else []:
        x = x.flip(axis)
    return x


def roll(
    b: GraphBuilder, x: Term, shifts: ExprLike | Sequence[int], dims: int | Sequence[int] = ()
) -> Term:
    """The elements moved along axes, those that leave coming in at the other end."""
    steps: list[ExprLike] = [*shifts] if isinstance(shifts, list | tuple) else [shifts]  # pyright: ignore[reportAssignmentType]
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        flat = x.reshape([x.type.size])
        return roll(b, flat, steps[0], 0).reshape(x.shape) if x.shape else x
    for shift, dim in zip(steps, axes, strict=True):
        axis = axis_of(x, dim)
        size = x.shape[axis]
        if size == 0:
            continue
        cut = (size - Expr.of(shift)) % size
        x = joined([x.part(axis, cut, size - cut), x.part(axis, 0, cut)], axis)
    return x


def repeat(b: GraphBuilder, x: Term, repeats: Sequence[ExprLike]) -> Term:
    """The tensor beside itself along each axis."""
    lead = len(repeats) - len(x.shape)
    whole = x.reshape([*[Expr.of(1)] * lead, *x.shape])
    return whole.of(b.tile(whole.value, repeats=shape_attr(repeats)))


def unfold(b: GraphBuilder, x: Term, dimension: int, size: int, step: int) -> Term:
    """Windows of an axis, whose elements become a last axis."""
    axis, y = axis_of(x, dimension), with_axis(x)
    count = (y.shape[axis] - size) // step + 1
    parts = [strided(y, axis, at, count, step).insert(len(y.shape)) for at in range(size)]
    return joined(parts, len(y.shape)) if x.shape else x.expand([size])


def view_dtype(b: GraphBuilder, x: Term, dtype: Attribute) -> Term:
    """The same bits as another type of the same size."""
    if width(dtype) != width(x.type.element):
        raise UnsupportedError(f"requires types of one size, got {x.type.element} and {dtype}")
    return x.of(b.bitcast(x.value, to=dtype))


def same(b: GraphBuilder, x: Term, *_: object, **__: object) -> Term:
    """The tensor itself: tensors of a graph never change."""
    return x


def row_major_strides(dims: Sequence[Expr]) -> list[Expr]:
    """How far apart neighbours along each axis are."""
    return [product(dims[axis + 1 :]) for axis in range(len(dims))]


def as_strided(
    b: GraphBuilder,
    x: Term,
    size: Sequence[ExprLike],
    stride: Sequence[ExprLike],
    storage_offset: ExprLike | None = None,
) -> Term:
    """A view by strides of a tensor whose elements are contiguous: a chain of slices."""
    dims, steps = ([Expr.of(each) for each in given] for given in (size, stride))
    if dims == list(x.shape) and steps == row_major_strides(dims) and not storage_offset:
        return x
    order = sorted(range(len(dims)), key=lambda axis: -(steps[axis].constant or 0))
    ordered = [dims[axis] for axis in order]
    permuted = [steps[axis] for axis in order]
    if permuted == row_major_strides(ordered) and product(ordered) == x.type.size:
        inverse = [order.index(axis) for axis in range(len(order))]
        return x.reshape(ordered).transpose(inverse)
    return _strided_gather(x, dims, steps, Expr.of(storage_offset or 0))


def _strided_gather(x: Term, dims: list[Expr], steps: list[Expr], offset: Expr) -> Term:
    """The elements of the flat tensor at `offset + index . steps`."""
    last = offset + sum(
        (step * (dim - 1) for dim, step in zip(dims, steps, strict=True)), Expr.of(0)
    )
    outside = (x.type.size - 1 - last).constant
    if outside is not None and outside < 0:  # what varies is checked by the gather
        raise ModelError(f"as_strided requires elements of {x.type}, got strides that leave it")
    at: Term | None = None
    for axis, (dim, step) in enumerate(zip(dims, steps, strict=True)):
        line = (counted(x.b, dim) * size_term(x.b, step, I64)).reshape(
            [dim if other == axis else Expr.of(1) for other in range(len(dims))]
        )
        at = line if at is None else at + line
    flat = x.reshape([x.type.size])
    if at is None:
        return flat.part(0, offset, 1).reshape([])
    return flat.take(at + size_term(x.b, offset, I64), 0)


TABLE: Final[AtenTable] = {
    **entry(view, "view_copy.default", "view.default", "_unsafe_view.default", "reshape.default"),
    **entry(expand, "expand.default"),
    **entry(permute, "permute.default", "permute_copy.default"),
    **entry(swap, "transpose.int"),
    **entry(transposed, "t.default", "numpy_T.default"),
    **entry(unsqueeze, "unsqueeze.default"),
    **entry(squeeze, "squeeze.default", "squeeze.dim", "squeeze.dims"),
    **entry(slice_axis, "slice.Tensor"),
    **entry(select, "select.int"),
    **entry(select_scatter, "select_scatter.default"),
    **entry(slice_scatter, "slice_scatter.default"),
    **entry(diagonal, "diagonal.default"),
    **entry(diagonal_scatter, "diagonal_scatter.default"),
    **entry(cat, "cat.default"),
    **entry(stack, "stack.default"),
    **entry(split_with_sizes, "split_with_sizes.default"),
    **entry(split, "split.Tensor"),
    **entry(unbind, "unbind.int", "unbind_copy.int"),
    **entry(flip, "flip.default"),
    **entry(roll, "roll.default"),
    **entry(repeat, "repeat.default"),
    **entry(unfold, "unfold.default"),
    **entry(view_dtype, "view.dtype"),
    **entry(as_strided, "as_strided.default", "as_strided_copy.default"),
    **entry(
        same,
        "alias.default", "clone.default", "detach.default", "lift_fresh_copy.default",
        "contiguous.default", "lift_fresh.default", "positive.default", "conj.default",
        "_conj.default", "resolve_conj.default", "resolve_neg.default", "real.default",
    ),
}  # fmt: skip
