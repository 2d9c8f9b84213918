"""problem, plans -> plan: what the plans of a problem cost, and which one is taken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from weft.compiler.loop.schedules.gemm.blocks import (
    blocked,
    packed_by_blocks,
    widened_by_panel,
    with_packed_rows,
)
from weft.compiler.loop.schedules.gemm.caches import may_be_cold
from weft.compiler.loop.schedules.gemm.cost import Cost, cost
from weft.compiler.loop.schedules.gemm.matrix_cost import matrix_cost
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.plans import (
    LEAST_PANELS,
    first_plan,
    packed_plans,
    tile_plans,
)
from weft.compiler.loop.schedules.gemm.problem import FEW_ROWS, Problem
from weft.compiler.loop.schedules.gemm.views import View, other_views
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Atom, Expr, Symbol

LEAST_GAIN = 0.97
"""The share of the first plan's time that another one has to be below: the order of costs that are
nearer is not that of the times that were measured.
"""

SAMPLES = (8, 32, 128)
"""What sizes that only a call knows are taken to be: the worst regret among these counts."""

LEAST_SAMPLE = 1
"""Another one of batches and the like, of which a call may have one."""

FEW_SAMPLES, MANY_SAMPLES = (1, 2, 4), (*SAMPLES, 1024)
"""The same for versions of a kernel for calls of few rows, and of many."""

LEAST_GAIN_OF_VERSIONS = 1.2
"""How many times as fast calls of few rows, or of many, have to be by plans of their own."""


class Rated(NamedTuple):
    """A plan and its cost for each sample of the dynamic sizes, one where there are none of these,
    with factors in memory and in the last cache where they may be in either; none at all where the
    cost is not known.
    """

    plan: Plan
    costs: tuple[Cost, ...]

    @property
    def cost(self) -> Cost | None:
        """The cost, of the middle sample, with what it reads in the last cache."""
        return self.costs[len(self.costs) // 2] if self.costs else None


def choose_plan(
    problem: Problem, view: View, target: Target, refused: Collection[Plan] = ()
) -> Plan:
    """The plan of a problem whose loops were chosen: the first one, unless another costs less by
    more than what the model of costs is sure of. Raises IllegalSchedule where all were refused.
    """
    rated = [each for each in rated_plans(problem, view, target) if each.plan not in refused]
    if not rated:
        raise IllegalSchedule("contraction requires a plan that no primitive refuses, got none")
    return rated[_best(rated)].plan


def _best(rated: Sequence[Rated]) -> int:
    """The number of the plan that is taken."""
    regrets = _regrets(rated)
    best = min(range(len(rated)), key=regrets.__getitem__)
    return best if regrets[best][0] < LEAST_GAIN * regrets[0][0] else 0


def varying_rows(problem: Problem, view: View) -> Expr | None:
    """The rows of a product of what only a call knows, where it may have few or many of them; None
    for others, and for products with a weight, whose panels are as wide for all calls.
    """
    given = view.panel is not None and not problem.factors[view.panel].is_weight
    rows = problem.extents[view.row] if given and view.row is not None else None
    if rows is None or rows.constant is not None or len(problem.reductions) > 1:
        return None
    named = all(isinstance(atom, Symbol) for atom in rows.atoms())
    return rows if named and _least(rows) < FEW_ROWS else None


def versions_pay(problem: Problem, view: View, target: Target) -> bool:
    """Whether calls of few rows and of many are better computed by plans of their own, where one
    plan takes so much longer than these.
    """
    one = rated_plans(problem, view, target)
    if not one[0].costs:
        return False
    plan = one[_best(one)].plan
    for rows in ("few", "many"):
        own = replace(problem, rows=rows)
        rated = rated_plans(own, view, target)
        same = rate(own, view, plan, target).costs
        costs = zip(same, rated[_best(rated)].costs, strict=True)
        if any(one.total > LEAST_GAIN_OF_VERSIONS * best.total for one, best in costs):
            return True
    return False


def _regrets(rated: Sequence[Rated]) -> list[tuple[float, float]]:
    """The most that each plan takes of the least time, among all samples, and the sum over these:
    of one row all tiles as wide are alike.
    """
    times = [[cost.total for cost in each.costs] for each in rated]
    least = [min(of_sample) for of_sample in zip(*times, strict=True)]
    found: list[tuple[float, float]] = []
    for own in times:
        shares = [time / best for time, best in zip(own, least, strict=True)]
        found.append((max(shares, default=1.0), sum(shares)))
    return found


def time_of(rated: Rated) -> float:
    """The nanoseconds that the model expects of a plan, 0 where it expects nothing."""
    return 0.0 if rated.cost is None else rated.cost.total


@lru_cache(maxsize=1024)
def rated_plans(problem: Problem, view: View, target: Target) -> tuple[Rated, ...]:
    """All plans with their costs; one where its cost is not known. Of dynamic sizes only those that
    pack as the first one does: packing pays for many rows, and a call may have one.
    """
    first = first_plan(problem, view, target)
    # Primitives may refuse products in registers that hold tiles; those in lanes are next.
    firsts = dict.fromkeys((first, first_plan(problem, view, target, matrix=False)))
    others = other_views(problem, view, target)
    dynamic = any(extent.constant is None for extent in problem.extents)
    if not _has_cost(view, first):
        return tuple(Rated(each, ()) for each in firsts)
    plans = {(view, each): None for each in firsts}
    packed = with_packed_rows(problem, first, target)
    if packed is not None:
        plans[view, packed] = None
    tiled = tile_plans(problem, view, target)
    tiled = [plan for plan in tiled if not dynamic or _is_alike(problem, first, plan)]
    plans |= {(view, plan): None for plan in tiled}
    for plan in tiled:
        blocks = blocked(problem, plan, target)
        if blocks is not None:
            plans[view, blocks] = None
            by_thread = packed_by_blocks(problem, blocks)
            plans |= {(view, by_thread): None} if by_thread is not None else {}
    for other in others:
        across = [first_plan(problem, other, target)]
        across += [] if dynamic else packed_plans(problem, other, target)
        plans |= {(other, plan): None for plan in across}
    widened = [(each, widened_by_panel(problem, plan)) for each, plan in plans]
    plans |= {(each, plan): None for each, plan in widened if plan is not None}
    plans = {each: None for each in plans if _has_cost(*each)}
    return tuple(rate(problem, each, plan, target) for each, plan in plans)


def _is_alike(problem: Problem, first: Plan, plan: Plan) -> bool:
    """Whether a plan packs as the first one does, and leaves threads as many panels to share, or
    enough, where each packs its own; of windows, whose rows and columns may be short, whether its
    tile is as high. Of rows that are never few it may pack as it likes.
    """
    if len(problem.reductions) > 1:
        return plan.packing == first.packing and plan.rows == first.rows
    many = problem.rows == "many"
    if plan.row is not None and (many or _least(problem.extents[plan.row]) >= FEW_ROWS):
        return True
    panels = (problem.extents[plan.column].constant or 0) // plan.width
    shared = plan.packing not in ("tile", "strided") or panels >= LEAST_PANELS
    return plan.packing == first.packing and (shared or plan.width <= first.width)


def rate(problem: Problem, view: View, plan: Plan, target: Target) -> Rated:
    """A plan with its costs."""
    if not _has_cost(view, plan):
        return Rated(plan, ())
    expect = cost if plan.matrix is None else matrix_cost
    ways = (True, False) if may_be_cold(problem, target) else (False,)
    sizes = _sampled(problem)
    rows_vary = plan.row is not None and problem.extents[plan.row].constant is None
    rows_vary = rows_vary and len(problem.reductions) == 1
    costs = (
        expect(each, plan, target, cold=cold, rows_vary=rows_vary)
        for each in sizes
        for cold in ways
    )
    return Rated(plan, tuple(costs))


def _has_cost(view: View, plan: Plan) -> bool:
    """Whether the cost of a plan is known: not of windows, nor of products of one row, nor where no
    cache holds a panel.
    """
    alone = view.panel is None or view.row is None or view.narrow
    packed = plan.column_block is not None or plan.matrix is not None
    return not alone and (plan.k_block is None or packed)


def _sampled(problem: Problem) -> list[Problem]:
    """The problem with each of the samples as its dynamic sizes, or alone where it has none."""
    dynamic = [n for n, extent in enumerate(problem.extents) if extent.constant is None]
    if not dynamic:
        return [problem]
    may_be_one = all(_is_batch(problem, n) for n in dynamic)
    samples = (LEAST_SAMPLE, *SAMPLES) if may_be_one else SAMPLES
    own = {"any": samples, "few": FEW_SAMPLES, "many": MANY_SAMPLES}
    return [
        replace(problem, extents=tuple(_sample(extent, size) for extent in problem.extents))
        for size in own[problem.rows]
    ]


def _is_batch(problem: Problem, loop: int) -> bool:
    """Whether a loop counts one of the sizes of a call, and not what is next to each other in the
    result, as the length of a signal.
    """
    extent, along = problem.extents[loop], problem.stored.along[loop]
    return along.step != 1 and all(extent == Expr.atom(atom) for atom in extent.atoms())


def _least(extent: Expr) -> int:
    """What an extent is at least, as no size of a call is zero."""
    return _sample(extent, 1).evaluate({})


def _sample(extent: Expr, size: int) -> Expr:
    """An extent where each size of a call is that one, if it may be so small."""
    least, _ = extent.range({})
    sizes: dict[Atom, int] = {Symbol(name): size for name in extent.symbols()}
    return Expr.of(max(extent.evaluate(sizes), least or 1))
