"""ATen's operators that few programs need: searches, running extrema, middle elements, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from xdsl.ir import Attribute

from weft.compiler.frontend.torch.operands import (
    AtenTable,
    Operand,
    axes_of,
    axis_of,
    broadcast_shape,
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
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BOOL, F64, FLOATS, I64, UI64
from weft.dialects.graph.regions.effects import AssertOp


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


def masked_scatter(b: GraphBuilder, x: Term, mask: Term, source: Term) -> Term:
    """Where a mask holds, the next element of a source."""
    dims = broadcast_shape(x.shape, mask.shape)
    x, held = x.expand(dims), mask.expand(dims)
    flat = held.reshape([x.type.size]).cast(I64)
    counts = flat.of(b.cumsum(flat.value, axis=0, exclusive=True, reverse=False))
    values = source.reshape([source.type.size])
    last = term(b, source.type.size - 1, I64) if source.type.size.constant is None else None
    limit = last if last is not None else counts.number((source.type.size.constant or 1) - 1)
    picked = values.take(counts.minimum(limit), 0).reshape(x.shape)
    return held.where(picked, x)


def masked_scatter_backward(b: GraphBuilder, dy: Term, mask: Term, sizes: list[ExprLike]) -> Term:
    """The cotangents of the source's elements that were taken, in front."""
    held = mask.expand(dy.shape).reshape([dy.type.size])
    count = product([Expr.of(each) for each in sizes])
    numbers = held.cast(I64)
    places = numbers.of(b.cumsum(numbers.value, axis=0, exclusive=True, reverse=False))
    size = term(b, count if count.constant is None else count.constant, I64)
    places = held.where(places, size).minimum(size)
    zeros = dy.number(0).expand([count + 1])
    values = dy.reshape([dy.type.size])
    found = indexing.index_put(b, zeros, [places], held.where(values, 0.0), True)
    return found.part(0, 0, count).reshape(sizes)


def nonzero_static(b: GraphBuilder, x: Term, size: int, fill_value: int = -1) -> Term:
    """The indices of so many elements that are not zero, as many as there are in front."""
    dims = only_static(x.shape, "nonzero_static")
    held = x.cast(BOOL).reshape([x.type.size])
    numbers = held.cast(I64)
    places = numbers.of(b.cumsum(numbers.value, axis=0, exclusive=True, reverse=False))
    places = held.where(places, size).minimum(size)
    columns: list[Term] = []
    flat = counted(b, x.type.size)
    step = math.prod(dims)
    for dim in dims:
        step //= max(dim, 1)
        index = (flat / max(step, 1)).modulo(max(dim, 1))
        start = index.number(fill_value).expand([size + 1])
        found = indexing.index_put(b, start, [places], index)
        columns.append(found.part(0, 0, size).insert(1))
    if not columns:
        return Term(b, b.constant_of(0, I64)).expand([size, 0])
    return joined(columns, 1)


