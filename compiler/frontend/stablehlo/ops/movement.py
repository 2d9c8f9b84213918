"""Operators that move elements, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import Node
from weft.compiler.frontend.stablehlo.types import constant_array, is_complex
from weft.dialects.errors import ModelError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.types import FLOATS, I64, SIGNED
from weft.dialects.loop.scalar import width


def constant(node: Node) -> Sequence[Term]:
    """A constant: small ones are part of the graph, others go to the weights."""
    value, array = node.written.get("value"), node.scope.elided.get(node.op)
    if array is None:
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise ModelError(f"requires dense elements, got {value}")
        array = constant_array(cast("Attribute", value), node.result)
    dims = node.result.static
    pairs = is_complex(node.op.results[0].type)
    arrays = [array[..., part].copy() for part in (0, 1)] if pairs else [array]
    return [node.stored(each, "constant").expand(dims) for each in arrays]


def iota(node: Node) -> Sequence[Term]:
    """`0, 1, ...` along one dim."""
    shape = node.result.static
    return [counted_along(node, list(shape), node.integer("iota_dimension"))]


def counted_along(node: Node, shape: Sequence[int | Expr], axis: int) -> Term:
    """The index along one dim of a shape, in the result's element type."""
    element = node.result.element
    counting = element if width(element) >= 32 and element not in FLOATS else I64
    numbers = counted(node.b, shape[axis], counting).cast(element)
    lengths = [shape[axis] if at == axis else 1 for at in range(len(shape))]
    return numbers.reshape(lengths).expand(shape)


def broadcast_in_dim(node: Node) -> Sequence[Term]:
    """The operand's dims become those of the result that are listed, and are stretched."""
    dims = node.integers("broadcast_dimensions")
    return [broadcast(node.only, dims, node.result.static)]


def broadcast(x: Term, dims: Sequence[int], shape: Sequence[int | Expr]) -> Term:
    """Broadcast so that dim `i` is dim `dims[i]` of the result."""
    if len(dims) != len(x.shape) or any(not 0 <= dim < len(shape) for dim in dims):
        raise ModelError(f"requires a dim of the result for each of {x.type}, got {list(dims)}")
    order = sorted(range(len(dims)), key=lambda at: dims[at])
    x = x.transpose(order)
    lengths: list[Expr] = [Expr.of(1)] * len(shape)
    for position, axis in enumerate(order):
        lengths[dims[axis]] = x.shape[position]
    return stretched(x.reshape(lengths), shape)


def stretched(x: Term, shape: Sequence[int | Expr]) -> Term:
    """Dims of 1 stretched; a dim that varies is required to be what it should be."""
    pairs = [(dim, Expr.of(size)) for dim, size in zip(x.shape, shape, strict=True)]
    dims = [dim if dim.constant is not None else size for dim, size in pairs]
    if dims != list(x.shape):
        x = x.of(x.b.assume(x.value, shape=shape_attr(dims)))
    return x.expand(shape)


def of_one_shape(terms: Sequence[Term]) -> list[Term]:
    """Tensors whose dims are required to be those of the first, by whatever names they vary."""
    return [stretched(each, terms[0].shape) for each in terms]


def broadcast_leading(node: Node) -> Sequence[Term]:
    """New dims in front."""
    return [node.only.expand(node.result.static)]


def reshape(node: Node) -> Sequence[Term]:
    """The elements under other dims."""
    return [node.only.reshape(node.result.static)]


def transpose(node: Node) -> Sequence[Term]:
    """The dims in another order."""
    return [node.only.transpose(node.integers("permutation"))]


def reverse(node: Node) -> Sequence[Term]:
    """The elements in the opposite order along some dims."""
    return [flipped(node.only, node.integers("dimensions"))]


def flipped(x: Term, axes: Sequence[int]) -> Term:
    """The elements in the opposite order along axes."""
    for axis in axes:
        x = x.flip(axis)
    return x


def concatenate(node: Node) -> Sequence[Term]:
    """The operands one after the other."""
    return [joined(node.operands, node.integer("dimension"))]


def slice_(node: Node) -> Sequence[Term]:
    """A box of the operand, with steps."""
    starts, ends = node.integers("start_indices"), node.integers("limit_indices")
    steps = node.integers("strides", [1] * len(starts))
    return [strided(node.only, starts, ends, steps)]


def strided(
    x: Term,
    starts: Sequence[int | Expr],
    ends: Sequence[int | Expr],
    steps: Sequence[int],
) -> Term:
    """`x[start:end:step]` along each dim."""
    triples = zip(starts, ends, steps, strict=True)
    sizes = [(Expr.of(end) - start).ceildiv(step) for start, end, step in triples]
    return boxed(x, starts, sizes, steps)


