"""Which loops of a nest threads share: the outermost that may run in parallel, together with those
inside of it where it alone has too few iterations.

    for i parallel < 3:  for k < 14:  S(i, k)   ->   for ik parallel < 3 * 14:  S(i, k)
"""

from __future__ import annotations

from weft.compiler.loop.nest import most_iterations, only_loop, perfect_nest
from weft.compiler.loop.primitives import collapse, parallelize
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr, Quotient, Remainder
from weft.dialects.loop.iteration_cost import GRAIN_OPERATIONS, iteration_cost
from weft.dialects.loop.ops import ForOp

ENOUGH_TASKS = 12
"""Iterations of a loop that threads share evenly enough."""

LEAST_TASK = 32
"""Operations of an iteration beside which finding its indices, by multiplications, costs little."""


def parallelize_outermost(loop: ForOp) -> ForOp:
    """Lets the outermost loop of a nest that has more than one iteration run in
    parallel, where that is legal; returns the nest's outermost loop.
    """
    for level in perfect_nest(loop):
        if level.extent == 1:
            continue
        if level.vector is not None:
            break
        try:
            parallelize(level)
        except IllegalSchedule:
            continue
        merged = _coalesced(level)
        return merged if level is loop else loop
    return loop


def _coalesced(loop: ForOp) -> ForOp:
    """A parallel loop with few iterations, coalesced with those inside that may run in parallel
    too. One of a dynamic extent, such as a batch's, may have a single one, and nothing for other
    threads to do.
    """
    while (inner := only_loop(loop.body.block)) is not None and _wants(loop, inner):
        plain = inner.lower == 0 and inner.step.data == 1 and loop.index not in inner.operands_
        if inner.hints() or not plain or most_iterations(inner) == 0:
            break
        try:
            parallelize(inner)
        except IllegalSchedule:
            break
        loop = collapse(loop, inner)
    return loop


def _wants(loop: ForOp, inner: ForOp) -> bool:
    """Whether a loop may have a single iteration, or few that are work enough to be divided."""
    tasks = least_tasks(loop.extent)
    if tasks is None or tasks >= ENOUGH_TASKS:
        return False
    if loop.extent.constant is None and 1 in (tasks, inner.extent):
        return True
    alone, each = iteration_cost(loop).constant, iteration_cost(inner).constant
    shared = alone is None or alone * tasks >= 2 * GRAIN_OPERATIONS
    return shared and inner.extent.constant is not None and (each or LEAST_TASK) >= LEAST_TASK


def least_tasks(extent: Expr) -> int | None:
    """The iterations of a loop where every size is 1; None for tiles of a dynamic size."""
    atoms = {atom for monomial in extent.terms for atom in monomial}
    if any(isinstance(atom, Quotient | Remainder) for atom in atoms):
        return None
    return extent.substitute({atom: Expr.of(1) for atom in atoms}).constant
