"""ATen's statistics: middle and most frequent elements, searches in sorted ones, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

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
from weft.compiler.frontend.torch.ops import indexing, reductions
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr, ExprLike, product
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import FLOATS, I32, I64
from weft.dialects.graph.regions.effects import AssertOp


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
    size = x.type.size
    if size == 0:
        raise UnsupportedError("median requires an element, got none")
    found = kthvalue(b, flat, (size + 1) // 2, 0)[0]
    if x.type.element not in FLOATS:
        return found
    greatest = flat.of(b.reduce_max(flat.value, axes=[0], keepdims=False))
    return greatest.math("is_nan").where(greatest, found)


def median_along(
    ignores: bool, b: GraphBuilder, x: Term, dim: int, keepdim: bool = False
) -> tuple[Term, Term]:
    """The middle element along an axis, the lower of two, and where it is; NaN where there is one,
    or of those that are numbers.
    """
    y = with_axis(x)
    axis = axis_of(y, dim)
    values, order = reductions.sort(b, y, axis)
    size = y.shape[axis]
    if y.type.element in FLOATS:
        nans = y.math("is_nan").cast(I64).sum([axis], keepdims=True)
        total = term(b, size, I64)
        there = total - nans if ignores else nans.equals(0).where(total, total * 2)
        place = ((there - 1).maximum(0) / 2).minimum(total - 1)
    else:
        place = size_term(b, (size - 1) // 2, I64).reshape([1] * len(y.shape))
    dims = [Expr.of(1) if at == axis else each for at, each in enumerate(y.shape)]
    place = place.expand(dims)
    picked = [
        each.of(b.gather_elements(each.value, place.value, axis=axis)) for each in (values, order)
    ]
    if not x.shape:
        return picked[0].reshape([]), picked[1].reshape([])
    if not keepdim:
        dims = [each for at, each in enumerate(x.shape) if at != axis]
        picked = [each.reshape(dims) for each in picked]
    return picked[0], picked[1]


def nanmedian(b: GraphBuilder, x: Term) -> Term:
    """The middle of the elements that are numbers."""
    return median_along(True, b, x.reshape([x.type.size]), 0)[0]


def mode(b: GraphBuilder, x: Term, dim: int = -1, keepdim: bool = False) -> tuple[Term, Term]:
    """The most frequent element along an axis, the least of several, and where its last one is."""
    y = with_axis(x)
    axis = axis_of(y, dim)
    rank = len(y.shape)
    order = [*(at for at in range(rank) if at != axis), axis]
    lines = y.transpose(order)
    same = lines.insert(rank).equals(lines.insert(rank - 1))
    counts = same.cast(I64).sum([rank])
    most = counts.of(b.reduce_max(counts.value, axes=[rank - 1], keepdims=True))
    values, places = reductions.sort(b, lines, rank - 1)
    sorted_counts = counts.of(b.gather_elements(counts.value, places.value, axis=rank - 1))
    first = sorted_counts.equals(most).cast(I64)
    at = first.of(b.arg_max(first.value, axis=rank - 1, keepdims=True, select_last_index=False))
    value = values.of(b.gather_elements(values.value, at.value, axis=rank - 1))
    held = lines.equals(value).where(counted(b, lines.shape[-1]).expand(lines.shape), -1)
    last = held.of(b.reduce_max(held.value, axes=[rank - 1], keepdims=True))
    back = [order.index(each) for each in range(rank)]
    found = [each.transpose(back) for each in (value, last)]
    dims = [each for at, each in enumerate(y.shape) if at != axis]
    if not keepdim or not x.shape:
        found = [each.reshape(dims) for each in found]
    return found[0], found[1]


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
    size = lines.shape[-1]
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


def _ends(x: Term, margin: float) -> tuple[Term, Term]:
    """The least and greatest element; where they are equal, so much less and more."""
    axes = list(range(len(x.shape)))
    first = x.of(x.b.reduce_min(x.value, axes=axes, keepdims=False))
    last = x.of(x.b.reduce_max(x.value, axes=axes, keepdims=False))
    same = first.equals(last)
    return same.where(first - margin, first), same.where(last + margin, last)


def histc(b: GraphBuilder, x: Term, bins: int = 100, min: float = 0, max: float = 0) -> Term:
    """How many elements are in each of equal parts between two numbers."""
    element = x.type.element if x.type.element in FLOATS else None
    flat = computed(b, lambda y: y, x.reshape([x.type.size]), floats=True)
    low, high = flat.number(min), flat.number(max if min != max else min + 1)
    if min == max and x.type.size != 0:
        low, high = _ends(flat, 1.0)
    part = ((flat - low) * float(bins) / (high - low)).math("floor").minimum(float(bins - 1))
    inside = (flat >= low) & (flat <= high)
    numbers = counted(b, bins).insert(1).cast(flat.type.element)
    hits = numbers.equals(part.insert(0)) & inside.insert(0)
    return hits.cast(element or x.type.element).sum([1])


def _parts(b: GraphBuilder, edges: Term, x: Term) -> tuple[Term, Term]:
    """Between which edges numbers are, the last one included, and whether they are between any."""
    count = edges.shape[0] - 1
    part = searchsorted(b, edges, x, right=True) - 1
    size = size_term(b, count, I64)
    part = x.equals(edges.part(0, count, 1).reshape([])).where(size - 1, part)
    return part, (part >= 0) & (part < size)


def histogram(
    b: GraphBuilder, x: Term, bins: Term, weight: Term | None = None, density: bool = False
) -> tuple[Term, Term]:
    """The weights of elements between edges, both of the last bin's included; and the edges."""
    flat = x.reshape([x.type.size])
    count = bins.shape[0] - 1
    part, inside = _parts(b, bins, flat)
    numbers = counted(b, count).insert(1)
    hits = (numbers.equals(part.insert(0)) & inside.insert(0)).cast(x.type.element)
    found = (hits if weight is None else hits * weight.reshape([1, x.type.size])).sum([1])
    if density:
        widths = bins.part(0, 1, count) - bins.part(0, 0, count)
        found = found / (found.sum([0]) * widths)
    return found, bins


