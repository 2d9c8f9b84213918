"""Partial results of a reduction: what they start from, and how they join what is there."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.loop.matchers import Update
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import LoadOp, StoreOp
from weft.dialects.loop.scalar import Number, is_float, is_unsigned, width


def neutral_of(combiner: str, element: Attribute) -> Number:
    """The number that leaves any other unchanged."""
    if combiner in ("add", "or", "xor"):
        return 0
    if combiner == "mul":
        return 1
    if is_float(element):
        return float("-inf") if combiner == "max" else float("inf")
    ones = (1 << width(element)) - 1
    if is_unsigned(element):
        return 0 if combiner == "max" else ones
    if combiner == "and":
        return -1
    return -(ones // 2) - 1 if combiner == "max" else ones // 2


def combine(
    update: Update,
    target: tuple[SSAValue, Sequence[Expr]],
    partial: SSAValue,
    position: Sequence[Expr],
    point: InsertPoint,
) -> None:
    """Combines a partial result into an element as the reduction does."""
    builder = Builder(point)
    total = builder.insert(LoadOp.of(target[0], list(target[1]))).result
    part = builder.insert(LoadOp.of(partial, list(position))).result
    total, part = (_as_computed(update, value, builder) for value in (total, part))
    first = update.combine.operands[0]
    ordered = (part, total) if first is update.contribution else (total, part)
    copies = dict(zip(update.combine.operands, ordered, strict=True))
    combined = builder.insert(update.combine.clone(copies)).results[0]
    rounding = update.store.value.owner
    if isinstance(rounding, arith.TruncFOp):
        combined = builder.insert(rounding.clone({rounding.input: combined})).result
    builder.insert(StoreOp.of(combined, target[0], list(target[1])))


def _as_computed(update: Update, value: SSAValue, builder: Builder) -> SSAValue:
    """The value in the type that the update computes in, which is wider than f16 and bf16."""
    computed = update.combine.results[0].type
    return (
        value
        if value.type == computed
        else builder.insert(arith.ExtFOp(value, computed)).results[0]
    )
