"""Trigonometric and hyperbolic functions and their inverses, elementwise, in radians."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import MathOp
from weft.dialects.graph.core.op import GraphOp, OnnxName


class TrigonometricOp(MathOp):
    """A function whose derivative is written with squares."""

    def one_plus_square(self, b: GraphBuilder, value: SSAValue) -> SSAValue:
        """`1 + v * v`."""
        return b.add(self.number(b, 1), b.mul(value, value))

    def one_minus_square(self, b: GraphBuilder, value: SSAValue) -> SSAValue:
        """`1 - v * v`."""
        return b.sub(self.number(b, 1), b.mul(value, value))


@irdl_op_definition
class SinOp(TrigonometricOp):
    """The sine."""

    name = "graph.sin"
    ONNX: ClassVar = OnnxName("Sin")
    NUMPY: ClassVar = np.sin

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.cos(self.operand)


@irdl_op_definition
class CosOp(TrigonometricOp):
    """The cosine."""

    name = "graph.cos"
    ONNX: ClassVar = OnnxName("Cos")
    NUMPY: ClassVar = np.cos

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.neg(b.sin(self.operand))


@irdl_op_definition
class TanOp(TrigonometricOp):
    """The tangent."""

    name = "graph.tan"
    ONNX: ClassVar = OnnxName("Tan")
    NUMPY: ClassVar = np.tan

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.one_plus_square(b, self.result)


@irdl_op_definition
class AsinOp(TrigonometricOp):
    """The inverse sine; NaN outside [-1, 1]."""

    name = "graph.asin"
    ONNX: ClassVar = OnnxName("Asin")
    NUMPY: ClassVar = np.arcsin

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(b.sqrt(self.one_minus_square(b, self.operand)))


@irdl_op_definition
class AcosOp(TrigonometricOp):
    """The inverse cosine; NaN outside [-1, 1]."""

    name = "graph.acos"
    ONNX: ClassVar = OnnxName("Acos")
    NUMPY: ClassVar = np.arccos

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.neg(b.reciprocal(b.sqrt(self.one_minus_square(b, self.operand))))


@irdl_op_definition
class AtanOp(TrigonometricOp):
    """The inverse tangent."""

    name = "graph.atan"
    ONNX: ClassVar = OnnxName("Atan")
    NUMPY: ClassVar = np.arctan

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(self.one_plus_square(b, self.operand))


@irdl_op_definition
class SinhOp(TrigonometricOp):
    """The hyperbolic sine."""

    name = "graph.sinh"
    ONNX: ClassVar = OnnxName("Sinh")
    NUMPY: ClassVar = np.sinh

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.cosh(self.operand)


@irdl_op_definition
class CoshOp(TrigonometricOp):
    """The hyperbolic cosine."""

    name = "graph.cosh"
    ONNX: ClassVar = OnnxName("Cosh")
    NUMPY: ClassVar = np.cosh

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.sinh(self.operand)


@irdl_op_definition
class TanhOp(TrigonometricOp):
    """The hyperbolic tangent."""

    name = "graph.tanh"
    ONNX: ClassVar = OnnxName("Tanh")
    NUMPY: ClassVar = np.tanh

    def slope(self, b: GraphBuilder) -> SSAValue:
        return self.one_minus_square(b, self.result)


@irdl_op_definition
class AsinhOp(TrigonometricOp):
    """The inverse hyperbolic sine."""

    name = "graph.asinh"
    ONNX: ClassVar = OnnxName("Asinh")
    NUMPY: ClassVar = np.arcsinh

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(b.sqrt(self.one_plus_square(b, self.operand)))


@irdl_op_definition
class AcoshOp(TrigonometricOp):
    """The inverse hyperbolic cosine; NaN below 1."""

    name = "graph.acosh"
    ONNX: ClassVar = OnnxName("Acosh")
    NUMPY: ClassVar = np.arccosh

    def slope(self, b: GraphBuilder) -> SSAValue:
        square = b.neg(self.one_minus_square(b, self.operand))
        return b.reciprocal(b.sqrt(square))


@irdl_op_definition
class AtanhOp(TrigonometricOp):
    """The inverse hyperbolic tangent; NaN outside [-1, 1]."""

    name = "graph.atanh"
    ONNX: ClassVar = OnnxName("Atanh")
    NUMPY: ClassVar = np.arctanh

    def slope(self, b: GraphBuilder) -> SSAValue:
        return b.reciprocal(self.one_minus_square(b, self.operand))


OPS: tuple[type[GraphOp], ...] = (
    SinOp, CosOp, TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp, TanhOp, AsinhOp, AcoshOp, AtanhOp,
)  # fmt: skip
