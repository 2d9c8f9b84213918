"""The primitive that removes what is overwritten before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter

from weft.compiler.loop.nest import describe, is_pure, loads_in, ranges_around, subscripts
from weft.compiler.loop.primitives.recording import primitive
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr
from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp, enclosing_loops


class _Box(NamedTuple):
    """The elements that a store writes in all iterations of its nest: a first one and how many, of
    each dim.
    """

    start: tuple[Expr, ...]
    extent: tuple[Expr, ...]


@primitive
def eliminate_dead_stores(loop: ForOp) -> None:
    """Removes a nest whose only store writes what a later nest writes again.

        for i < 8:  t[i] = 0            ->   for j < 9:  t[j] = x[j]
        for j < 9:  t[j] = x[j]

    Raises IllegalSchedule for a nest with other stores, where no later nest of the same block, or
    of one around it, stores to all of the elements in whatever order, and where anything may read
    them before.
    """
    store = _only_store(loop)
    if store is None:
        rule = "a nest of loops around one store"
        raise IllegalSchedule(f"eliminate_dead_stores requires {rule}, got {describe(loop)}")
    if not any(_overwrites(store, child, later) for child, later in _later(loop)):
        rule = "a later nest that stores all that is stored, unread until then"
        raise IllegalSchedule(f"eliminate_dead_stores requires {rule}, got {describe(store)}")
    Rewriter.erase_op(loop)


def _only_store(loop: ForOp) -> StoreOp | None:
    """The store of a nest that does nothing else that anybody could notice."""
    ops = [op for op in loop.walk() if op is not loop and not isinstance(op, ForOp)]
    stores = [op for op in ops if isinstance(op, StoreOp)]
    quiet = all(isinstance(op, (StoreOp, LoadOp)) or is_pure(op) for op in ops)
    return stores[0] if len(stores) == 1 and quiet else None


def _later(loop: ForOp) -> Iterator[tuple[Operation, ForOp]]:
    """What of a block the loop is, or is inside, and each nest of that block behind it."""
    child: Operation | None = loop
    while isinstance(child, ForOp):
        following = child.next_op
        while following is not None:
            if isinstance(following, ForOp):
                yield child, following
            following = following.next_op
        child = child.parent_op()


def _overwrites(store: StoreOp, child: Operation, later: ForOp) -> bool:
    """Whether the later nest stores to all elements that the store writes inside of `child`, and
    nothing reads the buffer from there on.
    """
    again = _only_store(later)
    block = later.parent
    if again is None or again.buffer is not store.buffer or block is None:
        return False
    op: Operation | None = child
    while op is not None:
        if any(load.buffer is store.buffer for load in loads_in(op)):
            return False
        if op is not child and not isinstance(op, ForOp) and op.regions:
            return False
        op = None if op is later else op.next_op
    return _covers(_box(again, block, whole=True), _box(store, block, whole=False), store)


def _covers(outer: _Box | None, inner: _Box | None, store: StoreOp) -> bool:
    if outer is None or inner is None:
        return False
    ranges = ranges_around(store)
    for (start, size), (first, count) in zip(
        zip(*outer, strict=True), zip(*inner, strict=True), strict=True
    ):
        before = (first - start).range(ranges)[0]
        behind = (start + size - first - count).range(ranges)[0]
        if before is None or before < 0 or behind is None or behind < 0:
            return False
    return True


def _box(store: StoreOp, block: Block, *, whole: bool) -> _Box | None:
    """What a store writes in one execution of the block: each of the block's loops indexes a dim of
    its own. A `whole` box has all of its elements; otherwise it may have fewer.
    """
    inside = [loop for loop in enclosing_loops(store) if block.is_ancestor(loop)]
    indices: dict[Atom, ForOp] = {loop.index: loop for loop in inside}
    start: list[Expr] = []
    extent: list[Expr] = []
    used: list[ForOp] = []
    for expr in subscripts(store):
        own = [indices[atom] for atom in expr.atoms() if atom in indices]
        if not own:
            start.append(expr)
            extent.append(Expr.of(1))
            continue
        # `base + i` with i alone covers base + lower to base + upper without a gap; any other form,
        # such as 2 * i or i + j, may leave elements out or write them twice.
        (loop, *others) = own
        lower = expr - Expr.atom(loop.index)
        if others or loop.index in lower.atoms() or loop.step.data != 1:
            return None
        if any(atom in indices for bound in (loop.lower, loop.upper) for atom in bound.atoms()):
            return None
        start.append(lower + loop.lower)
        extent.append(loop.extent)
        used.append(loop)
    if len(set(used)) != len(used):
        return None
    # A loop that indexes nothing repeats the store, or, where it has no iteration, prevents it.
    runs = all(loop in used or (loop.extent.range({})[0] or 0) >= 1 for loop in inside)
    return _Box(tuple(start), tuple(extent)) if runs or not whole else None
