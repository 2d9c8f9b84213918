"""ATen's operators that few programs need: searches, running extrema, middle elements, masks."""

from __future__ import annotations

from functools import partial
from typing import Final

from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Operand,
    axis_of,
    computed,
    entry,
    only_static,
    promoted,
    term,
    with_axis,
)
from weft.compiler.frontend.torch.ops import indexing, pooling, products, reductions
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, FLOATS, I32, I64


def addmv(
    b: GraphBuilder, x: Term, mat: Term, vec: Term, beta: Operand = 1, alpha: Operand = 1
) -> Term:
    """`beta * x + alpha * mat @ vec`."""
    column = products.addmm(b, x.insert(len(x.shape)), mat, vec.insert(1), beta, alpha)
    return column.reshape([mat.shape[0]])


def addbmm(
    b: GraphBuilder, x: Term, batch1: Term, batch2: Term, beta: Operand = 1, alpha: Operand = 1
) -> Term:
    """`beta * x + alpha * sum(batch1 @ batch2)`."""
    total = batch1.matmul(batch2).sum([0])
    return computed(
        b,
        lambda p, q: p * term(b, alpha, p.type.element) + q * term(b, beta, q.type.element),
        total,
        x,
    )


def _hypot(x: Term, y: Term) -> Term:
    first, second = x.math("abs"), y.math("abs")
    high, low = first.maximum(second), first.minimum(second)
    ratio = low / high.equals(0).where(1.0, high)
    endless = high.equals(float("inf")) | low.equals(float("inf"))
    return endless.where(float("inf"), high * (ratio * ratio + 1.0).math("sqrt"))


def hypot(b: GraphBuilder, x: Term, other: Term) -> Term:
    """The root of the sum of two squares."""
    return computed(b, _hypot, x, other)


def dist(b: GraphBuilder, x: Term, other: Term, p: float = 2) -> Term:
    """The norm of a difference."""
    first, second = promoted(b, x, other)
    return reductions.vector_norm(b, first - second, p)


def ldexp(b: GraphBuilder, x: Term, other: Term) -> Term:
    """`x * 2 ** other`."""
    return computed(
        b, lambda p, q: p * p.of(b.pow(p.number(2).value, q.value)), x, other, floats=True
    )


def running_extremum(name: str, b: GraphBuilder, x: Term, dim: int) -> tuple[Term, Term]:
    """The greatest or least element up to each along an axis, and where the last of them is."""
    y = with_axis(x)
    axis = axis_of(y, dim)
    (size,) = only_static([y.shape[axis]], "a running extremum")
    if size == 0:
        return x, x.cast(I64)
    if size > LONGEST or y.type.element == BOOL:
        raise UnsupportedError(f"requires at most {LONGEST} numbers along an axis, got {y.type}")
    moved = y.transpose([*(a for a in range(len(y.shape)) if a != axis), axis])
    rows = counted(b, size).insert(1)
    columns = counted(b, size).insert(0)
    before = columns <= rows
    lines = moved.insert(len(moved.shape) - 1)
    target = [*moved.shape[:-1], Expr.of(size), Expr.of(size)]
    own = before.where(lines, moved.part(len(moved.shape) - 1, 0, 1).insert(len(moved.shape)))
    own = own.expand(target)
    axes = len(target) - 1
    values = own.of(b.op(f"reduce_{name}", own.value, axes=[axes], keepdims=False).results[0])
    best = before & _same(lines.expand(target), values.insert(axes))
    found = best.where(columns.expand(target), -1)
    positions = found.of(b.reduce_max(found.value, axes=[axes], keepdims=False))
    order = list(range(len(y.shape) - 1))
    order.insert(axis, len(y.shape) - 1)
    return values.transpose(order).reshape(x.shape), positions.transpose(order).reshape(x.shape)


def _same(x: Term, y: Term) -> Term:
    """Whether elements are equal, or both NaN."""
    equal = x.equals(y)
    if x.type.element not in FLOATS:
        return equal
    return equal | (x.math("is_nan") & y.math("is_nan"))


LONGEST: Final = 512
"""Elements of an axis whose running extrema are taken: each costs as many steps."""


