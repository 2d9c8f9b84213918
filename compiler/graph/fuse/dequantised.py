"""Values of f32 that stand for bytes, and what is known of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

import numpy as np
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, I32, type_of
from weft.dialects.graph.ops.arithmetic import AddOp, DivOp, MulOp, RoundOp, SubOp
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.quantized.integer_products import BYTES
from weft.dialects.graph.reindexing.movement import ReshapeOp, TransposeOp
from weft.dialects.weights import Array, WeightStore

SCALES: Final = (1e-30, 1e30)
"""Between these no product of a distance and the scale loses digits."""


class Dequantised(NamedTuple):
    """`(values - zero) * scale` of bytes; the zero point is that of a byte, None for 0."""

    values: SSAValue
    zero: SSAValue | None
    scale: SSAValue


def dequantised(value: SSAValue) -> Dequantised | None:
    """The bytes that a value of f32 stands for, if it is made of some."""
    if not isinstance(value.owner, MulOp) or not type_of(value).has_rank:
        return None
    sides = value.owner.lhs, value.owner.rhs
    for number, scale in (sides, sides[::-1]):
        owner = number.owner
        if not isinstance(owner, CastOp) or type_of(number).element != F32:
            continue
        values: SSAValue | None = owner.operand
        zero: SSAValue | None = None
        if isinstance(values.owner, SubOp):
            values, zero = (_byte_of(side) for side in values.owner.operands)
            if values is None or zero is None or type_of(values).element != type_of(zero).element:
                continue
        if type_of(values).element in BYTES and type_of(values).dims == type_of(value).dims:
            return Dequantised(values, zero, scale)
    return None


def _byte_of(value: SSAValue) -> SSAValue | None:
    """The bytes that an i32 was converted from: in fewer bits differences would overflow."""
    cast = value.owner
    if not isinstance(cast, CastOp) or type_of(value).element != I32:
        return None
    return cast.operand if type_of(cast.operand).element in BYTES else None


def requantised(op: CastOp, weights: WeightStore) -> SSAValue | None:
    """The bytes that a quantisation gives anew, moved as what it quantises; None for another one.

        quantise(reshape(dequantise(q)))   ->   reshape(q)

    A distance from the zero point times the scale, divided by it, is within half a step of itself.
    """
    element = type_of(op.result).element
    found = _quotient(op) if element in BYTES else None
    if found is None:
        return None
    quotient, zero = found
    moves: list[ReshapeOp | TransposeOp] = []
    value = quotient.lhs
    while isinstance(value.owner, (ReshapeOp, TransposeOp)):
        moves.append(value.owner)
        value = value.owner.operands[0]
    before = dequantised(value)
    if before is None or type_of(before.values).element != element:
        return None
    scales = [known_elements(each, weights) for each in (quotient.rhs, before.scale)]
    zeros = [
        np.zeros(()) if each is None else known_elements(each, weights)
        for each in (zero, before.zero)
    ]
    if not _is_one(scales, SCALES) or not _is_one(zeros):
        return None
    moved = Term(GraphBuilder(InsertPoint.before(op), OPS_BY_NAME, op.location), before.values)
    for move in reversed(moves):
        if isinstance(move, TransposeOp):
            moved = moved.transpose(move.axes)
        else:
            moved = moved.reshape(type_of(move.results[0]).shape)
    return moved.value


def _quotient(op: CastOp) -> tuple[DivOp, SSAValue | None] | None:
    """The division that a quantisation rounds, and its zero point as a float."""
    rounded, zero = op.operand, None
    if isinstance(rounded.owner, AddOp):
        rounded, zero = rounded.owner.operands
    if not isinstance(rounded.owner, RoundOp) or not isinstance(rounded.owner.operand.owner, DivOp):
        return None
    return rounded.owner.operand.owner, zero


def _is_one(parameters: Sequence[Array | None], bounds: tuple[float, float] = (-inf, inf)) -> bool:
    """Whether all are the same known number, within bounds."""
    if any(each is None or each.size != 1 for each in parameters):
        return False
    numbers = {float(each.item()) for each in parameters if each is not None}
    return len(numbers) == 1 and bounds[0] < numbers.pop() < bounds[1]


def known_elements(value: SSAValue, weights: WeightStore) -> Array | None:
    """The elements of a constant, converted or under another shape; None for others, and for those
    that may be replaced.
    """
    op = value.owner
    if isinstance(op, (CastOp, ReshapeOp)):
        operand = known_elements(op.operand, weights)
        return None if operand is None else op.reference(operand)[0]
    constant = constant_of(value, weights)
    if constant is None or (constant.key is not None and weights.varies(constant.key.data)):
        return None
    return constant.array(weights)
