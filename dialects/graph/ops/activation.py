"""Activation functions, elementwise. The derivative at a kink is that of the left side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.batching import spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import BinaryOp, FloatUnaryOp, UnaryOp, sum_to
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import TensorType
from weft.dialects.graph.ops.exponential import erf
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

Parameter = FloatAttr[AnyFloat]


class ActivationOp(FloatUnaryOp):
    """A function of floats with two branches or parameters."""

    def where_positive(self, b: GraphBuilder, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        """`then` where the operand is above zero."""
        return b.where(b.greater(self.operand, self.number(b, 0)), then, otherwise)

    def where_inside(
        self, b: GraphBuilder, low: float, high: float, then: SSAValue, otherwise: SSAValue
    ) -> SSAValue:
        """`then` where the operand is above `low` and at most `high`."""
        above = b.greater(self.operand, self.number(b, low))
        below = b.less_equal(self.operand, self.number(b, high))
        return b.where(b.logical_and(above, below), then, otherwise)


@irdl_op_definition
class ReluOp(UnaryOp):
    """`max(x, 0)`."""

    name = "graph.relu"
    ONNX: ClassVar = OnnxName("Relu")

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.maximum(operands[0], np.zeros((), operands[0].dtype))]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0].maximum(0)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero = self.number(b, 0)  # by the result, which what follows keeps anyway
        return [b.where(b.greater(self.results[0], zero), cotangents[0], zero)]


@irdl_op_definition
class SigmoidOp(ActivationOp):
    """`1 / (1 + exp(-x))`."""

    name = "graph.sigmoid"
    ONNX: ClassVar = OnnxName("Sigmoid")

    def evaluate(self, x: Array) -> Array:
        return 1 / (1 + np.exp(-x))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return sigmoid(operands[0])

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.mul(self.result, b.sub(self.number(b, 1), self.result))


def sigmoid(x: Scalar) -> Scalar:
    """`1 / (1 + exp(-x))` inside a loop nest."""
    return x.constant(1) / ((-x).math("exp") + 1)


@irdl_op_definition
class GeluOp(ActivationOp):
    """`x` times the normal distribution up to `x`; `tanh` approximates the latter.

    none: `x / 2 * (1 + erf(x / sqrt(2)))`;
    tanh: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`.
    """

    name = "graph.gelu"
    approximate: StringAttr = prop_def(StringAttr)
    ONNX: ClassVar = OnnxName("Gelu", {"approximate": ("approximate", "none")})
    SLOPE_AT_ZERO: ClassVar = math.sqrt(2 / math.pi)
    CUBIC: ClassVar = 0.044715

    @property
    def is_exact(self) -> bool:
        """Whether the error function is used."""
        return self.approximate.data == "none"

    def infer(self) -> Sequence[TensorType]:
        given = self.approximate.data
        self.require(given in ("none", "tanh"), "an approximation none or tanh", given)
        return super().infer()

    def evaluate(self, x: Array) -> Array:
        if self.is_exact:
            return 0.5 * x * (1 + erf(np.asarray(x * math.sqrt(0.5))))
        return 0.5 * x * (1 + np.tanh(self.SLOPE_AT_ZERO * (x + self.CUBIC * x * x * x)))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        if self.is_exact:
            return x.math("gelu")
        distribution = ((x + x * x * x * self.CUBIC) * self.SLOPE_AT_ZERO).math("tanh")
        half = x * 0.5
        return half * distribution + half

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self._exact_slope(b) if self.is_exact else self._tanh_slope(b)

    def _exact_slope(self, b: GraphBuilder) -> SSAValue:
        """`(1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi)`."""
        x, half = self.operand, self.number(b, 0.5)
        distribution = b.erf(b.mul(x, self.number(b, math.sqrt(0.5))))
        bell = b.exp(b.mul(b.mul(x, x), self.number(b, -0.5)))
        density = b.mul(bell, self.number(b, 1 / math.sqrt(2 * math.pi)))
        return b.add(b.add(half, b.mul(half, distribution)), b.mul(x, density))

    def _tanh_slope(self, b: GraphBuilder) -> SSAValue:
        """With `t` the tanh of `u`: `(1 + t) / 2 + x / 2 * (1 - t * t) * u'`."""
        x, half, one = self.operand, self.number(b, 0.5), self.number(b, 1)
        square = b.mul(x, x)
        cubic = b.add(one, b.mul(square, self.number(b, self.CUBIC)))
        scale = self.number(b, self.SLOPE_AT_ZERO)
        tangent = b.tanh(b.mul(scale, b.mul(x, cubic)))
        inner = b.mul(scale, b.add(one, b.mul(square, self.number(b, 3 * self.CUBIC))))
        rise = b.mul(b.sub(one, b.mul(tangent, tangent)), inner)
        return b.mul(half, b.add(b.add(one, tangent), b.mul(x, rise)))


