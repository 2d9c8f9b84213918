"""ONNX operators that take parts of a tensor or put something around it: Slice, Split, Pad, ..."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import (
    Importer,
    OnnxNode,
    dims_attr,
    normal_axis,
    only,
    only_element,
    unique_axes,
)
from weft.compiler.frontend.onnx.open_axes import FoundAxes
from weft.dialects.errors import ModelError
from weft.dialects.expr import Atom, Expr, Symbol, maximum, minimum
from weft.dialects.extent import exact_number
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import I64, INTEGERS

_SIZE_NAME = "axis.size"
_SIZE = Expr.of(_SIZE_NAME)

END = 2**63 - 1
"""The end of an axis, however large it is."""

FARTHEST = 2**62
"""A step that is as far as any: it leads out of each axis."""

UNBOUNDED = 2**31 - 1
"""Slice bounds from here on mean the end of the axis, below its negative the start."""


def import_slice(node: OnnxNode) -> Sequence[SSAValue]:
    """`x[start:end:step]` along some axes, negative bounds counted from the end, all clamped."""
    if node.is_open(3) or node.is_open(4):
        return [_open_slice(node)]
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


def _open_slice(node: OnnxNode) -> SSAValue:
    """Axis by axis, where only a call knows the axes, or by what steps they are taken."""
    starts, ends, shape = node.scalars(1), node.scalars(2), node.shape()
    steps = None if node.optional(4) is None else node.scalars(4)
    counts = {len(starts), len(ends), len(starts if steps is None else steps)}
    if node.is_open(3):
        found = FoundAxes(node, 3, len(shape))
        counts.add(found.count)
        axes: Sequence[int] = range(len(shape))
    else:
        found = None
        axes = unique_axes(node.optional_numbers(3, "axes") or range(len(starts)), len(shape))
        counts.add(len(axes))
    if len(counts) > 1:
        raise ModelError(f"requires one start, end and step an axis, got {len(starts)} starts")
    if found is not None:
        found.require()
        starts, ends = (
            found.placed(starts, [0] * len(shape)),
            found.placed(ends, [END] * len(shape)),
        )
        steps = None if steps is None else found.placed(steps, [1] * len(shape))
    x = Term(node.b, node.operand(0))
    for at, axis in enumerate(axes):
        if steps is None:
            bounds = _found_range(node, shape[axis], starts[at].value, ends[at].value, 1)
            x = x.part(axis, *bounds)
        else:
            x = x.take(_indices(node, shape[axis], starts[at], ends[at], steps[at]), axis)
    return x.value


def _indices(node: OnnxNode, dim: Expr, start: Term, end: Term, step: Term) -> Term:
    """The indices of `start:end:step` on an axis of that size, as `slice_range` has them."""
    size = size_term(node.b, dim, I64)
    node.require((step < 0) | (step > 0), "steps other than 0", [step])
    step = step.maximum(-FARTHEST).minimum(FARTHEST)
    start, end = ((each < 0).where(each + size, each) for each in (start, end))
    is_forward = step > 0
    last = is_forward.where(size, size - 1)
    first = start.minimum(last).maximum(0)
    behind = end.minimum(last).maximum(is_forward.where(size * 0, -1))
    distance = is_forward.where(behind - first, first - behind)
    stride = is_forward.where(step, -step)
    count = ((distance + stride - 1) / stride).minimum(size).maximum(0)
    return first + step * counted(node.b, node.find(count.value))


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
        sizes = node.found_dims(1)
    else:
        count = len(node.proto.output)
        if node.integer("num_outputs", count) != count:
            raise ModelError(f"requires num_outputs that is the number of outputs, got {count}")
        sizes = _equal_parts(shape[axis], count)
    whole = node.assume_size(node.operand(0), axis, sum(sizes, Expr.of(0)), "sizes that sum to {}")
    return node.b.op("split", whole, axis=axis, sizes=dims_attr(sizes)).results


def _equal_parts(dim: Expr, count: int) -> list[Expr]:
    part = dim.ceildiv(count)
    if part * count == dim:
        return [part] * count
    starts = [*(minimum([part * position, dim]) for position in range(count)), dim]
    return [end - start for start, end in zip(starts, starts[1:], strict=False)]


def import_pad(node: OnnxNode) -> Sequence[SSAValue]:
    """Elements before and behind each axis, by `mode`; negative numbers crop."""
    rank = len(node.shape())
    before, after = _pads(node, rank)
    value = node.optional(2)
    if value is not None:
        value = node.reshape(value, [])
    mode = node.text("mode", "constant")
    return [node.b.pad(node.operand(0), value, pads=dims_attr([*before, *after]), mode=mode)]


def _pads(node: OnnxNode, rank: int) -> tuple[Sequence[Expr], Sequence[Expr]]:
    """How much comes before and behind each axis; what only a call knows is a size that it adds
    less one that it crops.
    """
    parts = node.elements(1)
    open_axes = node.is_open(3)
    given = None if open_axes else node.optional_numbers(3, "axes")
    axes = range(rank) if given is None else unique_axes(given, rank)
    count = len(node.elements(3)) if open_axes else len(axes)
    if len(parts) != 2 * count:
        raise ModelError(f"requires {2 * count} pads, got {len(parts)}")
    sides = parts[:count], parts[count:]
    if open_axes:
        found = FoundAxes(node, 3, rank)
        found.require()
        scalars = ([Term(node.b, node.size_scalar(each)) for each in side] for side in sides)
        sides = tuple(found.placed(side, [0] * rank) for side in scalars)
        first, second = ([_pad(node, each.value) for each in side] for side in sides)
        return first, second
    before, after = [Expr.of(0)] * rank, [Expr.of(0)] * rank
    for axis, low, high in zip(axes, *sides, strict=True):
        before[axis], after[axis] = _pad(node, low), _pad(node, high)
    return before, after


def _pad(node: OnnxNode, part: Expr | SSAValue) -> Expr:
    if isinstance(part, Expr):
        return part
    number = Term(node.b, part)
    return node.find(number.maximum(0).value) - node.find((-number).maximum(0).value)


def import_trilu(node: OnnxNode) -> Sequence[SSAValue]:
    """The upper or lower triangle of the last two axes, from the k-th diagonal on."""
    upper = node.flag("upper", default=True)
    if not node.is_open(1):
        diagonal = node.number(1, "a diagonal", 0)
        return [node.b.trilu(node.operand(0), upper=upper, k=diagonal)]
    x, (diagonal,) = Term(node.b, node.operand(0)), node.scalars(1)
    if len(x.shape) < 2:
        raise ModelError(f"requires at least 2 dims, got {len(x.shape)}")
    height, width = x.shape[-2:]
    place = counted(node.b, width) - counted(node.b, height).insert(1)
    kept = place >= diagonal if upper else place <= diagonal
    return [kept.where(x, x.of(node.scalar(0, x.type.element))).value]


def import_scan(name: str, node: OnnxNode) -> Sequence[SSAValue]:
    """All elements up to each one along an axis, combined."""
    rank = len(node.shape())
    axis = only(node.axes(1, rank) or (), "an axis")
    scan = node.b.op(
        name,
        node.operand(0),
        axis=normal_axis(axis, rank),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
    )
    return scan.results


def import_one_hot(node: OnnxNode) -> Sequence[SSAValue]:
    """A new axis of `depth` elements: the on-value at the index, the off-value elsewhere."""
    depth = _depth(node)
    indices = node.operand(0)
    if node.type().element not in INTEGERS:
        indices = node.cast(indices, I64)
    return [
        node.b.one_hot(
            indices, node.operand(2), depth=dims_attr([depth]), axis=node.integer("axis", -1)
        )
    ]


def _depth(node: OnnxNode) -> Expr:
    """How many elements a one-hot vector has."""
    given = node.constants.constant_array(node.operand(1))
    if given is not None:
        return Expr.of(int(exact_number(only_element(given, "a depth").item(), "a depth")))
    if node.type(1).element in INTEGERS:
        return node.size(1, "a depth")
    return node.find(node.cast(node.reshape(node.operand(1), []), I64))


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