def boxed(
    x: Term, starts: Sequence[int | Expr], sizes: Sequence[int | Expr], steps: Sequence[int]
) -> Term:
    """A box of a tensor by its first indices, its dims and its steps."""
    starts_, sizes_ = shape_attr(starts), shape_attr(sizes)
    return x.of(x.b.slice(x.value, starts=starts_, sizes=sizes_, steps=list(steps)))


def pad(node: Node) -> Sequence[Term]:
    """Elements around a tensor and between its elements; negative numbers crop."""
    x, value = node.operands
    low, high = node.integers("edge_padding_low"), node.integers("edge_padding_high")
    return [padded(x, value, low, high, node.integers("interior_padding", [0] * len(low)))]


def padded(
    x: Term,
    value: Term,
    low: Sequence[int | Expr],
    high: Sequence[int | Expr],
    interior: Sequence[int],
) -> Term:
    """A tensor with elements of a value between its own, then in front and behind."""
    if any(interior):
        pairs = zip(x.shape, interior, strict=True)
        shape = [dim + (dim - 1) * gap if dim.constant != 0 else Expr.of(0) for dim, gap in pairs]
        spread = value.expand(shape)
        if all(dim.constant != 0 for dim in x.shape):
            spread = x.of(
                x.b.insert_slice(
                    spread.value,
                    x.value,
                    starts=shape_attr([0] * len(shape)),
                    steps=[gap + 1 for gap in interior],
                )
            )
        x = spread
    if all(each == 0 for each in (*low, *high)):
        return x
    pads = shape_attr([*low, *high])
    return x.of(x.b.pad(x.value, value.value, pads=pads, mode="constant"))


def clamped_starts(x: Term, starts: Sequence[Term], sizes: Sequence[int | Expr]) -> Term:
    """Scalar first indices of a box, moved so that it lies inside, as one vector."""
    limits = [dim - size for dim, size in zip(x.shape, sizes, strict=True)]
    widened = [wide(start) for start in starts]
    bounded = [
        start.maximum(0).minimum(size_term(x.b, limit, I64)).reshape([1])
        for start, limit in zip(widened, limits, strict=True)
    ]
    return joined(bounded, 0)


def wide(start: Term) -> Term:
    """An index as i64; what unsigned integers hold beyond stays beyond every size."""
    if start.type.element in SIGNED or width(start.type.element) < 64:
        return start.cast(I64)
    return start.minimum(2**62).cast(I64)


def dynamic_slice(node: Node) -> Sequence[Term]:
    """A box whose first indices are operands."""
    x, *starts = node.operands
    sizes = node.integers("slice_sizes")
    return [box_at(x, starts, sizes)]


def box_at(x: Term, starts: Sequence[Term], sizes: Sequence[int]) -> Term:
    """A box that is moved inside; along each axis that it does not fill, indices are gathered."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if x.shape[axis].constant == size:
            continue
        first = wide(start).maximum(0).minimum(size_term(x.b, x.shape[axis] - size, I64))
        x = x.take(counted(x.b, size) + first, axis)
    return x


def dynamic_update_slice(node: Node) -> Sequence[Term]:
    """The operand with a box replaced whose first indices are operands."""
    x, update, *starts = node.operands
    return [update_at(x, update, starts)]


def update_at(x: Term, update: Term, starts: Sequence[Term]) -> Term:
    """Writes a box that is moved inside: rows of the leading dims that it does not fill."""
    if not x.shape:
        return update
    if any(dim.constant == 0 for dim in update.shape):
        return x
    filled = [a == b for a, b in zip(x.shape, update.shape, strict=True)]
    depth = max((axis + 1 for axis, whole in enumerate(filled) if not whole), default=0)
    if depth == 0:
        return update
    firsts = clamped_starts(x, starts, update.shape)
    lead = list(update.shape[:depth])
    columns: list[Term] = []
    for axis in range(depth):
        along = [lead[axis] if at == axis else 1 for at in range(depth)]
        numbers = counted(x.b, lead[axis]) + firsts.part(0, axis, 1)
        columns.append(numbers.reshape(along).expand(lead).reshape([*lead, 1]))
    indices = joined(columns, depth)
    attributes = {"reduction": "none"}
    return x.of(x.b.scatter_nd(x.value, indices.value, update.value, **attributes))


def identity(node: Node) -> Sequence[Term]:
    """The operands themselves."""
    return node.operands


MOVEMENT = {
    "broadcast": broadcast_leading,
    "broadcast_in_dim": broadcast_in_dim,
    "concatenate": concatenate,
    "constant": constant,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "iota": iota,
    "optimization_barrier": identity,
    "pad": pad,
    "reshape": reshape,
    "reverse": reverse,
    "slice": slice_,
    "transpose": transpose,
}
"""By the name in StableHLO."""