@irdl_op_definition
class EluOp(ActivationOp):
    """`x` above zero, else `alpha * (exp(x) - 1)`."""

    name = "graph.elu"
    alpha: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName("Elu", {"alpha": ("alpha", 1.0)})

    def evaluate(self, x: Array) -> Array:
        return np.where(x > 0, x, self.alpha.value.data * np.expm1(x))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return (x > 0).select(x, x.math("expm1") * self.alpha.value.data)

    def slope(self, b: GraphBuilder) -> SSAValue:
        below = b.add(self.result, self.number(b, self.alpha.value.data))
        return self.where_positive(b, self.number(b, 1), below)


@irdl_op_definition
class SeluOp(ActivationOp):
    """`gamma * x` above zero, else `gamma * alpha * (exp(x) - 1)`."""

    name = "graph.selu"
    alpha: Parameter = prop_def(FloatAttr)
    gamma: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName(
        "Selu", {"alpha": ("alpha", 1.6732631921768188), "gamma": ("gamma", 1.0507010221481323)}
    )

    def evaluate(self, x: Array) -> Array:
        below = self.alpha.value.data * np.expm1(x)
        return self.gamma.value.data * np.where(x > 0, x, below)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        below = x.math("expm1") * self.alpha.value.data
        return (x > 0).select(x, below) * self.gamma.value.data

    def slope(self, b: GraphBuilder) -> SSAValue:
        gamma = self.gamma.value.data
        below = b.add(self.result, self.number(b, gamma * self.alpha.value.data))
        return self.where_positive(b, self.number(b, gamma), below)


@irdl_op_definition
class CeluOp(ActivationOp):
    """`x` above zero, else `alpha * (exp(x / alpha) - 1)`."""

    name = "graph.celu"
    alpha: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName("Celu", {"alpha": ("alpha", 1.0)})

    def infer(self) -> Sequence[TensorType]:
        self.require(self.alpha.value.data != 0, "an alpha other than 0", self.alpha.value.data)
        return super().infer()

    def evaluate(self, x: Array) -> Array:
        alpha = self.alpha.value.data
        return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        alpha = self.alpha.value.data
        below = (x / alpha).math("expm1") * alpha
        return x.maximum(0) + below.minimum(0)

    def slope(self, b: GraphBuilder) -> SSAValue:
        below = b.exp(b.div(self.operand, self.number(b, self.alpha.value.data)))
        return self.where_positive(b, self.number(b, 1), below)


@irdl_op_definition
class LeakyReluOp(ActivationOp):
    """`x` where it is not below zero, else `alpha * x`."""

    name = "graph.leaky_relu"
    alpha: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName("LeakyRelu", {"alpha": ("alpha", 0.009999999776482582)})

    def evaluate(self, x: Array) -> Array:
        return np.where(x >= 0, x, self.alpha.value.data * x)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return (x >= 0).select(x, x * self.alpha.value.data)

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.where_positive(b, self.number(b, 1), self.number(b, self.alpha.value.data))


