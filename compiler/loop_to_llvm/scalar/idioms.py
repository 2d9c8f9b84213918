"""What kernels write in several operations and one function computes at once, as they may where
products and sums are fused.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, FloatAttr
from xdsl.dialects.math import ErfOp
from xdsl.ir import Operation, SSAValue

from compiler.loop_to_llvm.scalar.fused_multiply_add import is_fused


def gelu_operand(op: Operation) -> SSAValue | None:
    """x of f32, where the operation is the last of `x/2 * erf(x / sqrt(2)) + x/2`."""
    if not isinstance(op, arith.AddfOp) or not isinstance(op.result.type, Float32Type):
        return None
    for product, half in ((op.lhs.owner, op.rhs), (op.rhs.owner, op.lhs)):
        if isinstance(product, arith.MulfOp) and half in product.operands:
            error = product.rhs.owner if product.lhs is half else product.lhs.owner
            operand = _divided(half, 0.5)
            if isinstance(error, ErfOp) and operand is not None:
                return operand if _divided(error.operand, math.sqrt(0.5)) is operand else None
    return None


def is_within_gelu(op: Operation) -> bool:
    """Whether an error function is computed for nothing but that."""
    if not isinstance(op, ErfOp):
        return False
    products = [use.operation for use in op.result.uses]
    if not all(is_fused(product) for product in products):
        return False
    sums = [use.operation for product in products for use in product.results[0].uses]
    return bool(sums) and all(gelu_operand(each) is not None for each in sums)


def _divided(value: SSAValue, factor: float) -> SSAValue | None:
    """The value that is multiplied by a factor, rounded to f32."""
    product = value.owner
    if not isinstance(product, arith.MulfOp) or not isinstance(product.rhs.owner, arith.ConstantOp):
        return None
    number = product.rhs.owner.value
    close = isinstance(number, FloatAttr) and abs(number.value.data - factor) < 2.0**-25
    return product.lhs if close else None
