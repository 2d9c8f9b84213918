"""Which products and sums become one fused multiply-add, rounded once."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation


def fused_product(op: Operation) -> arith.MulfOp | None:
    """The product that an addition or subtraction takes in: one that nothing else uses, of two the
    first, as LLVM chooses where it is allowed to contract, and so XLA.
    """
    if not isinstance(op, (arith.AddfOp, arith.SubfOp)):
        return None
    if not isinstance(op.result.type, (Float32Type, Float64Type)):
        return None
    for operand in (op.lhs, op.rhs):
        product = operand.owner
        if not isinstance(product, arith.MulfOp) or product.parent is not op.parent:
            continue
        if product.result.has_one_use():
            return product
    return None


def is_fused(op: Operation) -> bool:
    """Whether the operation is a product that the only use of it takes in."""
    if not isinstance(op, arith.MulfOp) or not op.result.has_one_use():
        return False
    (use,) = op.result.uses
    return fused_product(use.operation) is op
