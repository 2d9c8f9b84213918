"""Comparisons, logic on bools, bits of integers, and the choice between two tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import (
    ANY_ELEMENT,
    BinaryOp,
    ElementwiseOp,
    OperatorOp,
    UnaryOp,
    static_size,
    stretched,
    sum_to,
)
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import BOOL, FLOATS, INTEGERS, TensorType, type_of
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar, is_unsigned, width
from weft.dialects.weights import Array


class ComparisonOp(OperatorOp, BinaryOp):
    """A bool for each pair of elements; false where one is NaN."""

    def result_element(self) -> Attribute:
        return BOOL

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].compare(self.OPERATOR, operands[1])

    def decide(self, low: float, high: float) -> bool | None:
        """Whether it holds where the left side is greater by `low` to `high`; None if open."""
        ends = {bool(getattr(operator, self.OPERATOR)(end, 0)) for end in (low, high)}
        return ends.pop() if len(ends) == 1 else None

    def fold_pair(self, left: Expr, right: Expr) -> Expr | None:
        low, high = (left - right).range({})
        decided = self.decide(-math.inf if low is None else low, math.inf if high is None else high)
        return None if decided is None else Expr.of(int(decided))


@irdl_op_definition
class EqualOp(ComparisonOp):
    """`x == y`."""

    name = "graph.equal"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("Equal")
    ELEMENTS: ClassVar = ANY_ELEMENT
    OPERATOR: ClassVar = "eq"

    def decide(self, low: float, high: float) -> bool | None:
        if low == high == 0:
            return True
        return False if low > 0 or high < 0 else None


@irdl_op_definition
class LessOp(ComparisonOp):
    """`x < y`."""

    name = "graph.less"
    ONNX: ClassVar = OnnxName("Less")
    OPERATOR: ClassVar = "lt"


@irdl_op_definition
class LessEqualOp(ComparisonOp):
    """`x <= y`."""

    name = "graph.less_equal"
    ONNX: ClassVar = OnnxName("LessOrEqual")
    OPERATOR: ClassVar = "le"


@irdl_op_definition
class GreaterOp(ComparisonOp):
    """`x > y`."""

    name = "graph.greater"
    ONNX: ClassVar = OnnxName("Greater")
    OPERATOR: ClassVar = "gt"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp):
    """`x >= y`."""

    name = "graph.greater_equal"
    ONNX: ClassVar = OnnxName("GreaterOrEqual")
    OPERATOR: ClassVar = "ge"


class FloatTestOp(UnaryOp):
    """A bool that tells what kind of float each element is."""

    ELEMENTS: ClassVar = FLOATS

    def result_element(self) -> Attribute:
        return BOOL


@irdl_op_definition
class IsNanOp(FloatTestOp):
    """Whether the element is no number."""

    name = "graph.is_nan"
    ONNX: ClassVar = OnnxName("IsNaN")

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.isnan(operands[0])]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].is_nan()


@irdl_op_definition
class IsInfOp(FloatTestOp):
    """Whether the element is an infinity of a sign that counts."""

    name = "graph.is_inf"
    negative: BoolAttr = prop_def(BoolAttr)
    positive: BoolAttr = prop_def(BoolAttr)
    ONNX: ClassVar = OnnxName(
        "IsInf", {"detect_negative": ("negative", True), "detect_positive": ("positive", True)}
    )

    @property
    def counted(self) -> list[float]:
        """The infinities for which it holds."""
        signs = ((self.negative, -math.inf), (self.positive, math.inf))
        return [infinity for wanted, infinity in signs if wanted.value.data]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.isin(operands[0].astype(np.float64), self.counted)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        tests = [x.compare("eq", infinity) for infinity in self.counted]
        none = b.constant(False, BOOL)
        return tests[0] | tests[1] if len(tests) == 2 else (*tests, none)[0]


class LogicalOp(OperatorOp, BinaryOp):
    """An operator on bools."""

    ELEMENTS: ClassVar = (BOOL,)


@irdl_op_definition
class LogicalAndOp(LogicalOp):
    """Whether both hold."""

    name = "graph.logical_and"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("And")
    OPERATOR: ClassVar = "and_"


@irdl_op_definition
class LogicalOrOp(LogicalOp):
    """Whether one or both hold."""

    name = "graph.logical_or"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("Or")
    OPERATOR: ClassVar = "or_"


@irdl_op_definition
class LogicalXorOp(LogicalOp):
    """Whether one alone holds."""

    name = "graph.logical_xor"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("Xor")
    OPERATOR: ClassVar = "xor"


@irdl_op_definition
class LogicalNotOp(OperatorOp, UnaryOp):
    """The other bool."""

    name = "graph.logical_not"
    ONNX: ClassVar = OnnxName("Not")
    ELEMENTS: ClassVar = (BOOL,)
    OPERATOR: ClassVar = "invert"


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """The first value where the condition holds, else the second."""

    name = "graph.where"
    condition: SSAValue = operand_def(TensorType)
    then: SSAValue = operand_def(TensorType)
    otherwise: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Where")

    def check_elements(self) -> None:
        condition, then, otherwise = (each.element for each in self.tensor_types())
        self.require(condition == BOOL, "a condition of bools", condition)
        self.require(then == otherwise, "values of one element type", f"{then} and {otherwise}")

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.where(*operands)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        condition, then, otherwise = operands
        return condition.select(then, otherwise)

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        size = static_size(*operands)
        if size is None:
            return None
        condition, then, otherwise = (stretched(exprs or (), size) for exprs in operands)
        if any(expr.constant is None for expr in condition):
            return None
        choices = zip(condition, then, otherwise, strict=True)
        return [x if holds.constant else y for holds, x, y in choices]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero = self.number(b, 0)
        then = b.where(self.condition, cotangents[0], zero)
        otherwise = b.where(self.condition, zero, cotangents[0])
        return [None, sum_to(b, then, self.then), sum_to(b, otherwise, self.otherwise)]


class BitwiseOp(OperatorOp, BinaryOp):
    """An operator on each bit of two integers."""

    ELEMENTS: ClassVar = INTEGERS


@irdl_op_definition
class BitwiseAndOp(BitwiseOp):
    """The bits that are set in both."""

    name = "graph.bitwise_and"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("BitwiseAnd")
    OPERATOR: ClassVar = "and_"


@irdl_op_definition
class BitwiseOrOp(BitwiseOp):
    """The bits that are set in one or both."""

    name = "graph.bitwise_or"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("BitwiseOr")
    OPERATOR: ClassVar = "or_"


@irdl_op_definition
class BitwiseXorOp(BitwiseOp):
    """The bits that are set in one alone."""

    name = "graph.bitwise_xor"
    COMMUTES: ClassVar = True
    ONNX: ClassVar = OnnxName("BitwiseXor")
    OPERATOR: ClassVar = "xor"


@irdl_op_definition
class BitwiseNotOp(UnaryOp):
    """Every bit flipped."""

    name = "graph.bitwise_not"
    ONNX: ClassVar = OnnxName("BitwiseNot")
    ELEMENTS: ClassVar = INTEGERS

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [~operands[0]]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return x ^ ((1 << width(x.element)) - 1 if is_unsigned(x.element) else -1)


@irdl_op_definition
class BitShiftOp(BinaryOp):
    """Bits of integers moved up (`LEFT`) or down (`RIGHT`, which copies the sign bit of signed
    ones); counts that are negative, or no less than the width, move all bits out.
    """

    name = "graph.bit_shift"
    direction: StringAttr = prop_def(StringAttr)
    ONNX: ClassVar = OnnxName("BitShift", {"direction": ("direction", None)})
    ELEMENTS: ClassVar = INTEGERS

    def infer(self) -> Sequence[TensorType]:
        direction = self.direction.data
        self.require(direction in ("LEFT", "RIGHT"), "a direction of LEFT or RIGHT", direction)
        return super().infer()

    def reference(self, *operands: Array) -> Sequence[Array]:
        value, count = operands
        bits = width(type_of(self.lhs).element)
        inside = (count >= 0) & (count < bits)
        if self.direction.data == "LEFT":
            moved = np.left_shift(value, count % bits)
            return [np.where(inside, moved, np.zeros((), moved.dtype))]
        gone = np.where(value < 0, np.full((), -1).astype(value.dtype), np.zeros((), value.dtype))
        return [np.where(inside, np.right_shift(value, count % bits), gone)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        value, count = operands
        bits = width(value.element)
        inside = count < bits
        if not is_unsigned(value.element):
            inside = inside & (count >= 0)
        if self.direction.data == "LEFT":
            return inside.select(value.shift_left(count & (bits - 1)), value.constant(0))
        if is_unsigned(value.element):
            return inside.select(value.shift_right(count & (bits - 1)), value.constant(0))
        return value.shift_right(inside.select(count, count.constant(bits - 1)))


OPS: tuple[type[GraphOp], ...] = (
    EqualOp, LessOp, LessEqualOp, GreaterOp, GreaterEqualOp, IsNanOp, IsInfOp, LogicalAndOp,
    LogicalOrOp, LogicalXorOp, LogicalNotOp, WhereOp, BitwiseAndOp, BitwiseOrOp, BitwiseXorOp,
    BitwiseNotOp, BitShiftOp,
)  # fmt: skip
