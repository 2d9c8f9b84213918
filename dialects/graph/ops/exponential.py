"""Exponentials, logarithms, powers and roots, elementwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import BinaryOp, MathOp, narrowed, sum_to
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import FLOATS
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar, is_float, is_unsigned, width
from weft.dialects.weights import Array

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function, in f64 and then rounded."""
    return np.asarray(_erf(np.asarray(x, np.float64))).astype(x.dtype)


@irdl_op_definition
class ExpOp(MathOp):
    """`e ** x`."""

    name = "graph.exp"
    ONNX: ClassVar = OnnxName("Exp")
    NUMPY: ClassVar = np.exp

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.result


@irdl_op_definition
class LogOp(MathOp):
    """The natural logarithm; NaN below zero."""

    name = "graph.log"
    ONNX: ClassVar = OnnxName("Log")
    NUMPY: ClassVar = np.log

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(self.operand)


@irdl_op_definition
class Expm1Op(MathOp):
    """`e ** x - 1`, exact near zero."""

    name = "graph.expm1"
    NUMPY: ClassVar = np.expm1

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.add(self.result, self.number(b, 1))


@irdl_op_definition
class Log1pOp(MathOp):
    """`log(1 + x)`, exact near zero; NaN below -1."""

    name = "graph.log1p"
    NUMPY: ClassVar = np.log1p

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(b.add(self.operand, self.number(b, 1)))


@irdl_op_definition
class SqrtOp(MathOp):
    """The square root; NaN below zero."""

    name = "graph.sqrt"
    ONNX: ClassVar = OnnxName("Sqrt")
    NUMPY: ClassVar = np.sqrt

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.div(self.number(b, 0.5), self.result)


@irdl_op_definition
class ErfOp(MathOp):
    """The error function `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to x."""

    name = "graph.erf"
    ONNX: ClassVar = OnnxName("Erf")
    NUMPY: ClassVar = staticmethod(erf)

    def slope(self, b: GraphBuilder) -> SSAValue:
        bell = b.exp(b.neg(b.mul(self.operand, self.operand)))
        return b.mul(self.number(b, 2 / math.sqrt(math.pi)), bell)


@irdl_op_definition
class PowOp(BinaryOp):
    """`x ** y`. Integers wrap around; a negative power of an integer is rounded towards zero.

    The derivative by the exponent is 0 where the base is not positive.
    """

    name = "graph.pow"

    def reference(self, *operands: Array) -> Sequence[Array]:
        base, exponent = operands
        with np.errstate(all="ignore"):
            if self.result_type.element in FLOATS:
                return [narrowed(np.power(widen(base), widen(exponent)), base)]
            power = np.power(base, np.maximum(exponent, np.zeros((), exponent.dtype)))
            odd = np.where(exponent % 2 == 1, base, base * base)
            return [np.where(exponent < 0, np.where(np.abs(base) == 1, odd, 0), power)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        base, exponent = operands
        if is_float(base.element):
            return base.math("powf", exponent)
        return integer_power(b, base, exponent)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero, one = self.number(b, 0), self.number(b, 1)
        power = b.pow(self.lhs, b.sub(self.rhs, one))
        constant = b.equal(self.rhs, zero)
        left = b.where(constant, zero, b.mul(self.rhs, power))
        positive = b.greater(self.lhs, zero)
        logarithm = b.log(b.where(positive, self.lhs, one))
        right = b.mul(self.result, logarithm)
        return [
            sum_to(b, b.mul(cotangents[0], left), self.lhs),
            sum_to(b, b.mul(cotangents[0], right), self.rhs),
        ]


def integer_power(b: LoopBuilder, base: Scalar, exponent: Scalar) -> Scalar:
    """The power by squaring, a bit of the exponent at a time; `x ** -n` is 0 but for 1 and -1."""
    one, zero = base.constant(1), base.constant(0)
    power, square, bits = (
        b.scratch([], base.element, name) for name in ("power", "square", "bits")
    )
    b.store(power, [], one)
    b.store(square, [], base)
    b.store(bits, [], exponent)
    with b.loops([width(base.element)]):
        factor, left = b.load(square, []), b.load(bits, [])
        odd = (left & 1).compare("ne", 0)
        b.store(power, [], b.load(power, []) * odd.select(factor, one))
        b.store(square, [], factor * factor)
        b.store(bits, [], left.shift_right(1))
    result = b.load(power, [])
    if is_unsigned(base.element):
        return result
    odd = (exponent & 1).compare("ne", 0)
    unit = base.compare("eq", 1) | base.compare("eq", -1)
    inverse = unit.select(odd.select(base, one), zero)
    return (exponent < 0).select(inverse, result)


OPS: tuple[type[GraphOp], ...] = (
    ExpOp, LogOp, Expm1Op, Log1pOp, SqrtOp, ErfOp, PowOp,
)  # fmt: skip
