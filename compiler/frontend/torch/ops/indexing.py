"""ATen's operators that read and write elements at indices in other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Operand,
    axis_of,
    broadcast_shape,
    entry,
    term,
    with_axis,
)
from weft.compiler.frontend.torch.ops.elementwise import div
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike
from weft.dialects.graph.core.algebra import Term, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import BOOL, FLOATS, I64, UI8


def gather(b: GraphBuilder, x: Term, dim: int, index: Term, sparse_grad: bool = False) -> Term:
    """`x[i, index[i, j, k], k]` for `dim` 1."""
    y, places = with_axis(x), with_axis(index).cast(I64)  # where there are none, of any type
    found = y.of(b.gather_elements(y.value, places.value, axis=axis_of(y, dim)))
    return found if index.shape else found.reshape([])


def _updates(src: Term, index: Term) -> Term:
    """As many updates as there are indices: those in front."""
    for axis, size in enumerate(index.shape):
        src = src.part(axis, 0, size)
    return src


def scatter(reduction: str, b: GraphBuilder, x: Term, dim: int, index: Term, src: Operand) -> Term:
    """A tensor in which elements along an axis are replaced by others, or combined with them."""
    y, places = with_axis(x), with_axis(index).cast(I64)
    given = term(b, src, x.type.element)
    if isinstance(src, Term) and src.shape:
        updates = _updates(with_axis(given), places)
    else:
        updates = given.expand(places.shape)
    if x.type.element == BOOL and reduction != "none":
        raise UnsupportedError("a scatter that combines requires numbers, got bools")
    found = b.scatter_elements(
        y.value, places.value, updates.value, axis=axis_of(y, dim), reduction=reduction
    )
    return y.of(found).reshape(x.shape)


_REDUCTIONS: Final = {
    "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul",
}  # fmt: skip
_STARTS: Final = {"sum": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf")}


def scatter_reduce(
    b: GraphBuilder,
    x: Term,
    dim: int,
    index: Term,
    src: Operand,
    reduce: str,
    include_self: bool = True,
) -> Term:
    """Elements along an axis combined with others, with or without those that were there."""
    if reduce == "mean":
        return _scatter_mean(b, x, dim, index, src, include_self)
    start = x
    if not include_self:
        neutral = x.number(_neutral(reduce, x.type.element))
        start = scatter("none", b, x, dim, index, neutral)
    return scatter(_REDUCTIONS[reduce], b, start, dim, index, src)


def _neutral(reduce: str, element: Attribute) -> float:
    """The number that a reduction leaves out of account."""
    if reduce in ("sum", "prod") or element in FLOATS:
        return _STARTS[reduce]
    limits = np.iinfo(numpy_dtype(element))
    return int(limits.min if reduce == "amax" else limits.max)


def _scatter_mean(
    b: GraphBuilder, x: Term, dim: int, index: Term, src: Operand, include_self: bool
) -> Term:
    total = scatter_reduce(b, x, dim, index, src, "sum", include_self)
    ones = x.number(1).expand(x.shape)
    counts = scatter_reduce(b, ones, dim, index, x.number(1), "sum", include_self)
    return div(b, total, counts.maximum(1), None if x.type.element in FLOATS else "floor")


def index_select(b: GraphBuilder, x: Term, dim: int, index: Term) -> Term:
    """Slices along an axis."""
    y = with_axis(x)
    found = y.take(with_axis(index), axis_of(y, dim))
    return found if x.shape else found.reshape([])


def embedding(
    b: GraphBuilder,
    weight: Term,
    indices: Term,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Term:
    """Rows of a table."""
    return weight.take(indices, 0)


def embedding_dense_backward(
    b: GraphBuilder,
    dy: Term,
    indices: Term,
    num_weights: ExprLike,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Term:
    """The sum of the cotangents of each row, none for the padding."""
    if scale_grad_by_freq:
        raise UnsupportedError("embedding requires gradients that are not scaled by frequency")
    width = dy.shape[-1]
    rows = dy.reshape([indices.type.size, width])
    places = indices.reshape([indices.type.size, 1]).cast(I64)
    if padding_idx >= 0:
        rows = places.equals(padding_idx).where(0, rows)
    zeros = dy.number(0).expand([Expr.of(num_weights), width])
    return dy.of(b.scatter_nd(zeros.value, places.value, rows.value, reduction="add"))


Indices = Sequence[Term | None]


def _masks_refused(x: Term, indices: Indices) -> list[Term | None]:
    for index in indices:
        if index is not None and index.type.element in (BOOL, UI8):
            rule = "an index requires integers (a mask makes sizes that depend on data)"
            raise UnsupportedError(f"{rule}, got {index.type}")
    return list(indices)


def _leading(x: Term, indices: Indices) -> tuple[list[int], Term]:
    """The order of axes that brings the indexed ones to the front, and the vectors of indices."""
    places = _masks_refused(x, indices)
    indexed = [axis for axis, index in enumerate(places) if index is not None]
    given = [index.cast(I64) for index in places if index is not None]
    shape = broadcast_shape(*(index.shape for index in given))
    vectors = joined([each.expand(shape).insert(len(shape)) for each in given], len(shape))
    return [*indexed, *(axis for axis in range(len(x.shape)) if axis not in indexed)], vectors


def _adjacent(indices: Indices) -> int | None:
    """Where the result of neighbouring indices stands; in front where they are apart."""
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    return indexed[0] if indexed == list(range(indexed[0], indexed[-1] + 1)) else None


def _moved(rank: int, lead: int, at: int) -> list[int]:
    """The order that brings `lead` axes from the front behind `at` others."""
    return [*range(lead, lead + at), *range(lead), *range(lead + at, rank)]


def index(b: GraphBuilder, x: Term, indices: Indices) -> Term:
    """NumPy's advanced indexing by tensors of integers."""
    given = [each for each in indices if each is not None]
    if not given:
        return x
    if len(given) == 1 and given[0].type.element not in (BOOL, UI8):
        axis = next(at for at, each in enumerate(indices) if each is not None)
        return x.take(given[0], axis)
    order, vectors = _leading(x, indices)
    found = x.of(b.gather_nd(x.transpose(order).value, vectors.value, batch_dims=0))
    at, lead = _adjacent(indices), len(vectors.shape) - 1
    return found.transpose(_moved(len(found.shape), lead, at)) if at else found