def _edges(x: Term, bins: int, range: Sequence[float]) -> Term:
    """The edges of equal parts of a range, or from the least to the greatest element."""
    first, last = range or (0.0, 1.0)
    if first == last:
        first, last = first - 0.5, last + 0.5
    low, high = x.number(first), x.number(last)
    if not range and x.type.size != 0:
        low, high = _ends(x, 0.5)
    step = (high - low) / float(bins)
    edges = counted(x.b, bins + 1, x.type.element) * step + low
    return joined([edges.part(0, 0, bins), high.reshape([1])], 0)


def histogram_of_range(
    b: GraphBuilder,
    x: Term,
    bins: int = 100,
    range: list[float] | None = None,
    weight: Term | None = None,
    density: bool = False,
) -> tuple[Term, Term]:
    """The same of equal parts of a range, by default from the least to the greatest element."""
    return histogram(b, x, _edges(x, bins, range or ()), weight, density)


def _coordinates(x: Term) -> list[Term]:
    """The coordinates of points `[..., n]`, an axis each."""
    (size,) = only_static(x.shape[-1:], "points")
    points = x.reshape([product(x.shape[:-1]), size])
    return [points.part(1, axis, 1).reshape(points.shape[:1]) for axis in range(size)]


def edges_of_points(
    b: GraphBuilder, x: Term, bins: Sequence[int], range: Sequence[float] | None = None, **_: object
) -> list[Term]:
    """The edges of equal parts of each axis of points `[..., n]`."""
    ends = range or ()
    return [
        _edges(line, count, ends[2 * axis : 2 * axis + 2])
        for axis, (line, count) in enumerate(zip(_coordinates(x), bins, strict=True))
    ]


def histogram_of_boxes(
    b: GraphBuilder,
    x: Term,
    bins: Sequence[int],
    range: Sequence[float] | None = None,
    weight: Term | None = None,
    density: bool = False,
) -> Term:
    """The weights of points in boxes between equal parts of each axis."""
    return histogram_of_points(b, x, edges_of_points(b, x, bins, range), weight, density)


def histogram_of_points(
    b: GraphBuilder,
    x: Term,
    bins: Sequence[Term],
    weight: Term | None = None,
    density: bool = False,
) -> Term:
    """The weights of points `[..., n]` in boxes between the edges of each of `n` axes."""
    counts = [edges.shape[0] - 1 for edges in bins]
    axes, lines = range(len(bins)), _coordinates(x)
    parts = [_parts(b, edges, line) for edges, line in zip(bins, lines, strict=True)]
    place, inside = parts[0]
    for count, (part, held) in zip(counts[1:], parts[1:], strict=True):
        place, inside = place * size_term(b, count, I64) + part, inside & held
    ones = x.number(1.0).expand(place.shape) if weight is None else weight
    given = inside.where(ones.reshape(place.shape), 0.0)
    into, safe = x.number(0.0).expand([product(counts)]), inside.where(place, 0)
    total = b.scatter_elements(into.value, safe.value, given.value, axis=0, reduction="add")
    found = x.of(total).reshape(counts)
    if density:
        found = found / found.sum(list(axes))
        for axis, (edges, count) in enumerate(zip(bins, counts, strict=True)):
            widths = edges.part(0, 1, count) - edges.part(0, 0, count)
            found = found / widths.insert(*(each for each in axes if each != axis))
    return found


def repeated(b: GraphBuilder, repeats: Term, output_size: ExprLike | None = None) -> Term:
    """Each position as often as a number says; all of them have to be `output_size`."""
    if output_size is None:
        raise UnsupportedError("requires the size of the result")
    ends = repeats.cast(I64)
    ends = ends.of(b.cumsum(ends.value, axis=0, exclusive=False, reverse=False))
    total = ends.part(0, ends.shape[0] - 1, 1) if ends.type.size != 0 else ends.sum([0])
    held = total.reshape([]).equals(size_term(b, Expr.of(output_size), I64))
    rule = "repeat_interleave requires repeats whose sum is the size of the result"
    b.builder.insert(AssertOp.of(held.value, rule, location=b.location))
    found = searchsorted(b, ends, counted(b, output_size), right=True)
    return found.cast(repeats.type.element)


TABLE: Final[AtenTable] = {
    **entry(kthvalue, "kthvalue.default"),
    **entry(median, "median.default"),
    **entry(searchsorted, "searchsorted.Tensor", "searchsorted.Scalar"),
    **entry(bucketize, "bucketize.Tensor", "bucketize.Scalar"),
    **entry(histc, "histc.default"),
    **entry(partial(median_along, False), "median.dim"),
    **entry(partial(median_along, True), "nanmedian.dim"),
    **entry(nanmedian, "nanmedian.default"),
    **entry(mode, "mode.default"),
    **entry(histogram, "histogram.bins_tensor"),
    **entry(histogram_of_range, "histogram.bin_ct"),
    **entry(histogram_of_points, "_histogramdd_from_bin_tensors.default"),
    **entry(histogram_of_boxes, "_histogramdd_from_bin_cts.default"),
    **entry(edges_of_points, "_histogramdd_bin_edges.default"),
    **entry(repeated, "repeat_interleave.Tensor"),
}