@irdl_op_definition
class PreluOp(BinaryOp):
    """`x` where it is not below zero, else `slope * x`; the slope is broadcast to x."""

    name = "graph.prelu"
    ONNX: ClassVar = OnnxName("PRelu")

    def infer(self) -> Sequence[TensorType]:
        (result,) = super().infer()
        lhs, rhs = self.tensor_types()
        same = not lhs.has_rank or not rhs.has_rank or result == lhs
        self.require(same, "a slope that can be broadcast to the operand", f"{rhs} and {lhs}")
        return [lhs]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, slope = operands
        return [np.where(x >= 0, x, slope * x)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        x, slope = operands
        return (x >= 0).select(x, slope * x)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        zero = self.number(b, 0)
        positive = b.greater(self.lhs, zero)
        below = b.mul(cotangents[0], self.rhs)
        slopes = b.where(positive, zero, b.mul(cotangents[0], self.lhs))
        return [b.where(positive, cotangents[0], below), sum_to(b, slopes, self.rhs)]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        """The slope is broadcast to `x`, which so has the axis, too."""
        x = spread(b, operands[0], self.lhs, size)
        return super().vmap([x, operands[1]], size, b)


@irdl_op_definition
class ThresholdedReluOp(ActivationOp):
    """`x` above `alpha`, else 0."""

    name = "graph.thresholded_relu"
    alpha: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName("ThresholdedRelu", {"alpha": ("alpha", 1.0)})

    def evaluate(self, x: Array) -> Array:
        return np.where(x > self.alpha.value.data, x, np.zeros((), x.dtype))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return (x > self.alpha.value.data).select(x, x.constant(0))

    def slope(self, b: GraphBuilder) -> SSAValue:
        above = b.greater(self.operand, self.number(b, self.alpha.value.data))
        return b.where(above, self.number(b, 1), self.number(b, 0))


@irdl_op_definition
class HardSigmoidOp(ActivationOp):
    """`max(0, min(1, alpha * x + beta))`."""

    name = "graph.hard_sigmoid"
    alpha: Parameter = prop_def(FloatAttr)
    beta: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName(
        "HardSigmoid", {"alpha": ("alpha", 0.20000000298023224), "beta": ("beta", 0.5)}
    )

    def evaluate(self, x: Array) -> Array:
        line = self.alpha.value.data * x + self.beta.value.data
        return np.maximum(0, np.minimum(1, line)).astype(x.dtype)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        line = operands[0] * self.alpha.value.data + self.beta.value.data
        return line.minimum(1).maximum(0)

    def slope(self, b: GraphBuilder) -> SSAValue:
        zero, one, alpha = (self.number(b, v) for v in (0, 1, self.alpha.value.data))
        inside = b.logical_and(b.greater(self.result, zero), b.less(self.result, one))
        return b.where(inside, alpha, zero)


@irdl_op_definition
class HardSwishOp(ActivationOp):
    """`x * max(0, min(1, x / 6 + 1 / 2))`."""

    name = "graph.hard_swish"
    ONNX: ClassVar = OnnxName("HardSwish")

    def evaluate(self, x: Array) -> Array:
        return x * np.maximum(0, np.minimum(1, x * (1 / 6) + 0.5)).astype(x.dtype)

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return x * (x * (1 / 6) + 0.5).minimum(1).maximum(0)

    def slope(self, b: GraphBuilder) -> SSAValue:
        """`x / 3 + 1 / 2` between -3 and 3."""
        line = b.add(b.mul(self.operand, self.number(b, 1 / 3)), self.number(b, 0.5))
        outside = self.where_positive(b, self.number(b, 1), self.number(b, 0))
        return self.where_inside(b, -3, 3, line, outside)


@irdl_op_definition
class SoftplusOp(ActivationOp):
    """`log(1 + exp(x))`, computed as `max(x, 0) + log1p(exp(-|x|))`."""

    name = "graph.softplus"
    ONNX: ClassVar = OnnxName("Softplus")

    def evaluate(self, x: Array) -> Array:
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return softplus(operands[0])

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.sigmoid(self.operand)


def softplus(x: Scalar) -> Scalar:
    """`log(1 + exp(x))` inside a loop nest."""
    return x.maximum(0) + (-x.math("absf")).math("exp").math("log1p")


@irdl_op_definition
class SoftsignOp(ActivationOp):
    """`x / (1 + |x|)`."""

    name = "graph.softsign"
    ONNX: ClassVar = OnnxName("Softsign")

    def evaluate(self, x: Array) -> Array:
        return x / (1 + np.abs(x))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return x / (x.math("absf") + 1)

    def slope(self, b: GraphBuilder) -> SSAValue:
        width = b.add(b.abs(self.operand), self.number(b, 1))
        return b.reciprocal(b.mul(width, width))


@irdl_op_definition
class MishOp(ActivationOp):
    """`x * tanh(log(1 + exp(x)))`."""

    name = "graph.mish"
    ONNX: ClassVar = OnnxName("Mish")

    def evaluate(self, x: Array) -> Array:
        return x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        return operands[0] * softplus(operands[0]).math("tanh")

    def slope(self, b: GraphBuilder) -> SSAValue:
        """With `t = tanh(softplus(x))`: `t + x * sigmoid(x) * (1 - t * t)`."""
        tangent = b.tanh(b.softplus(self.operand))
        rest = b.sub(self.number(b, 1), b.mul(tangent, tangent))
        return b.add(tangent, b.mul(b.mul(self.operand, b.sigmoid(self.operand)), rest))


@irdl_op_definition
class SwishOp(ActivationOp):
    """`x / (1 + exp(-alpha * x))`."""

    name = "graph.swish"
    alpha: Parameter = prop_def(FloatAttr)
    ONNX: ClassVar = OnnxName("Swish", {"alpha": ("alpha", 1.0)})

    def evaluate(self, x: Array) -> Array:
        return x * (1 / (1 + np.exp(-self.alpha.value.data * x)))

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        (x,) = operands
        return x * sigmoid(x * self.alpha.value.data)

    def slope(self, b: GraphBuilder) -> SSAValue:
        """With `s = sigmoid(alpha * x)`: `s + alpha * y * (1 - s)`."""
        alpha = self.number(b, self.alpha.value.data)
        gate = b.sigmoid(b.mul(alpha, self.operand))
        rest = b.mul(b.mul(alpha, self.result), b.sub(self.number(b, 1), gate))
        return b.add(gate, rest)


OPS: tuple[type[GraphOp], ...] = (
    ReluOp, SigmoidOp, GeluOp, EluOp, SeluOp, CeluOp, LeakyReluOp, PreluOp, ThresholdedReluOp,
    HardSigmoidOp, HardSwishOp, SoftplusOp, SoftsignOp, MishOp, SwishOp,
)  # fmt: skip