def index_put(
    b: GraphBuilder, x: Term, indices: Indices, values: Term, accumulate: bool = False
) -> Term:
    """A tensor with other elements at indices, or with these added."""
    if len(indices) == 1 and indices[0] is not None and indices[0].type.element == BOOL:
        return _masked_put(x, indices[0], values, accumulate)
    reduction = "add" if accumulate else "none"
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    if len(indexed) == 1 and indexed[0] > 0:
        return _put_along(x, indexed[0], indices[indexed[0]], values, reduction)
    order, vectors = _leading(x, indices)
    moved = x.transpose(order)
    lead = len(vectors.shape) - 1
    rest = moved.shape[vectors.shape[-1].constant or 0 :]
    at = _adjacent(indices)
    shape = [*vectors.shape[:-1], *rest]
    values = values.cast(x.type.element)
    if at:
        back = _moved(len(shape), lead, at)
        values = values.expand([shape[axis] for axis in back])
        values = values.transpose([back.index(axis) for axis in range(len(back))])
    else:
        values = values.expand(shape)
    found = x.of(b.scatter_nd(moved.value, vectors.value, values.value, reduction=reduction))
    return found.transpose([order.index(axis) for axis in range(len(order))])


def _put_along(x: Term, axis: int, index: Term | None, values: Term, reduction: str) -> Term:
    """Slices at indices of one axis, without moving it: a tensor that is donated stays in place."""
    (places,) = _masks_refused(x, [index])
    assert places is not None, "the axis has an index"
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    updates = values.cast(x.type.element).expand([*before, *places.shape, *behind])
    shape = [*before, places.type.size, *behind]
    rows = places.cast(I64).reshape([places.type.size, *[1] * len(behind)]).expand(shape)
    found = x.b.scatter_elements(
        x.value, rows.value, updates.reshape(shape).value, axis=axis, reduction=reduction
    )
    return x.of(found)


def _masked_put(x: Term, mask: Term, values: Term, accumulate: bool) -> Term:
    """Where a mask holds, one number instead, or the next slice of several."""
    rest = len(x.shape) - len(mask.shape)
    held = mask.reshape([*mask.shape, *[1] * rest])
    updates = values.cast(x.type.element)
    if values.type.size == 1:
        updates = updates.reshape([])
    elif len(values.shape) > rest and values.shape[0] != 1:
        numbers = mask.reshape([mask.type.size]).cast(I64)
        places = numbers.of(x.b.cumsum(numbers.value, axis=0, exclusive=True, reverse=False))
        last = size_term(x.b, values.shape[0] - 1, I64)
        updates = updates.take(places.minimum(last).reshape(mask.shape), 0)
    return held.where(x + updates if accumulate else updates, x).expand(x.shape)


def index_add(
    b: GraphBuilder, x: Term, dim: int, index: Term, source: Term, alpha: float = 1
) -> Term:
    """Slices added at indices of an axis."""
    y = with_axis(x)
    axis = axis_of(y, dim)
    places: list[Term | None] = [None] * axis
    source = source if alpha == 1 else source * source.number(alpha)
    vector, updates = with_axis(index), source if x.shape else with_axis(source)
    return index_put(b, y, [*places, vector], updates, True).reshape(x.shape)


def index_copy(b: GraphBuilder, x: Term, dim: int, index: Term, source: Term) -> Term:
    """Slices replaced at indices of an axis."""
    y = with_axis(x)
    places: list[Term | None] = [None] * axis_of(y, dim)
    return index_put(b, y, [*places, with_axis(index)], with_axis(source)).reshape(x.shape)


def index_fill(b: GraphBuilder, x: Term, dim: int, index: Term, value: Operand) -> Term:
    """One number at indices of an axis."""
    y = with_axis(x)
    places: list[Term | None] = [None] * axis_of(y, dim)
    return index_put(b, y, [*places, with_axis(index)], term(b, value, x.type.element)).reshape(
        x.shape
    )


def take(b: GraphBuilder, x: Term, index: Term) -> Term:
    """Elements of the flat tensor."""
    return x.reshape([x.type.size]).take(index, 0)


TABLE: Final[AtenTable] = {
    **entry(gather, "gather.default"),
    **entry(partial(scatter, "none"), "scatter.src", "scatter.value"),
    **entry(partial(scatter, "add"), "scatter_add.default"),
    **entry(scatter_reduce, "scatter_reduce.two", "scatter.reduce", "scatter.value_reduce"),
    **entry(index_select, "index_select.default"),
    **entry(embedding, "embedding.default"),
    **entry(embedding_dense_backward, "embedding_dense_backward.default"),
    **entry(index, "index.Tensor", "_unsafe_index.Tensor"),
    **entry(index_put, "index_put.default", "_unsafe_index_put.default"),
    **entry(index_add, "index_add.default"),
    **entry(index_copy, "index_copy.default"),
    **entry(index_fill, "index_fill.int_Scalar", "index_fill.int_Tensor"),
    **entry(take, "take.default"),
}
