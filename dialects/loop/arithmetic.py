"""Scalar operations of kernels beside those that xDSL has in arith and math."""

from __future__ import annotations

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation, Math
from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """The exact remainder of a division, with the dividend's sign: C's fmod."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class GeluOp(FloatingPointLikeUnaryMathOperation):
    """`x/2 * erf(x / sqrt(2)) + x/2` of f32 or f64: `%y = loop.gelu %x : f32`."""

    name = "loop.gelu"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind = self.operand.type
        if not isinstance(kind, Float32Type | Float64Type):
            raise VerifyException(f"loop.gelu requires an operand of f32 or f64, got {kind}")


def is_function(op: Operation) -> bool:
    """Whether the operation is a mathematical function, which costs more than an instruction."""
    return op.dialect_name() == Math.name or isinstance(op, GeluOp)