def kthvalue(
    b: GraphBuilder, x: Term, k: ExprLike, dim: int = -1, keepdim: bool = False
) -> tuple[Term, Term]:
    """The k-th least element along an axis, and where it is."""
    values, positions = reductions.topk(b, x, k, dim, largest=False)
    if not x.shape:
        return values, positions
    axis = axis_of(x, dim)
    picked = [each.part(axis, Expr.of(k) - 1, 1) for each in (values, positions)]
    if not keepdim:
        dims = [d for at, d in enumerate(x.shape) if at != axis]
        picked = [each.reshape(dims) for each in picked]
    return picked[0], picked[1]


def median(b: GraphBuilder, x: Term) -> Term:
    """The middle element, the lower of two; NaN where there is one."""
    flat = x.reshape([x.type.size])
    (size,) = only_static(flat.shape, "a median")
    if size == 0:
        raise UnsupportedError("median requires an element, got none")
    found = kthvalue(b, flat, (size + 1) // 2, 0)[0]
    if x.type.element not in FLOATS:
        return found
    greatest = flat.of(b.reduce_max(flat.value, axes=[0], keepdims=False))
    return greatest.math("is_nan").where(greatest, found)


def masked_scatter(b: GraphBuilder, x: Term, mask: Term, source: Term) -> Term:
    """Where a mask holds, the next element of a source."""
    held = mask.expand(x.shape)
    flat = held.reshape([x.type.size]).cast(I64)
    counts = flat.of(b.cumsum(flat.value, axis=0, exclusive=True, reverse=False))
    values = source.reshape([source.type.size])
    last = term(b, source.type.size - 1, I64) if source.type.size.constant is None else None
    limit = last if last is not None else counts.number((source.type.size.constant or 1) - 1)
    picked = values.take(counts.minimum(limit), 0).reshape(x.shape)
    return held.where(picked, x)


def searchsorted(
    b: GraphBuilder,
    sequence: Term,
    x: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Term | None = None,
) -> Term:
    """How many elements of sorted lines are below others: in front of which these go."""
    behind = right or side == "right"
    if sorter is not None:
        sequence = indexing.gather(b, sequence, -1, sorter)
    lines, values = promoted(b, sequence, x)
    (size,) = only_static([lines.shape[-1]], "searchsorted")
    if len(lines.shape) == 1:
        lines = lines.reshape([*[1] * len(values.shape), size])
    else:
        lines = lines.insert(len(lines.shape) - 1)
    others = values.insert(len(values.shape))
    below = lines <= others if behind else lines < others
    if others.type.element in FLOATS:  # NaN is behind all others
        last = others.math("is_nan")
        below = below | (last if behind else last & lines.math("is_nan").math("logical_not"))
    total = below.cast(I64).sum([len(below.shape) - 1])
    return total.cast(I32) if out_int32 else total


def bucketize(
    b: GraphBuilder, x: Operand, boundaries: Term, out_int32: bool = False, right: bool = False
) -> Term:
    """Between which boundaries elements are."""
    return searchsorted(b, boundaries, x, out_int32, right)


def histc(b: GraphBuilder, x: Term, bins: int = 100, min: float = 0, max: float = 0) -> Term:
    """How many elements are in each of equal parts between two numbers."""
    if min == max:
        raise UnsupportedError("histc requires two numbers, got a range that depends on data")
    element = x.type.element if x.type.element in FLOATS else None
    flat = computed(b, lambda y: y, x.reshape([x.type.size]), floats=True)
    low, high = float(min), float(max)
    part = ((flat - low) * float(bins) / (high - low)).math("floor").minimum(float(bins - 1))
    inside = (flat >= low) & (flat <= high)
    numbers = counted(b, bins).insert(1).cast(flat.type.element)
    hits = numbers.equals(part.insert(0)) & inside.insert(0)
    return hits.cast(element or x.type.element).sum([1])


def put(b: GraphBuilder, x: Term, index: Term, source: Term, accumulate: bool = False) -> Term:
    """Elements of the flat tensor replaced by others, or with these added."""
    flat = x.reshape([x.type.size])
    places = index.reshape([index.type.size])
    updates = source.reshape([source.type.size])
    return indexing.index_put(b, flat, [places], updates, accumulate).reshape(x.shape)


def index_reduce(
    b: GraphBuilder,
    x: Term,
    dim: int,
    index: Term,
    source: Term,
    reduce: str,
    include_self: bool = True,
) -> Term:
    """Slices combined with others at indices of an axis."""
    y, updates = with_axis(x), source if x.shape else with_axis(source)
    axis = axis_of(y, dim)
    vector = with_axis(index)
    places = vector.reshape([d if at == axis else 1 for at, d in enumerate(updates.shape)])
    name = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}[reduce]
    found = indexing.scatter_reduce(
        b, y, axis, places.expand(updates.shape), updates, name, include_self
    )
    return found.reshape(x.shape)