def triangle_indices(
    upper: bool,
    b: GraphBuilder,
    row: int,
    col: int,
    offset: int = 0,
    dtype: Attribute | None = None,
) -> Term:
    """The rows and the columns of the elements of a triangle."""
    function = np.triu_indices if upper else np.tril_indices
    found = np.stack(function(row, offset, col)) if row and col else np.zeros((2, 0))
    return Term(b, b.constant_of(found.astype(np.int64), dtype or I64))


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
    """The greatest elements of nearly equal parts of each spatial axis, and where they are."""
    parts, sizes = [Expr.of(each) for each in output_size], x.shape[-rank:]
    pairs = [(size.constant, part.constant) for size, part in zip(sizes, parts, strict=True)]
    kernel = [size // part for size, part in pairs if size and part and size % part == 0]
    if len(kernel) == rank:
        return pooling.max_pool(rank, b, x, kernel)
    lead = len(x.shape) - rank
    flat = x.reshape([*x.shape[:lead], product(sizes)])
    tables = [_part_positions(b, size, part) for size, part in zip(sizes, parts, strict=True)]
    positions = tables[0]
    for size, table in zip(sizes[1:], tables[1:], strict=True):
        *before, taps = positions.shape
        own, more = table.shape
        row = positions.reshape([*before, Expr.of(1), taps, Expr.of(1)]) * size_term(b, size, I64)
        whole = row + table.reshape([own, Expr.of(1), more])
        positions = whole.reshape([*before, own, taps * more])
    taps = positions.shape[-1]
    table = positions.reshape([positions.type.size])
    windows = flat.take(table, lead).reshape([*x.shape[:lead], *parts, taps])
    best = windows.of(
        b.arg_max(windows.value, axis=lead + rank, keepdims=False, select_last_index=False)
    )
    rows = counted(b, product(parts)).reshape(parts) * size_term(b, taps, I64)
    indices = table.take(rows + best, 0)
    shape = [*x.shape[:lead], product(indices.shape[lead:])]
    values = b.gather_elements(flat.value, indices.reshape(shape).value, axis=lead)
    return flat.of(values).reshape(indices.shape), indices


def _part_positions(b: GraphBuilder, size: Expr, parts: Expr) -> Term:
    """The positions `[parts, taps]` of nearly equal parts of an axis, the last one repeated."""
    whole, count = size_term(b, size, I64), size_term(b, parts, I64)
    part = counted(b, parts).insert(1)
    first, last = part * whole / count, ((part + 1) * whole + count - 1) / count
    taps = Expr.of(1) if parts == 0 else size.ceildiv(parts) + 1
    return (first + counted(b, taps).insert(0)).minimum(last - 1)


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
    at = size_term(b, storage_offset or 0, I64)
    for axis, step in enumerate(stride):
        dims = [Expr.of(1)] * len(size)
        dims[axis] = Expr.of(size[axis])
        at = at + (counted(b, size[axis]) * size_term(b, step, I64)).reshape(dims)
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


def hash_tensor(
    b: GraphBuilder, x: Term, dim: int | Sequence[int] = (), keepdim: bool = False, mode: int = 0
) -> Term:
    """The bits of elements in 64 bits, along axes, of which each is set that an odd number have."""
    if mode != 0:
        raise UnsupportedError(f"hash_tensor requires mode 0, got {mode}")
    wide = F64 if x.type.element in FLOATS else I64
    bits = x.of(b.bitcast(x.cast(wide).value, to=UI64))
    for axis in axes_of(x, dim):
        (length,) = only_static([bits.shape[axis]], "hash_tensor")
        while length > 1:
            half = length // 2
            first, second = bits.part(axis, 0, half), bits.part(axis, half, half)
            found = x.of(b.bitwise_xor(first.value, second.value))
            rest = [bits.part(axis, length - 1, 1)] if length % 2 else []
            bits, length = joined([found, *rest], axis), half + length % 2
    if keepdim:
        return bits
    gone = axes_of(x, dim)
    return bits.reshape([size for axis, size in enumerate(bits.shape) if axis not in gone])


def assert_(b: GraphBuilder, x: Term, message: str) -> Term:
    """One value, which has to be other than zero: otherwise the call is an error."""
    held = x.reshape([]).cast(BOOL)
    text = message.replace("{", "(").replace("}", ")")  # braces would be values to show
    b.builder.insert(AssertOp.of(held.value, text, location=b.location))
    return held


TABLE: Final[AtenTable] = {
    **entry(hash_tensor, "hash_tensor.default"),
    **entry(assert_, "_assert_async.msg"),
    **entry(addmv, "addmv.default"),
    **entry(addbmm, "addbmm.default"),
    **entry(hypot, "hypot.default"),
    **entry(dist, "dist.default"),
    **entry(ldexp, "ldexp.Tensor"),
    **entry(partial(running_extremum, "max"), "cummax.default"),
    **entry(partial(running_extremum, "min"), "cummin.default"),
    **entry(masked_scatter, "masked_scatter.default"),
    **entry(put, "put.default"),
    **entry(index_reduce, "index_reduce.default"),
    **entry(partial(adaptive_max, 2), "adaptive_max_pool2d.default"),
    **entry(partial(adaptive_max, 3), "adaptive_max_pool3d.default"),
    **entry(partial(adaptive_max_backward, 2), "adaptive_max_pool2d_backward.default"),
    **entry(partial(adaptive_max_backward, 3), "adaptive_max_pool3d_backward.default"),
    **entry(as_strided_scatter, "as_strided_scatter.default"),
    **entry(zero_tensor, "_efficientzerotensor.default"),
    **entry(trilinear, "_trilinear.default"),
    **entry(masked_scatter_backward, "masked_scatter_backward.default"),
    **entry(nonzero_static, "nonzero_static.default"),
    **entry(partial(triangle_indices, True), "triu_indices.default"),
    **entry(partial(triangle_indices, False), "tril_indices.default"),
}
