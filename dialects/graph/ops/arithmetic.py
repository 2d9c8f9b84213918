"""Elementwise arithmetic: sums, products, quotients, signs, extrema and roundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import (
    BinaryOp,
    FloatUnaryOp,
    MathOp,
    OperatorOp,
    SlopeOp,
    UnaryOp,
    sum_to,
)
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.remainder import remainder
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar, is_float, is_unsigned
from weft.dialects.weights import Array


@irdl_op_definition
class AddOp(OperatorOp, BinaryOp):
    """`x + y`; integers wrap around."""

    name = "graph.add"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("Add")
    OPERATOR: ClassVar = "add"

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        return left + right

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [sum_to(b, cotangents[0], self.lhs), sum_to(b, cotangents[0], self.rhs)]


@irdl_op_definition
class SubOp(OperatorOp, BinaryOp):
    """`x - y`; integers wrap around."""

    name = "graph.sub"
    ONNX: ClassVar = OnnxName("Sub")
    OPERATOR: ClassVar = "sub"

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        return left - right

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [sum_to(b, cotangents[0], self.lhs), sum_to(b, b.neg(cotangents[0]), self.rhs)]


@irdl_op_definition
class MulOp(OperatorOp, BinaryOp):
    """`x * y`; integers wrap around."""

    name = "graph.mul"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("Mul")
    OPERATOR: ClassVar = "mul"

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        return left * right

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        left = b.mul(cotangents[0], self.rhs)
        right = b.mul(cotangents[0], self.lhs)
        return [sum_to(b, left, self.lhs), sum_to(b, right, self.rhs)]


@irdl_op_definition
class DivOp(BinaryOp):
    """`x / y`; integers are rounded towards zero and wrap around, and one over zero is zero."""

    name = "graph.div"
    ONNX: ClassVar = OnnxName("Div")

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, y = operands
        with np.errstate(all="ignore"):
            if self.result_type.element in FLOATS:
                return [x / y]
            quotient = x // y
            inexact = (x % y != 0) & ((x < 0) != (y < 0))
            return [np.asarray(quotient + inexact.astype(x.dtype))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        x, y = operands
        if is_float(x.element):
            return x / y
        nothing = y.compare("eq", 0)
        quotient = x / nothing.select(y.constant(1), y)
        return nothing.select(y.constant(0), quotient)

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        """The quotient where it is exact, or of numbers that are not negative."""
        if right == 0:
            return None
        quotient = left // right
        low, _ = left.range({})
        rounds_down = (right.constant or 0) > 0 and low is not None and low >= 0
        return quotient if rounds_down or quotient * right == left else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        left = b.div(cotangents[0], self.rhs)
        right = b.neg(b.mul(left, self.result))
        return [sum_to(b, left, self.lhs), sum_to(b, right, self.rhs)]


@irdl_op_definition
class ModOp(BinaryOp):
    """The remainder of `x / y`: of the divisor's sign, or with `fmod` of the dividend's as in C.

    An integer modulo zero is zero.
    """

    name = "graph.mod"
    fmod: BoolAttr = prop_def(BoolAttr)
    ONNX: ClassVar = OnnxName("Mod", {"fmod": ("fmod", False)})

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dx = dz` and `dy = -q dz`, `q` the whole number of divisors that the remainder lacks."""
        taken = b.div(b.sub(self.lhs, self.result), self.rhs)
        slope = b.neg(b.mul(cotangents[0], b.round(taken)))
        return [sum_to(b, cotangents[0], self.lhs), sum_to(b, slope, self.rhs)]

    @property
    def truncates(self) -> bool:
        """Whether the remainder has the dividend's sign."""
        return bool(self.fmod.value.data)

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, y = operands
        function = np.fmod if self.truncates else np.mod
        with np.errstate(all="ignore"):
            if self.result_type.element in FLOATS:
                return [function(x, y)]
            return [function(x, np.where(y == 0, np.ones((), y.dtype), y))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        x, y = operands
        divisor = y if is_float(x.element) else y.compare("eq", 0).select(y.constant(1), y)
        return remainder(x, divisor, truncates=self.truncates)

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        low, _ = left.range({})
        sound = (right.constant or 0) > 0 and low is not None and low >= 0
        return left % right if sound else None


@irdl_op_definition
class NegOp(OperatorOp, UnaryOp):
    """`-x`; of unsigned integers modulo 2 to the number of their bits."""

    name = "graph.neg"
    OPERATOR: ClassVar = "neg"
    ONNX: ClassVar = OnnxName("Neg")

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return None if operands[0] is None else [-expr for expr in operands[0]]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.neg(cotangents[0])]


@irdl_op_definition
class AbsOp(SlopeOp):
    """`|x|`; its derivative at 0 is 0. The least integer stays itself."""

    name = "graph.abs"
    ONNX: ClassVar = OnnxName("Abs")

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.abs(operands[0])]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        if is_float(x.element):
            return x.math("absf")
        return x if is_unsigned(x.element) else x.math("absi")

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.sign(self.operand)


@irdl_op_definition
class SignOp(SlopeOp):
    """-1, 0 or 1, of both zeros 0; NaN of NaN."""

    name = "graph.sign"
    ONNX: ClassVar = OnnxName("Sign")

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.sign(operands[0])]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        one = x.constant(1)
        if is_unsigned(x.element):
            return x.minimum(one)
        zero = x.math("absf") if is_float(x.element) else x
        return (x > 0).select(one, (x < 0).select(-one, zero))

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.number(b, 0)


@irdl_op_definition
class ReciprocalOp(FloatUnaryOp):
    """`1 / x`."""

    name = "graph.reciprocal"
    ONNX: ClassVar = OnnxName("Reciprocal")

    def evaluate(self, x: Array) -> Array:
        return 1 / x

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].constant(1) / operands[0]

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.neg(b.mul(self.result, self.result))


class RoundingOp(MathOp):
    """A whole number near the operand; the derivative is 0."""

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.number(b, 0)


@irdl_op_definition
class FloorOp(RoundingOp):
    """The next whole number below."""

    name = "graph.floor"
    ONNX: ClassVar = OnnxName("Floor")
    NUMPY: ClassVar = np.floor


@irdl_op_definition
class CeilOp(RoundingOp):
    """The next whole number above."""

    name = "graph.ceil"
    ONNX: ClassVar = OnnxName("Ceil")
    NUMPY: ClassVar = np.ceil


@irdl_op_definition
class RoundOp(RoundingOp):
    """The nearest whole number, halves to the even one."""

    name = "graph.round"
    ONNX: ClassVar = OnnxName("Round")
    FUNCTION: ClassVar = "roundeven"
    NUMPY: ClassVar = np.rint


OPS: tuple[type[GraphOp], ...] = (
    AddOp, SubOp, MulOp, DivOp, ModOp, NegOp, AbsOp, SignOp, ReciprocalOp, FloorOp, CeilOp, RoundOp,
)  # fmt: skip
