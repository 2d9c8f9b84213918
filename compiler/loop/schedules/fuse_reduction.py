"""Reduction fusion: reductions over one row, and what computes the elements that they combine, as
one loop.

for j:  t[j] = f(x[j])                  for j reduction(add):
for j reduction(add):  a += t[j]   ->     a += f(x[j])
for j reduction(add):  b += t[j] * y[j]   b += f(x[j]) * y[j]
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from weft.compiler.loop.matchers import is_straight_line, update_of
from weft.compiler.loop.nest import accesses_in, combiner_of
from weft.compiler.loop.primitives import fuse_loops
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, AllocOp, ForOp, LoadOp, StoreOp

LEAST_KEPT: Final = 32
"""Elements of a row whose temporaries others read too, for which fusion pays: two vectors. Of a
shorter one all are computed in one vector, and combined in another.
"""


def fuse_reductions(loops: Sequence[ForOp]) -> None:
    """Fuses runs of neighbouring loops of one extent that share operands, of which each stores
    results of one kind of reduction, or temporaries that the run alone reads, at the elements that
    it stores.
    """
    run: list[ForOp] = []
    for loop in loops:
        if run and _can_follow(run, loop) and _leaves_only_results((*run, loop)):
            run.append(loop)
            continue
        _fuse(run)
        run = [loop] if is_straight_line(loop) else []
    _fuse(run)


def _fuse(run: Sequence[ForOp]) -> None:
    if len(run) > 1 and any(loop.reduction is not None for loop in run):
        with suppress(IllegalSchedule):
            for loop in run[1:]:
                fuse_loops(run[0], loop)


def _can_follow(run: Sequence[ForOp], loop: ForOp) -> bool:
    """Whether a loop accesses a buffer that those of a run do, but no result of theirs."""
    combiners = {each.reduction for each in (*run, loop) if each.reduction is not None}
    if not is_straight_line(loop) or loop.extent != run[0].extent or len(combiners) > 1:
        return False
    before = [access for each in run for access in accesses_in(each)]
    results = {access.buffer for access in before if update_of(access) is not None}
    touched = {access.buffer for access in accesses_in(loop)}
    return touched.isdisjoint(results) and not touched.isdisjoint(each.buffer for each in before)


def _leaves_only_results(run: Sequence[ForOp]) -> bool:
    """Whether of what the loops store only results are left, once they are one."""
    inside = {access: loop for loop in run for access in accesses_in(loop)}
    return all(
        _is_result(access, inside) or _is_temporary(access, run[0], inside)
        for access in inside
        if isinstance(access, StoreOp)
    )


def _is_result(store: StoreOp, loops: dict[AccessOp, ForOp]) -> bool:
    update = update_of(store)
    return update is not None and update.combiner == combiner_of(loops[store])


def _is_temporary(store: StoreOp, first: ForOp, loops: dict[AccessOp, ForOp]) -> bool:
    """Whether these loops read a buffer only at the element that was just stored, and others behind
    them none of a short row.
    """
    if not isinstance(store.buffer.owner, AllocOp):
        return False

    extent = first.extent.constant
    is_short = extent is not None and extent < LEAST_KEPT

    def element(access: AccessOp) -> list[Expr]:
        own, common = loops[access].index, Expr.atom(first.index)
        return [expr.substitute({own: common}) for expr in access.index]

    users = [use.operation for use in store.buffer.uses]
    return all(
        user is store
        or (isinstance(user, LoadOp) and user not in loops and not is_short)
        or (isinstance(user, LoadOp) and user in loops and element(user) == element(store))
        for user in users
    )
