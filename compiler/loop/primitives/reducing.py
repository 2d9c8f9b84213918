"""The primitive that splits a reduction into partial results."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.loop.legality import require_known
from compiler.loop.nest import Update, accesses_in, describe, new_loop, set_exprs, update_of
from compiler.loop.primitives.recording import primitive
from compiler.loop.primitives.tiling import tile
from dialects.errors import IllegalSchedule
from dialects.expr import atom_expr
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp
from dialects.loop.scalar import Number, constant, is_float, is_unsigned, width
from dialects.loop.types import buffer, buffer_type


class PartialResults(NamedTuple):
    """The loops that a split reduction consists of, in their order."""

    initialize: ForOp
    outer: ForOp
    inner: ForOp
    remainder: ForOp | None
    combine: ForOp


@primitive
def split_reduction(loop: ForOp, parts: int, *, scope: str = "registers") -> PartialResults:
    """Makes `parts` independent partial results of a reduction, combined at the end.

        for k < 64 reduction(add):  s[i] += x[i, k]
        ->  p = alloc [16];  for l < 16:  p[l] = 0
            for ko < 4:  for ki < 16:  p[ki] += x[i, 16*ko + ki]
            for l < 16 reduction(add):  s[i] += p[l]

    The inner loop then carries nothing and can be vectorised. What is left after the last whole
    tile is combined into the element as before. Raises IllegalSchedule for a loop without the mark,
    or whose body is not made of such updates only.
    """
    require_known("split_reduction", loop)
    updates = _updates_of(loop)
    outer, inner, remainder = tile(loop, parts)
    inner.properties.pop("reduction", None)
    before, after = InsertPoint.before(outer), InsertPoint.after(remainder or outer)
    initialize, combine = new_loop(parts, "l"), new_loop(parts, "l", outer)
    partials = [_allocate(update, parts, scope, before) for update in updates]
    Rewriter.insert_op(initialize, before)
    Rewriter.insert_op(combine, after)
    for update, partial in zip(updates, partials, strict=True):
        _store_neutral(update, partial, initialize)
        _combine(update, partial, combine)
        _redirect(update, partial, inner)
    return PartialResults(initialize, outer, inner, remainder, combine)


def _updates_of(loop: ForOp) -> list[Update]:
    """The updates in a reduction's body, each of an element that is the same in every iteration."""
    kind = None if loop.reduction is None else loop.reduction.data
    stores = [access for access in accesses_in(loop) if isinstance(access, StoreOp)]
    updates: list[Update] = []
    for store in stores:
        update = update_of(store)
        fixed = loop.index not in store.operands_ and store.parent is loop.body.block
        if update is None or update.kind != kind or not fixed:
            rule = f"a loop marked as a reduction, with updates of its kind only ({kind})"
            raise IllegalSchedule(f"split_reduction requires {rule}, got {describe(store)}")
        updates.append(update)
    updated = {update.store.buffer for update in updates}
    own = {access for update in updates for access in (update.load, update.store)}
    for access in accesses_in(loop):
        if access.buffer in updated and access not in own:
            rule = "that only updates read what they update"
            raise IllegalSchedule(f"split_reduction requires {rule}, got {describe(access)}")
    return updates


def _allocate(update: Update, parts: int, scope: str, point: InsertPoint) -> SSAValue:
    allocation = AllocOp.of(buffer([parts], buffer_type(update.store.buffer).element), scope)
    allocation.result.name_hint = f"{update.store.buffer.name_hint or 'sum'}_parts"
    Rewriter.insert_op(allocation, point)
    return allocation.result


def _store_neutral(update: Update, partial: SSAValue, loop: ForOp) -> None:
    builder = Builder(InsertPoint.at_end(loop.body.block))
    element = buffer_type(partial).element
    neutral = constant(builder, _neutral(update.kind, element), element)
    builder.insert(StoreOp.of(neutral.value, partial, [atom_expr(loop.index)]))


def _neutral(kind: str, element: Attribute) -> Number:
    """The number that leaves any other unchanged."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "mul":
        return 1
    if is_float(element):
        return float("-inf") if kind == "max" else float("inf")
    ones = (1 << width(element)) - 1
    if is_unsigned(element):
        return 0 if kind == "max" else ones
    if kind == "and":
        return -1
    return -(ones // 2) - 1 if kind == "max" else ones // 2


def _combine(update: Update, partial: SSAValue, loop: ForOp) -> None:
    """Combines the partial results into the element that the reduction updates."""
    builder = Builder(InsertPoint.at_end(loop.body.block))
    index = update.store.index
    part = builder.insert(LoadOp.of(partial, [atom_expr(loop.index)])).result
    total = builder.insert(LoadOp.of(update.store.buffer, list(index))).result
    total, part = (_as_computed(update, value, builder) for value in (total, part))
    first = update.combine.operands[0]
    ordered = (part, total) if first is update.contribution else (total, part)
    copies = dict(zip(update.combine.operands, ordered, strict=True))
    combined = builder.insert(update.combine.clone(copies)).results[0]
    rounding = update.store.value.owner
    if isinstance(rounding, arith.TruncFOp):
        combined = builder.insert(rounding.clone({rounding.input: combined})).result
    builder.insert(StoreOp.of(combined, update.store.buffer, list(index)))


def _as_computed(update: Update, value: SSAValue, builder: Builder) -> SSAValue:
    """The value in the type that the update computes in, which is wider than f16 and bf16."""
    computed = update.combine.results[0].type
    return (
        value
        if value.type == computed
        else builder.insert(arith.ExtFOp(value, computed)).results[0]
    )


def _redirect(update: Update, partial: SSAValue, loop: ForOp) -> None:
    for access in (update.load, update.store):
        operands = [partial if old is access.buffer else old for old in access.operands]
        access.operands = operands
        set_exprs(access, [atom_expr(loop.index)])
