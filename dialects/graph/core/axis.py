"""Operators that compute each line of a tensor along one axis apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from dialects.expr import Expr
from dialects.graph.core.op import GraphOp
from dialects.graph.core.types import FLOATS, Shape, TensorType, type_of


class AxisOp(GraphOp):
    """A result of the operand's type, each line along the attribute `axis` computed apart."""

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = FLOATS
    operand: SSAValue = operand_def(TensorType)
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return self.axis.value.data % type_of(self.operand).rank

    def infer(self) -> Sequence[TensorType]:
        source, axis = type_of(self.operand), self.axis.value.data
        self.require(source.element in self.ELEMENTS, "floating-point elements", source.element)
        if source.has_rank:
            rank = source.rank
            self.require(-rank <= axis < rank, f"an axis from {-rank} to {rank - 1}", axis)
        return [source]

    @property
    def lines(self) -> Shape:
        """The dims with a single element along the axis: one for each line."""
        shape = list(type_of(self.operand).shape)
        shape[self.position] = Expr.of(1)
        return tuple(shape)

    @property
    def extent(self) -> Expr:
        """How many elements a line has."""
        return type_of(self.operand).shape[self.position]

    def along(self, line: Sequence[Expr], k: Expr) -> list[Expr]:
        """The index of element `k` of a line."""
        return [k if axis == self.position else i for axis, i in enumerate(line)]

    def line_of(self, index: Sequence[Expr]) -> list[Expr]:
        """The index of the line that an element belongs to."""
        return self.along(index, Expr.of(0))
