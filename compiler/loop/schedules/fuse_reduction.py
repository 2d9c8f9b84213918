"""Reductions over one row, and what computes the elements that they combine, as one loop.

for j:  t[j] = f(x[j])                  for j reduction(add):
for j reduction(add):  a += t[j]   ->     a += f(x[j])
for j reduction(add):  b += t[j] * y[j]   b += f(x[j]) * y[j]
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from compiler.loop.nest import accesses_in, is_branch, loops_in, update_of
from compiler.loop.primitives import fuse
from dialects.errors import IllegalSchedule
from dialects.expr import Expr, atom_expr
from dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp


def fuse_sums(loops: Sequence[ForOp]) -> None:
    """Fuses runs of neighbours with one extent that share what they read, of which each stores sums
    of one kind, or temporaries that the run alone reads, at the elements that it stores.
    """
    run: list[ForOp] = []
    for loop in loops:
        if run and _goes_on(run, loop):
            run.append(loop)
            continue
        _fuse(run)
        run = [loop] if _is_leaf(loop) else []
    _fuse(run)


def _fuse(run: Sequence[ForOp]) -> None:
    if len(run) > 1 and any(loop.reduction is not None for loop in run) and _hands_on(run):
        with suppress(IllegalSchedule):
            for loop in run[1:]:
                fuse(run[0], loop)


def _is_leaf(loop: ForOp) -> bool:
    return not loops_in(loop) and not any(is_branch(op) for op in loop.body.block.ops)


def _goes_on(run: Sequence[ForOp], loop: ForOp) -> bool:
    """Whether a loop has something in common with those of a run, but no sum of theirs."""
    kinds = {each.reduction for each in (*run, loop) if each.reduction is not None}
    if not _is_leaf(loop) or loop.extent != run[0].extent or len(kinds) > 1:
        return False
    before = [access for each in run for access in accesses_in(each)]
    sums = {access.buffer for access in before if update_of(access) is not None}
    touched = {access.buffer for access in accesses_in(loop)}
    return touched.isdisjoint(sums) and not touched.isdisjoint(each.buffer for each in before)


def _hands_on(run: Sequence[ForOp]) -> bool:
    """Whether nothing but sums is left of what the loops store, once they are one."""
    inside = {access: loop for loop in run for access in accesses_in(loop)}
    return all(
        _is_sum(access, inside) or _is_temporary(access, run[0], inside)
        for access in inside
        if isinstance(access, StoreOp)
    )


def _is_sum(store: StoreOp, loops: dict[AccessOp, ForOp]) -> bool:
    update = update_of(store)
    kind = loops[store].reduction
    return update is not None and kind is not None and update.kind == kind.data


def _is_temporary(store: StoreOp, first: ForOp, loops: dict[AccessOp, ForOp]) -> bool:
    """Whether a buffer is read in these loops alone, at the element that was just stored."""
    if not isinstance(store.buffer.owner, AllocOp):
        return False

    def place(access: AccessOp) -> list[Expr]:
        own, common = loops[access].index, atom_expr(first.index)
        return [expr.substitute({own: common}) for expr in access.index]

    users = [use.operation for use in store.buffer.uses]
    return all(
        user is store
        or (isinstance(user, LoadOp) and user in loops and place(user) == place(store))
        for user in users
    )
