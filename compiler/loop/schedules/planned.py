"""Kernels by plans: a kernel whose contractions have a plan that somebody else chose, and why weft
chooses what it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from weft.compiler.loop.schedules import (
    CONTRACTION,
    SCHEDULES,
    Schedule,
    Scheduled,
    contraction,
    schedule_kernel,
)
from weft.compiler.loop.schedules.contraction import Choose
from weft.compiler.loop.schedules.gemm.choose_plan import (
    Rated,
    choose_plan,
    rated_plans,
    time_of,
)
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.problem import Problem
from weft.compiler.loop.schedules.gemm.views import View
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.program import KernelOp


class Explanation(NamedTuple):
    """A contraction, the plan that weft takes, and all plans from the best to the worst by their
    costs.
    """

    problem: Problem
    chosen: Plan
    rated: Sequence[Rated]


def schedules_with(choose: Choose) -> tuple[Schedule, ...]:
    """Weft's schedules, with another choice of the plans of contractions."""
    own = Schedule(CONTRACTION, partial(contraction.apply_all, choose=choose), reduces=True)
    return tuple(own if each.name == CONTRACTION else each for each in SCHEDULES)


def explain(kernel: KernelOp, target: Target) -> list[Explanation]:
    """Why the contractions of a naive kernel are scheduled as they are; one for each."""
    found: list[Explanation] = []

    def choose(problem: Problem, view: View, target: Target) -> Plan:
        chosen, rated = choose_plan(problem, view, target), rated_plans(problem, view, target)
        found.append(Explanation(problem, chosen, sorted(rated, key=time_of)))
        return chosen

    schedule_kernel(kernel.clone(), target, schedules_with(choose), recorded=False)
    return found


def schedule_by(kernel: KernelOp, target: Target, plan: Plan) -> Scheduled:
    """Schedules a kernel in place, its contraction by a plan. Raises IllegalSchedule where that is
    none of its plans.
    """
    taken: list[Plan] = []

    def choose(problem: Problem, view: View, target: Target) -> Plan:
        taken.extend(each.plan for each in rated_plans(problem, view, target) if each.plan == plan)
        return plan if plan in taken else choose_plan(problem, view, target)

    scheduled = schedule_kernel(kernel, target, schedules_with(choose))
    if not taken:
        raise IllegalSchedule(f"a plan requires a contraction that has it, got {plan}")
    return scheduled
