"""The primitives that split a reduction into partial results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from xdsl.builder import Builder
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from weft.compiler.loop.legality import require_known
from weft.compiler.loop.matchers import Update, update_of
from weft.compiler.loop.nest import (
    accesses_in,
    combiner_of,
    describe,
    new_loop,
    redirect,
    stores_in,
)
from weft.compiler.loop.primitives.ordering import distribute
from weft.compiler.loop.primitives.packing import hoist_allocation
from weft.compiler.loop.primitives.partials import combine, neutral_of
from weft.compiler.loop.primitives.recording import primitive
from weft.compiler.loop.primitives.staging import stage_accumulators
from weft.compiler.loop.primitives.tiling import tile
from weft.compiler.loop.strides import stride
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AllocOp, ForOp, StoreOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import constant
from weft.dialects.loop.types import buffer, buffer_type_of


class PartialResults(NamedTuple):
    """The loops that a split reduction consists of, in their order.

    `halvings` add the upper half of the partial results to the lower one until there is one;
    `rest` are whole iterations of the remainder, where it has partial results of its own.
    """

    initialize: ForOp
    outer: ForOp
    inner: ForOp
    rest: ForOp | None
    remainder: ForOp | None
    halvings: tuple[ForOp, ...]


class Blocks(NamedTuple):
    """The loops that a reduction in blocks consists of: the one over blocks, the one within a
    block, the remainder, and the one that combines the results of blocks.
    """

    outer: ForOp
    inner: ForOp
    remainder: ForOp | None
    combine: ForOp


@primitive
def split_reduction(
    loop: ForOp, parts: int, *, rest: int | None = None, scope: str = "registers"
) -> PartialResults:
    """Makes `parts` independent partial results of a reduction, combined pairwise at the end.

        for k < 67 reduction(add):  s[i] += x[i, k]
        ->  p = alloc [16];  for l < 16:  p[l] = 0
            for ko < 4:  for ki < 16:  p[ki] += x[i, 16*ko + ki]
            for kr < 3:  p[kr] += x[i, 64 + kr]
            for l < 8:  p[l] += p[8 + l]; ...
            for l < 1:  p[l] += p[1 + l]
            s[i] += p[0]

    The loops over partial results then carry nothing and can be vectorised. The iterations of a
    remainder have so many partial results each, or `rest`, a power of two below `parts`: then they
    come when there are so many left, so that a length that only a call knows needs no registers
    that it alone chooses.

        for k < n reduction(add):  s += x[k]
        ->  ...;  for ko < n / 64:  for ki < 64:  p[ki] += x[64*ko + ki]
            for l < 32:  p[l] += p[32 + l];  for l < 16:  p[l] += p[16 + l]
            for kro < n % 64 / 16:  for kri < 16:  p[kri] += x[...]
            for krr < n % 16:  p[krr] += x[...]
            for l < 8:  p[l] += p[8 + l]; ...

    Raises IllegalSchedule for a loop without the mark, for one whose body stores anything but such
    updates and elements of each iteration's own, and for another `rest`.
    """
    _require_rest(rest, parts)
    require_known("split_reduction", loop)
    updates = _updates_of("split_reduction", loop)
    outer, inner, remainder = tile(loop, parts)
    inner.properties.pop("reduction", None)
    behind = InsertPoint.after(remainder or outer)
    initialize, partials = _initialize(updates, parts, scope, InsertPoint.before(outer))
    halvings = _halve(updates, partials, parts, behind)
    end = InsertPoint.after(halvings[-1]) if halvings else behind
    for update, partial in zip(updates, partials, strict=True):
        combine(update, (update.store.buffer, update.store.index), partial, [Expr.of(0)], end)
    whole, last = _delay(remainder, rest, halvings)
    for each in (whole, last):
        if each is not None:
            # A clone of the loop: its updates are those of the first part in the same order.
            again = _updates_of("split_reduction", each)
            each.properties.pop("reduction", None)
            for update, partial in zip(again, partials, strict=True):
                _redirect(update, partial, Expr.atom(each.index))
    for update, partial in zip(updates, partials, strict=True):
        _redirect(update, partial, Expr.atom(inner.index))
    return PartialResults(initialize, outer, inner, whole, last, halvings)


def _initialize(
    updates: Sequence[Update], parts: int, scope: str, before: InsertPoint
) -> tuple[ForOp, list[SSAValue]]:
    """The loop that makes partial results neutral, and these."""
    loop = new_loop(parts, "l")
    partials = [_allocate(update, parts, scope, before) for update in updates]
    Rewriter.insert_op(loop, before)
    for update, partial in zip(updates, partials, strict=True):
        _store_neutral(update, partial, loop.index, loop.body.block)
    return loop, partials


def _require_rest(rest: int | None, parts: int) -> None:
    """Refuses a number of partial results that halving so many never leaves, or all of them."""
    if rest is not None and (rest >= parts or rest & (rest - 1) or parts & (parts - 1)):
        rule = "powers of two as parts, and a smaller one as rest"
        raise IllegalSchedule(f"split_reduction requires {rule}, got {parts} and {rest}")


def _delay(
    remainder: ForOp | None, rest: int | None, halvings: Sequence[ForOp]
) -> tuple[ForOp | None, ForOp | None]:
    """Moves a remainder behind the halvings that leave `rest` partial results; returns the loop
    over whole iterations of these, and the one over what is left.
    """
    if remainder is None or rest is None:
        return None, remainder
    remainder.detach()
    Rewriter.insert_op(remainder, InsertPoint.before(halvings[-rest.bit_length() + 1]))
    _, whole, last = tile(remainder, rest)
    return whole, last


@primitive
def block_reduction(loop: ForOp, size: int, *, scope: str = "workspace") -> Blocks:
    """Makes a partial result of each block of `size` iterations, combined in order at the end.

        for k < 70 reduction(add):  s += x[k]
        ->  p = alloc [4]
            for ko < 4:  p[ko] = 0;  for ki < 16 reduction(add):  p[ko] += x[16*ko + ki]
            for kr < 6 reduction(add):  s += x[64 + kr]
            for l < 4 reduction(add):  s += p[l]

    The loop over blocks then carries nothing and may run in parallel; how many blocks there are
    depends on the extent alone. Of a loop around others that update one buffer, each block has
    partial results of the tile that they update. Raises IllegalSchedule as split_reduction and, for
    such a tile, stage_accumulators do, and for a loop inside another.
    """
    require_known("block_reduction", loop)
    if not isinstance(loop.parent_op(), KernelOp):
        got = describe(loop)
        raise IllegalSchedule(f"block_reduction requires an outermost loop, got {got}")
    stores = stores_in(loop)
    if len(stores) == 1 and stores[0].parent is not loop.body.block:
        return _block_tile(loop, size, scope, stores[0])
    updates = _updates_of("block_reduction", loop)
    outer, inner, remainder = tile(loop, size)
    outer.properties.pop("reduction", None)
    combining = new_loop(outer.extent, "l", inner)
    Rewriter.insert_op(combining, InsertPoint.after(remainder or outer))
    for update in updates:
        partial = _allocate(update, outer.extent, scope, InsertPoint.before(outer))
        end = InsertPoint.at_end(combining.body.block)
        target = update.store.buffer, update.store.index
        combine(update, target, partial, [Expr.atom(combining.index)], end)
        _redirect(update, partial, Expr.atom(outer.index))
        _store_neutral(update, partial, outer.index, outer.body.block, first=True)
    return Blocks(outer, inner, remainder, combining)


def _block_tile(loop: ForOp, size: int, scope: str, store: StoreOp) -> Blocks:
    """Makes partial results of the tile that loops inside a loop update in each block of it."""
    update = update_of(store)
    if update is None or combiner_of(loop) != update.combiner:
        _refuse_update("block_reduction", combiner_of(loop), store)
    outer, inner, remainder = tile(loop, size)
    partial = stage_accumulators(store.buffer, outer, scope)
    allocation = partial.buffer.owner
    assert isinstance(allocation, AllocOp), "partial results are allocated"
    hoist_allocation(allocation, per_iteration=True)
    combining = distribute(outer, partial.write_back[0])
    outer.properties.pop("reduction", None)
    return Blocks(outer, inner, remainder, combining)


def _updates_of(who: str, loop: ForOp) -> list[Update]:
    """The updates in a reduction's body, each of an element that is the same in every iteration.
    What else is stored is at elements of the iteration's own, whose order stays as it is.
    """
    combiner = combiner_of(loop)
    updates: list[Update] = []
    for store in stores_in(loop):
        step = stride(store, loop)
        if store.parent is loop.body.block and step is not None and step != 0:
            continue
        update = update_of(store)
        fixed = loop.index not in store.operands_ and store.parent is loop.body.block
        if update is None or update.combiner != combiner or not fixed:
            _refuse_update(who, combiner, store)
        updates.append(update)
    if not updates:
        _refuse_update(who, combiner, next(iter(stores_in(loop)), loop))
    updated = {update.store.buffer for update in updates}
    own = {access for update in updates for access in (update.load, update.store)}
    for access in accesses_in(loop):
        if access.buffer in updated and access not in own:
            rule = "that only updates read what they update"
            raise IllegalSchedule(f"{who} requires {rule}, got {describe(access)}")
    return updates


def _refuse_update(who: str, combiner: str | None, got: Operation) -> NoReturn:
    rule = f"a loop marked as a reduction, with updates of its kind only ({combiner})"
    raise IllegalSchedule(f"{who} requires {rule}, got {describe(got)}")


def _allocate(update: Update, parts: Expr | int, scope: str, point: InsertPoint) -> SSAValue:
    allocation = AllocOp.of(buffer([parts], buffer_type_of(update.store.buffer).element), scope)
    allocation.result.name_hint = f"{update.store.buffer.name_hint or 'sum'}_parts"
    Rewriter.insert_op(allocation, point)
    return allocation.result


def _store_neutral(
    update: Update, partial: SSAValue, index: SSAValue, block: Block, *, first: bool = False
) -> None:
    builder = Builder(InsertPoint.at_start(block) if first else InsertPoint.at_end(block))
    element = buffer_type_of(partial).element
    neutral = constant(builder, neutral_of(update.combiner, element), element)
    builder.insert(StoreOp.of(neutral.value, partial, [Expr.atom(index)]))


def _halve(
    updates: Sequence[Update], partials: Sequence[SSAValue], parts: int, point: InsertPoint
) -> tuple[ForOp, ...]:
    """Loops that combine the upper part of the partial results into the lower one, from the first
    on a power of two: what does not fill vectors is spread over lanes one by one.
    """
    halvings: list[ForOp] = []
    while parts > 1:
        kept = 1 << (parts - 1).bit_length() - 1
        loop = new_loop(parts - kept, "l")
        Rewriter.insert_op(loop, point)
        here = Expr.atom(loop.index)
        end = InsertPoint.at_end(loop.body.block)
        for update, partial in zip(updates, partials, strict=True):
            combine(update, (partial, (here,)), partial, [here + kept], end)
        halvings.append(loop)
        point, parts = InsertPoint.after(loop), kept
    return tuple(halvings)


def _redirect(update: Update, partial: SSAValue, index: Expr) -> None:
    for access in (update.load, update.store):
        redirect(access, partial, [index])