def adaptive_max(
    rank: int, b: GraphBuilder, x: Term, output_size: list[ExprLike]
) -> tuple[Term, Term]:
    """The greatest elements of equal parts of each spatial axis, and where they are."""
    parts = only_static([Expr.of(each) for each in output_size], "adaptive pooling")
    sizes = only_static(x.shape[-rank:], "adaptive pooling")
    pairs = list(zip(sizes, parts, strict=True))
    if any(part == 0 or size % part for size, part in pairs):
        raise UnsupportedError(f"adaptive pooling requires equal parts, got {parts} of {sizes}")
    return pooling.max_pool(rank, b, x, [size // part for size, part in pairs])


def adaptive_max_backward(rank: int, b: GraphBuilder, dy: Term, x: Term, indices: Term) -> Term:
    """The cotangents at the positions that were the greatest."""
    return pooling.max_pool_backward(rank, b, dy, x, indices)


def as_strided_scatter(
    b: GraphBuilder,
    x: Term,
    src: Term,
    size: list[ExprLike],
    stride: list[ExprLike],
    storage_offset: ExprLike | None = None,
) -> Term:
    """A contiguous tensor with other elements in a view by strides."""
    steps = only_static([Expr.of(each) for each in stride], "as_strided")
    (start,) = only_static([Expr.of(storage_offset or 0)], "as_strided")
    at = term(b, start, I64)
    for axis, step in enumerate(steps):
        dims = [Expr.of(1)] * len(size)
        dims[axis] = Expr.of(size[axis])
        at = at + (counted(b, size[axis]) * step).reshape(dims)
    count = product([Expr.of(each) for each in size])
    flat, rows = x.reshape([x.type.size]), at.reshape([count])
    found = indexing.index_put(b, flat, [rows], src.cast(x.type.element).reshape([count]))
    return found.reshape(x.shape)


def zero_tensor(b: GraphBuilder, size: list[ExprLike], dtype: Attribute | None = None) -> Term:
    """Zeros that torch does not store."""
    from_size = [Expr.of(each) for each in size]
    return Term(b, b.constant_of(0, dtype or FLOATS[0])).expand(from_size)


def trilinear(
    b: GraphBuilder,
    i1: Term,
    i2: Term,
    i3: Term,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Term:
    """The product of three tensors, summed over axes."""
    terms = [i1, i2, i3]
    for at, axes in enumerate((expand1, expand2, expand3)):
        terms[at] = terms[at].insert(*sorted(axes)) if axes else terms[at]
    return (terms[0] * terms[1] * terms[2]).sum(sorted(sumdim))


TABLE: Final[AtenTable] = {
    **entry(addmv, "addmv.default"),
    **entry(addbmm, "addbmm.default"),
    **entry(hypot, "hypot.default"),
    **entry(dist, "dist.default"),
    **entry(ldexp, "ldexp.Tensor"),
    **entry(partial(running_extremum, "max"), "cummax.default"),
    **entry(partial(running_extremum, "min"), "cummin.default"),
    **entry(kthvalue, "kthvalue.default"),
    **entry(median, "median.default"),
    **entry(masked_scatter, "masked_scatter.default"),
    **entry(searchsorted, "searchsorted.Tensor", "searchsorted.Scalar"),
    **entry(bucketize, "bucketize.Tensor", "bucketize.Scalar"),
    **entry(histc, "histc.default"),
    **entry(put, "put.default"),
    **entry(index_reduce, "index_reduce.default"),
    **entry(partial(adaptive_max, 2), "adaptive_max_pool2d.default"),
    **entry(partial(adaptive_max, 3), "adaptive_max_pool3d.default"),
    **entry(partial(adaptive_max_backward, 2), "adaptive_max_pool2d_backward.default"),
    **entry(partial(adaptive_max_backward, 3), "adaptive_max_pool3d_backward.default"),
    **entry(as_strided_scatter, "as_strided_scatter.default"),
    **entry(zero_tensor, "_efficientzerotensor.default"),
    **entry(trilinear, "_trilinear.default"),
}
