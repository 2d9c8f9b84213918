"""ONNX operators that take parts of a tensor or put something around it: Slice, Split, Pad, ..."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, dims_attr, normal_axis, unique_axes
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import Atom, Expr, Symbol, maximum, minimum
from weft.dialects.extent import exact_number
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import I64, INTEGERS

_SIZE_NAME = "axis.size"
_SIZE = Expr.of(_SIZE_NAME)

UNBOUNDED = 2**31 - 1
"""Slice bounds from here on mean the end of the axis, below its negative the start."""


def import_slice(node: OnnxNode) -> Sequence[SSAValue]:
    """`x[start:end:step]` along some axes, negative bounds counted from the end, all clamped."""
    shape = node.shape()
    starts, ends = node.elements(1), node.elements(2)
    given = node.optional_numbers(3, "axes")
    axes = unique_axes(given or range(len(starts)), len(shape))
    steps = node.optional_numbers(4, "steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError(f"requires one start, end and step an axis, got {len(starts)} starts")
    first = [Expr.of(0)] * len(shape)
    sizes = list(shape)
    strides = [1] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if isinstance(start, Expr) and isinstance(end, Expr):
            bounds = _within(shape[axis], start, end, step)
        else:
            bounds = _found_range(node, shape[axis], start, end, step)
        first[axis], sizes[axis] = (bound.simplify(node.constants.ranges) for bound in bounds)
        strides[axis] = step
    if list(shape) == sizes and all(step == 1 for step in strides):
        return [node.operand(0)]
    return [
        node.b.slice(
            node.operand(0), starts=dims_attr(first), sizes=dims_attr(sizes), steps=strides
        )
    ]


def _within(dim: Expr, start: Expr, end: Expr, step: int) -> tuple[Expr, Expr]:
    """As `slice_range`, for an expression that might be below 0 but is none as a dim: `n - 2` is
    named, so that `max(n - 2, 0)` is `n - 2`.
    """
    least, _ = dim.range({})
    if least is not None and least >= 0:
        return slice_range(dim, start, end, step)

    def named(bound: Expr) -> Expr:
        distance = (bound - dim).constant
        return bound if distance is None else _SIZE + distance

    first, count = slice_range(_SIZE, named(start), named(end), step)
    back: dict[Atom, Expr] = {Symbol(_SIZE_NAME): dim}
    return first.substitute(back), count.substitute(back)


def slice_range(dim: Expr, start: Expr, end: Expr, step: int) -> tuple[Expr, Expr]:
    """The first index and the number of indices of `start:end:step` on an axis of that size.

    Unlike Python's, a backward slice that starts before the axis starts at its first element.
    """
    if step == 0:
        raise ModelError("requires steps other than 0, got 0")
    if step > 0:
        first, last = _bound(start, dim, 0, dim), _bound(end, dim, 0, dim)
        least, _ = start.range({})
        begin = start if least is not None and least >= 0 else first  # behind the axis is none too
        return first, maximum([(last - begin).ceildiv(step), 0])
    first = dim - 1 if start == -1 else _bound(start, dim, 0, dim - 1)
    count = (first - _bound(end, dim, -1, dim - 1)).ceildiv(-step)
    if first.range({})[0] == 0:  # on an empty axis, that is no element
        count = minimum([count, dim])
    return first, maximum([count, 0])


def _found_range(
    node: OnnxNode, dim: Expr, start: Expr | SSAValue, end: Expr | SSAValue, step: int
) -> tuple[Expr, Expr]:
    """As `slice_range`, of bounds that depend on data."""
    if step == 0:
        raise ModelError("requires steps other than 0, got 0")
    b, zero, size = node.b, node.b.constant_of(0, I64), node.size_scalar(dim)

    def clamp(bound: Expr | SSAValue, low: int, high: SSAValue) -> SSAValue:
        value = node.size_scalar(bound)
        value = b.where(b.less(value, zero), b.add(value, size), value)
        return b.max(b.min(value, high), b.constant_of(low, I64))

    last = size if step > 0 else b.sub(size, b.constant_of(1, I64))
    first = b.max(clamp(start, 0, last), zero)
    behind = clamp(end, 0 if step > 0 else -1, last)
    distance = b.sub(behind, first) if step > 0 else b.sub(first, behind)
    room = b.max(b.min(distance, size), zero)
    found, extent = node.find(first), node.find(room)
    return found, extent.ceildiv(abs(step))


def _bound(bound: Expr, dim: Expr, low: int, high: Expr) -> Expr:
    """A slice bound counted from the front and clamped to `low ... high`."""
    number = bound.constant
    if number is not None and number >= UNBOUNDED:
        return high
    if number is not None and number < -UNBOUNDED:
        return Expr.of(low)
    least, greatest = bound.range({})
    if least is not None and least >= 0:
        return minimum([bound, high])
    if greatest is not None and greatest < 0:
        return maximum([dim + bound, low])
    short = (dim - bound).constant
    if short is not None and 0 < short <= 2 + low:
        return maximum([bound, low])  # negative only where the axis is too short for more
    is_negative = maximum([minimum([-bound, 1]), 0])
    return minimum([maximum([bound + dim * is_negative, low]), high])


def import_split(node: OnnxNode) -> Sequence[SSAValue]:
    """Parts of given sizes, or `num_outputs` of one size but for the last, which may be smaller."""
    shape = node.shape()
    axis = normal_axis(node.integer("axis", 0), len(shape))
    if node.optional(1) is not None:
        sizes = node.dims(1, "sizes")
    else:
        count = len(node.proto.output)
        if node.integer("num_outputs", count) != count:
            raise ModelError(f"requires num_outputs that is the number of outputs, got {count}")
        sizes = _equal_parts(shape[axis], count)
    total = sum(sizes, Expr.of(0))
    if total != shape[axis]:
        raise ModelError(f"requires sizes that sum to {shape[axis]}, got {total}")
    return node.b.op("split", node.operand(0), axis=axis, sizes=dims_attr(sizes)).results


def _equal_parts(dim: Expr, count: int) -> list[Expr]:
    part = dim.ceildiv(count)
    if part * count == dim:
        return [part] * count
    if dim.constant is None:
        raise UnsupportedError(f"requires a dim that {count} divides, got {dim}")
    starts = [minimum([part * position, dim]) for position in range(count + 1)]
    return [end - start for start, end in zip(starts, starts[1:], strict=False)]


def import_pad(node: OnnxNode) -> Sequence[SSAValue]:
    """Elements before and behind each axis, by `mode`; negative numbers crop."""
    rank = len(node.shape())
    pads = node.dims(1, "pads")
    given = node.optional_numbers(3, "axes")
    axes = range(rank) if given is None else unique_axes(given, rank)
    if len(pads) != 2 * len(axes):
        raise ModelError(f"requires {2 * len(axes)} pads, got {len(pads)}")
    before, after = [Expr.of(0)] * rank, [Expr.of(0)] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    value = node.optional(2)
    if value is not None:
        value = node.reshape(value, [])
    mode = node.text("mode", "constant")
    return [node.b.pad(node.operand(0), value, pads=dims_attr([*before, *after]), mode=mode)]


def import_trilu(node: OnnxNode) -> Sequence[SSAValue]:
    """The upper or lower triangle of the last two axes, from the k-th diagonal on."""
    diagonal = node.number(1, "a diagonal", 0)
    upper = node.flag("upper", default=True)
    return [node.b.trilu(node.operand(0), upper=upper, k=diagonal)]


def import_scan(name: str, node: OnnxNode) -> Sequence[SSAValue]:
    """All elements up to each one along an axis, combined."""
    axis = node.number(1, "an axis")
    scan = node.b.op(
        name,
        node.operand(0),
        axis=normal_axis(axis, len(node.shape())),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
    )
    return scan.results


def import_one_hot(node: OnnxNode) -> Sequence[SSAValue]:
    """A new axis of `depth` elements: the on-value at the index, the off-value elsewhere."""
    depth = node.constants.dims(node.operand(1))
    if depth is None:
        numbers = node.array(1, "depth").reshape(-1).tolist()
        depth = [Expr.of(int(exact_number(number, "a depth"))) for number in numbers]
    indices = node.operand(0)
    if node.type().element not in INTEGERS:
        indices = node.cast(indices, I64)
    return [
        node.b.one_hot(
            indices, node.operand(2), depth=dims_attr(depth), axis=node.integer("axis", -1)
        )
    ]


def import_top_k(node: OnnxNode) -> Sequence[SSAValue]:
    """The first `k` elements in sorted order along an axis, and their positions."""
    shape = node.shape()
    axis = normal_axis(node.integer("axis", -1), len(shape))
    attributes: dict[str, AttributeValue] = {
        "axis": axis,
        "descending": node.flag("largest", default=True),
        "count": dims_attr(node.found_dims(1)),
    }
    positions = node.b.argsort(node.operand(0), **attributes)
    return [node.b.gather_elements(node.operand(0), positions, axis=axis), positions]


IMPORTERS: dict[str, Importer] = {
    "CumProd": partial(import_scan, "cumprod"),
    "CumSum": partial(import_scan, "cumsum"),
    "OneHot": import_one_hot,
    "Pad": import_pad,
    "Slice": import_slice,
    "Split": import_split,
    "TopK": import_top_k,
    "Trilu": import_trilu,
}
