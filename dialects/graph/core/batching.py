"""What the facet `vmap` of operators is written with: operands with a new first axis, the batch.

An operand that has the axis is of one rank more than the operator's own, which is of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import ShapeAttr, type_of

if TYPE_CHECKING:
    from weft.dialects.graph.core.builder import GraphBuilder
    from weft.dialects.graph.core.op import AttributeValue, GraphOp


def again(
    op: GraphOp, operands: Sequence[SSAValue], b: GraphBuilder, **attributes: AttributeValue
) -> Sequence[SSAValue]:
    """The results of the operator on other operands, with some other attributes."""
    given = iter(operands)
    slots = [None if each is None else next(given) for each in op.slots()]
    known = {name: value for name, value in op.properties.items() if name in op.attribute_names()}
    return b.builder.insert(
        type(op).of(*slots, location=op.location, **{**known, **attributes})
    ).results


def is_batched(value: SSAValue, sample: SSAValue) -> bool:
    """Whether a value has the axis that `sample`, which it stands for, lacks."""
    return type_of(value).rank > type_of(sample).rank


def only_first(op: GraphOp, operands: Sequence[SSAValue]) -> bool:
    """Whether the first operand alone has the axis."""
    pairs = list(zip(operands, op.operands, strict=True))
    return is_batched(*pairs[0]) and not any(is_batched(*pair) for pair in pairs[1:])


def aligned(b: GraphBuilder, value: SSAValue, rank: int) -> SSAValue:
    """A batch of samples of that rank: axes of 1 behind the first one."""
    batch, *dims = type_of(value).shape
    ones = [Expr.of(1)] * (rank - len(dims))
    return b.reshape(value, shape=ShapeAttr((batch, *ones, *dims))) if ones else value


def spread(b: GraphBuilder, value: SSAValue, sample: SSAValue, size: Expr) -> SSAValue:
    """The value with the axis: repeated, where it is the same for all samples."""
    if is_batched(value, sample):
        return value
    return b.expand(value, shape=ShapeAttr((size, *type_of(value).shape)))


def all_spread(
    op: GraphOp, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
) -> list[SSAValue]:
    """All operands with the axis."""
    pairs = zip(operands, op.operands, strict=True)
    return [spread(b, value, sample, size) for value, sample in pairs]


def merged(op: GraphOp, operands: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue] | None:
    """The results of an operator on examples along the first axis, which the batch is merged with;
    None where other operands have the axis as well.
    """
    if not only_first(op, operands):
        return None
    batch, count, *rest = type_of(operands[0]).shape
    joined = b.reshape(operands[0], shape=ShapeAttr((batch * count, *rest)))
    results = again(op, [joined, *operands[1:]], b)
    dims = [(batch, *type_of(each).shape) for each in op.results]
    return [b.reshape(x, shape=ShapeAttr(each)) for x, each in zip(results, dims, strict=True)]


def numbered(b: GraphBuilder, indices: SSAValue) -> SSAValue:
    """Index vectors of a batch, with the sample's number in front of each."""
    tensor_type = type_of(indices)
    shape = (*tensor_type.shape[:-1], Expr.of(1))
    zero, one = (b.constant_of(each, tensor_type.element) for each in (0, 1))
    numbers = b.range(zero, one, size=ShapeAttr(shape[:1]))
    column = b.reshape(numbers, shape=ShapeAttr((shape[0], *[Expr.of(1)] * (len(shape) - 1))))
    return b.concat(b.expand(column, shape=ShapeAttr(shape)), indices, axis=len(shape) - 1)


def to_front(b: GraphBuilder, value: SSAValue, axis: int) -> SSAValue:
    """The axis moved to the front."""
    rank = type_of(value).rank
    order = [axis, *(each for each in range(rank) if each != axis)]
    return b.transpose(value, permutation=order) if axis else value
