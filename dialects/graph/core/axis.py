"""Operators that compute each line of a tensor along one axis apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.batching import again
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import FLOATS, Shape, TensorType, type_of


def from_front(op: GraphOp, axis: int, rank: int) -> int:
    """The axis counted from the front; raises TypeInferenceError where the rank has no such one."""
    op.require(-rank <= axis < rank, f"an axis from {-rank} to {rank - 1}", axis)
    return axis % rank


class LineOp(GraphOp):
    """What computes each line of the operand along the attribute `axis` apart."""

    operand: SSAValue = operand_def(TensorType)
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return from_front(self, self.axis.value.data, type_of(self.operand).rank)

    @property
    def lines(self) -> Shape:
        """The dims with a single element along the axis: one for each line."""
        return tuple(self.along(type_of(self.operand).shape, Expr.of(1)))

    @property
    def extent(self) -> Expr:
        """How many elements a line has."""
        return type_of(self.operand).shape[self.position]

    def along(self, line: Sequence[Expr], k: Expr) -> list[Expr]:
        """The index of element `k` of a line."""
        position = self.position
        return [k if axis == position else i for axis, i in enumerate(line)]

    def line_of(self, index: Sequence[Expr]) -> list[Expr]:
        """The index of the line that an element belongs to."""
        return self.along(index, Expr.of(0))

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b, axis=self.position + 1)


class AxisOp(LineOp):
    """A result of the operand's type, each line along the axis computed apart."""

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = FLOATS

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in self.ELEMENTS, "floating-point elements", source.element)
        if source.has_rank:
            from_front(self, self.axis.value.data, source.rank)
        return [source]

    def sharding_rule(self) -> ShardingRule | None:
        factors = whole_but(type_of(self.operand).rank, (self.position,))
        return ShardingRule((factors,), (factors,))
