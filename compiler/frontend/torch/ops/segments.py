"""ATen's reductions over segments of an axis, bags of rows among them."""

from __future__ import annotations

from typing import Final

from weft.compiler.frontend.torch.operands import AtenTable, axis_of, entry
from weft.compiler.frontend.torch.ops import indexing
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F16, F32, I64

_STARTS: Final = {
    "sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf"),
}  # fmt: skip
_COMBINED: Final = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


def _numbers(b: GraphBuilder, ends: Term, size: Expr) -> Term:
    """The segment of each element of an axis, by where segments end: one more than there are for
    what is behind all of them.
    """
    places = counted(b, size).insert(1)
    behind = ends.insert(len(ends.shape) - 1) <= places
    return behind.cast(I64).sum([len(behind.shape) - 1])


def _ends(lengths: Term | None, offsets: Term | None, axis: int) -> Term:
    if offsets is not None:
        return offsets.cast(I64).part(axis, 1, offsets.shape[axis] - 1)
    if lengths is None:
        raise UnsupportedError("segment_reduce requires lengths or offsets")
    y = lengths.cast(I64)
    return y.of(y.b.cumsum(y.value, axis=axis, exclusive=False, reverse=False))


def _spread(numbers: Term, data: Term) -> Term:
    """The segments of an axis for all elements beside it."""
    rest = len(data.shape) - len(numbers.shape)
    return numbers.reshape([*numbers.shape, *[1] * rest]).expand(data.shape)


def _into(data: Term, numbers: Term, axis: int, count: Expr, start: float, reduction: str) -> Term:
    """Elements combined into their segments; what is behind all of them is left out."""
    dims = [count + 1 if at == axis else dim for at, dim in enumerate(data.shape)]
    into = data.number(start).expand(dims)
    found = data.of(
        data.b.scatter_elements(
            into.value, numbers.value, data.value, axis=axis, reduction=reduction
        )
    )
    return found.part(axis, 0, count)


