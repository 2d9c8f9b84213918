"""Conversion between element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from dialects.expr import Expr
from dialects.graph.builder import GraphBuilder
from dialects.graph.dtypes import numpy_dtype
from dialects.graph.elementwise import ANY_ELEMENT, UnaryOp, is_float
from dialects.graph.op import GraphOp
from dialects.graph.types import BOOL, FLOATS, INTEGERS, TensorType, type_of
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import Scalar
from dialects.weights import Array


@irdl_op_definition
class CastOp(UnaryOp):
    """The same values as another element type.

    Floats become integers by truncation that saturates, NaN becoming 0; integers wrap around;
    numbers become bools by comparing with zero.
    """

    name = "graph.cast"
    to: Attribute = prop_def(Attribute)
    ELEMENTS: ClassVar = ANY_ELEMENT
    HAS_VJP: ClassVar = True

    def result_element(self) -> Attribute:
        return self.to

    def infer(self) -> Sequence[TensorType]:
        self.require(self.to in self.ELEMENTS, "a numeric or bool element type", self.to)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        (x,) = operands
        dtype = numpy_dtype(self.to)
        if self.to in INTEGERS and is_float(x):
            return [truncated(x, dtype)]
        with np.errstate(all="ignore"):
            return [x != 0 if self.to == BOOL else x.astype(dtype)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].cast(self.to)

    def fold(self) -> Sequence[SSAValue] | None:
        """A cast to the same type is gone."""
        return [self.operand] if type_of(self.operand).element == self.to else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        """Dims stay themselves as 32 or 64 bits; a narrower type might cut them."""
        wide = self.to in INTEGERS and numpy_dtype(self.to).itemsize >= 4
        return operands[0] if wide else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """From float to float the cotangent is cast back; through integers there is none."""
        source = type_of(self.operand).element
        if source not in FLOATS or self.to not in FLOATS:
            return [None]
        return [b.cast(cotangents[0], to=source)]


def truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers: towards zero, out of range to the nearest bound, NaN to 0."""
    limits = np.iinfo(dtype)
    wide = x.astype(np.float64)
    below, above = wide < float(limits.min), wide >= float(limits.max)
    inside = np.where(below | above | np.isnan(wide), 0, np.trunc(wide)).astype(dtype)
    least, greatest = dtype.type(limits.min), dtype.type(limits.max)
    return np.where(below, least, np.where(above, greatest, inside))


OPS: tuple[type[GraphOp], ...] = (CastOp,)
