"""The least and the greatest of two numbers, and both as bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
)

from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.batching import only_first
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import BinaryOp, ElementwiseOp, sum_to
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import TensorType
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

_Bound = TypeVar("_Bound")


class ExtremumOp(BinaryOp):
    """What `min` and `max` share: where both operands are equal, the derivative is the first's."""

    COMMUTES: ClassVar = True
    WINS: ClassVar[str]
    """The comparison by which the first operand is taken."""

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        first = b.op(self.WINS, self.lhs, self.rhs).results[0]
        zero = self.number(b, 0)
        left = b.where(first, cotangents[0], zero)
        right = b.where(first, zero, cotangents[0])
        return [sum_to(b, left, self.lhs), sum_to(b, right, self.rhs)]


@irdl_op_definition
class MaxOp(ExtremumOp):
    """The greater of two numbers, 0 rather than -0; NaN where either is."""

    name = "graph.max"
    WINS: ClassVar = "greater_equal"

    def reference(self, *operands: Array) -> Sequence[Array]:
        lhs, rhs = operands
        equal = np.where(np.signbit(lhs), rhs, lhs)  # they may be zeros of two signs
        return [np.where(lhs == rhs, equal, np.maximum(lhs, rhs))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].maximum(operands[1])

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        return maximum([left, right])


@irdl_op_definition
class MinOp(ExtremumOp):
    """The lesser of two numbers, -0 rather than 0; NaN where either is."""

    name = "graph.min"
    WINS: ClassVar = "less_equal"

    def reference(self, *operands: Array) -> Sequence[Array]:
        lhs, rhs = operands
        equal = np.where(np.signbit(lhs), lhs, rhs)
        return [np.where(lhs == rhs, equal, np.minimum(lhs, rhs))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].minimum(operands[1])

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        return minimum([left, right])


@irdl_op_definition
class ClipOp(ElementwiseOp):
    """`min(max(x, low), high)`, each bound a scalar that may be absent."""

    name = "graph.clip"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    operand: SSAValue = operand_def(TensorType)
    low: SSAValue | None = opt_operand_def(TensorType)
    high: SSAValue | None = opt_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Clip")

    def infer(self) -> Sequence[TensorType]:
        self.check_elements()
        tensor_type, *bounds = self.tensor_types()
        for bound in bounds:
            self.require(not bound.has_rank or bound.rank == 0, "scalar bounds", bound)
        return [tensor_type]

    def _bounds(self, present: Sequence[_Bound]) -> tuple[_Bound | None, _Bound | None]:
        """The bounds among what stands for the operands that are present."""
        remaining = list(present[1:])
        low = remaining.pop(0) if self.low is not None else None
        return low, remaining.pop(0) if self.high is not None else None

    def reference(self, *operands: Array) -> Sequence[Array]:
        low, high = self._bounds(operands)
        value = operands[0] if low is None else np.maximum(operands[0], low)
        return [value if high is None else np.minimum(value, high)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        low, high = self._bounds(operands)
        value = operands[0] if low is None else operands[0].maximum(low)
        return value if high is None else value.minimum(high)

    def fold(self) -> Sequence[SSAValue] | None:
        """Without bounds it is the operand."""
        return [self.operand] if self.low is None and self.high is None else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """On a bound the derivative is the operand's."""
        zero, rest, bounded = self.number(b, 0), cotangents[0], self.operand
        found: list[SSAValue] = []
        for bound, wins, outside in ((self.low, "max", "less"), (self.high, "min", "greater")):
            if bound is not None:
                found.append(b.op(outside, bounded, bound).results[0])
                bounded = b.op(wins, bounded, bound).results[0]
        gradients: list[SSAValue | None] = []
        for bound, outside in reversed(list(zip(self.operands[1:], found, strict=True))):
            gradients.append(sum_to(b, b.where(outside, rest, zero), bound))
            rest = b.where(outside, zero, rest)
        return [rest, *reversed(gradients)]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        """Bounds are scalars."""
        return super().vmap(operands, size, b) if only_first(self, operands) else None


OPS: tuple[type[GraphOp], ...] = (MaxOp, MinOp, ClipOp)
