"""Elementwise arithmetic: sums, products, powers, signs and roundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from dialects.graph.builder import GraphBuilder
from dialects.graph.elementwise import BinaryOp, UnaryOp, sum_to
from dialects.graph.op import OnnxName
from dialects.expr import Expr
from dialects.graph.types import NUMBERS
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import Scalar
from dialects.weights import Array


def _pairs(*operands: Sequence[Expr] | None) -> list[tuple[Expr, Expr]] | None:
    """The elements of two vectors or scalars of known dims, broadcast against each other."""
    left, right = operands
    if left is None or right is None or (len(left) != len(right) and 1 not in (len(left), len(right))):
        return None
    size = max(len(left), len(right))
    return list(zip(left if len(left) == size else left * size, right if len(right) == size else right * size))


@irdl_op_definition
class AddOp(BinaryOp):
    """`x + y`; integers wrap around."""

    name = "graph.add"
    ONNX: ClassVar = OnnxName("Add")
    HAS_VJP: ClassVar = True

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0] + operands[1]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0] + operands[1]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        pairs = _pairs(*operands)
        return None if pairs is None else [left + right for left, right in pairs]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [sum_to(b, cotangents[0], self.lhs), sum_to(b, cotangents[0], self.rhs)]


@irdl_op_definition
class MulOp(BinaryOp):
    """`x * y`; integers wrap around."""

    name = "graph.mul"
    ONNX: ClassVar = OnnxName("Mul")
    HAS_VJP: ClassVar = True

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0] * operands[1]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0] * operands[1]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        pairs = _pairs(*operands)
        return None if pairs is None else [left * right for left, right in pairs]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        left = b.mul(cotangents[0], self.rhs)
        right = b.mul(cotangents[0], self.lhs)
        return [sum_to(b, left, self.lhs), sum_to(b, right, self.rhs)]


@irdl_op_definition
class ReluOp(UnaryOp):
    """`max(x, 0)`; its derivative at 0 is 0."""

    name = "graph.relu"
    ONNX: ClassVar = OnnxName("Relu")
    ELEMENTS: ClassVar = NUMBERS
    HAS_VJP: ClassVar = True

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.maximum(operands[0], np.zeros((), operands[0].dtype))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].maximum(0)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero = b.filled(0, self.operand)
        positive = b.greater(self.operand, zero)
        return [b.where(positive, cotangents[0], b.filled(0, cotangents[0]))]


OPS = (AddOp, MulOp, ReluOp)