def segment_reduce(
    b: GraphBuilder,
    data: Term,
    reduce: str,
    lengths: Term | None = None,
    indices: Term | None = None,
    offsets: Term | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Term:
    """The segments of an axis, each reduced to one element."""
    axis = axis_of(data, axis)
    ends = _ends(lengths, offsets, axis)
    numbers = _spread(_numbers(b, ends, data.shape[axis]), data)
    start = _STARTS[reduce] if initial is None else float(initial)
    count = ends.shape[axis]
    found = _into(data, numbers, axis, count, start, _COMBINED[reduce])
    if reduce != "mean":
        return found
    sizes = _into(data * 0.0 + 1.0, numbers, axis, count, 0.0, "add")
    empty = sizes.equals(0)
    mean = found / empty.where(1.0, sizes)
    return empty.where(float("nan") if initial is None else float(initial), mean)


def segment_reduce_backward(
    b: GraphBuilder,
    dy: Term,
    output: Term,
    data: Term,
    reduce: str,
    lengths: Term | None = None,
    offsets: Term | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Term:
    """The cotangents of the elements; greatest ones that are equal share theirs."""
    axis = axis_of(data, axis)
    ends = _ends(lengths, offsets, axis)
    numbers = _spread(_numbers(b, ends, data.shape[axis]), data)
    count = ends.shape[axis]
    last = size_term(b, count - 1, I64)
    outside = numbers >= size_term(b, count, I64)
    inner = numbers.minimum(last)

    def back(x: Term) -> Term:
        return x.of(b.gather_elements(x.value, inner.value, axis=axis))

    found = back(dy)
    if reduce == "mean":
        sizes = _into(data * 0.0 + 1.0, numbers, axis, count, 0.0, "add")
        found = found / back(sizes.maximum(1.0))
    elif reduce in ("max", "min"):
        held = data.equals(back(output)) | (data.math("is_nan") & back(output).math("is_nan"))
        ones = held.cast(data.type.element)
        shares = _into(ones, numbers, axis, count, 0.0, "add")
        found = held.where(found / back(shares.maximum(1.0)), 0.0)
    elif reduce == "prod":
        zero = data.equals(0)
        start = 1.0 if initial is None else float(initial)
        others = _into(zero.where(1.0, data), numbers, axis, count, start, "mul")
        zeros = _into(zero.cast(data.type.element), numbers, axis, count, 0.0, "add")
        beside = back(zeros) - zero.cast(data.type.element)
        rest = back(others) / zero.where(1.0, data)
        found = (beside > 0).where(0.0, found * rest)
    return outside.where(0.0, found)


# Bags of rows ---------------------------------------------------------------------------------

SUM, MEAN, MAX = range(3)


def embedding_bag(
    b: GraphBuilder,
    weight: Term,
    indices: Term,
    offsets: Term,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Term | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Term, Term, Term, Term]:
    """The sum, mean or greatest elements of the rows of each bag; the bag of each row, how many
    rows a bag has, and which row has the greatest.
    """
    count = offsets.shape[0] - (1 if include_last_offset else 0)
    bags = _bags(b, indices, offsets, count)
    held = indices.equals(padding_idx).math("logical_not")
    column = held.insert(1)
    rows = weight.take(indices, 0)
    ones = held.cast(offsets.type.element)
    spare = ones.number(0).expand([count])
    sizes = indexing.index_add(b, spare, 0, bags, ones)
    if mode == MAX:
        found, places = _greatest(b, rows, indices, bags, count, column, sizes)
        return found, bags.cast(offsets.type.element), sizes, places
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.insert(1)
    zeros = rows.number(0).expand([count, rows.shape[1]])
    found = indexing.index_add(b, zeros, 0, bags, column.where(rows, 0.0))
    if mode == MEAN:
        found = found / sizes.maximum(1).cast(found.type.element).insert(1)
    plain = mode == SUM and padding_idx < 0 and weight.type.element in (F16, F32)
    of_rows = bags.cast(offsets.type.element)
    return found, of_rows.part(0, 0, 0) if plain else of_rows, sizes, sizes


def _bags(b: GraphBuilder, indices: Term, offsets: Term, count: Expr) -> Term:
    """The bag of each row."""
    starts = offsets.cast(I64).part(0, 0, count)
    places = counted(b, indices.shape[0]).insert(1)
    return (starts.insert(0) <= places).cast(I64).sum([1]) - 1


def _greatest(
    b: GraphBuilder,
    rows: Term,
    indices: Term,
    bags: Term,
    count: Expr,
    held: Term,
    sizes: Term,
) -> tuple[Term, Term]:
    width = rows.shape[1]
    numbers = bags.insert(1).expand(rows.shape)
    lowest = rows.number(float("-inf")).expand([count, width])
    counts = held.where(rows, float("-inf"))
    best = rows.of(
        b.scatter_elements(lowest.value, numbers.value, counts.value, axis=0, reduction="max")
    )
    mine = rows.equals(rows.of(b.gather_elements(best.value, numbers.value, axis=0))) & held
    own = indices.cast(I64).insert(1).expand(rows.shape)
    size = size_term(b, indices.shape[0], I64)
    order = mine.where(counted(b, indices.shape[0]).insert(1).expand(rows.shape), size)
    first = order.of(
        b.scatter_elements(
            size.expand([count, width]).value, numbers.value, order.value, axis=0, reduction="min"
        )
    )
    place = own.of(b.gather_elements(own.value, first.minimum(size - 1).value, axis=0))
    empty = sizes.equals(0).insert(1)
    return empty.where(0.0, best), empty.where(-1, place).cast(sizes.type.element)


def embedding_bag_backward(
    b: GraphBuilder,
    dy: Term,
    indices: Term,
    offsets: Term,
    offset2bag: Term,
    bag_size: Term,
    maximum_indices: Term,
    num_weights: ExprLike,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Term | None,
    padding_idx: int = -1,
) -> Term:
    """The cotangents of the table."""
    if scale_grad_by_freq or sparse:
        raise UnsupportedError("embedding_bag requires dense gradients that are not scaled")
    width = dy.shape[1]
    zeros = dy.number(0).expand([Expr.of(num_weights), width])
    if mode == MAX:
        places = maximum_indices.cast(I64)
        empty = places < 0
        return dy.of(
            b.scatter_elements(
                zeros.value,
                places.maximum(0).value,
                empty.where(0.0, dy).value,
                axis=0,
                reduction="add",
            )
        )
    bags = _bags(b, indices, offsets, bag_size.shape[0])
    if mode == MEAN:
        dy = dy / bag_size.maximum(1).cast(dy.type.element).insert(1)
    rows = dy.take(bags, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.insert(1)
    rows = indices.equals(padding_idx).insert(1).where(0.0, rows)
    return indexing.index_add(b, zeros, 0, indices, rows)


def sample_weights_backward(
    b: GraphBuilder,
    dy: Term,
    weight: Term,
    indices: Term,
    offsets: Term,
    offset2bag: Term,
    mode: int,
    padding_idx: int = -1,
) -> Term:
    """The cotangents of the weights of rows."""
    bags = _bags(b, indices, offsets, dy.shape[0])
    found = (dy.take(bags, 0) * weight.take(indices, 0)).sum([1])
    return indices.equals(padding_idx).where(0.0, found)


TABLE: Final[AtenTable] = {
    **entry(segment_reduce, "segment_reduce.default"),
    **entry(segment_reduce_backward, "_segment_reduce_backward.default"),
    **entry(embedding_bag, "_embedding_bag.default", "_embedding_bag_forward_only.default"),
    **entry(embedding_bag_backward, "_embedding_bag_backward.default"),
    **entry(sample_weights_backward, "_embedding_bag_per_sample_weights_backward.default"),
}
