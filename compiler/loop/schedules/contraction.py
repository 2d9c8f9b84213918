"""Contractions, as in matrix products and convolutions: `T[..] += X[..] * Y[..]` over reductions.

    for jo parallel:  for ...:  for io:              panels of nr columns, tiles of mr rows
        acc[6][32] in registers
        for ii unroll:  for ji vector unroll:  acc[ii, ji] = 0
        for k:  for ii unroll:  for ji vector unroll:  acc[ii, ji] += X[i, k] * Y[k, j]
        for ii unroll:  for ji vector unroll:  out[i, j] = f(acc[ii, ji])

The columns of the register tile are a loop that indexes only Y, and become the vector; the rows
index only X. Y is packed into panels as wide as the tile: before the call for a weight; a panel at
a time on the thread's stack where columns are strided, or Y is large and many rows read it; as a
whole in front of the product where such a panel would be too large for L2; else not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from weft.compiler.loop.matchers import split_nest, sum_of_products
from weft.compiler.loop.nest import child_loops, perfect_nest, stores_in, weight_arguments
from weft.compiler.loop.schedules.coalesce_loops import coalesce_outer
from weft.compiler.loop.schedules.gemm.accumulation import aligned_nests
from weft.compiler.loop.schedules.gemm.choose_plan import choose_plan, varying_rows, versions_pay
from weft.compiler.loop.schedules.gemm.dot_products import split_into_words
from weft.compiler.loop.schedules.gemm.macro_kernel import apply_plan
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.problem import Nests, Problem, problem_of, with_last_nest
from weft.compiler.loop.schedules.gemm.views import View, contraction_view
from weft.compiler.loop.schedules.innermost_loops import lanes_of
from weft.compiler.loop.schedules.simplify import simplify
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import ROWS, KernelOp

NAME = "contraction"


Choose = Callable[[Problem, View, Target], Plan]
"""Chooses the plan of a problem whose loops were chosen."""


class RefusedPlan(IllegalSchedule):
    """A primitive refused a step of a plan; the next plan may do."""

    def __init__(self, plan: Plan, reason: str):
        super().__init__(f"{reason} (plan {plan})")
        self.plan = plan


def apply_all(
    kernel: KernelOp,
    target: Target,
    choose: Choose | None = None,
    *,
    refused: Collection[Plan] = (),
) -> Iterator[str]:
    """Schedules every contraction of the kernel, by the plan that is chosen for it, by weft unless
    somebody else does, and none of those that were refused before; yields once for each.

    Raises RefusedPlan, and leaves the kernel half scheduled, where a primitive refuses a plan.
    """
    choose = choose or partial(choose_plan, refused=refused)
    chains = [perfect_nest(loop) for loop in child_loops(kernel)]
    for chain in [chain for chain in chains if sum_of_products(chain[-1]) is not None]:
        nests = _nests_of(kernel, chain, target)
        plan = None if nests is None else _plan_of(kernel, nests, target, choose)
        if nests is None or plan is None:
            continue
        try:
            applied = apply_plan(kernel, nests, plan, target)
        except IllegalSchedule as refusal:
            raise RefusedPlan(plan, str(refusal)) from refusal
        if applied:
            yield NAME


def rows_of_versions(kernel: KernelOp, target: Target) -> Expr | None:
    """The rows of the product of a naive kernel, over its sizes, where a version for calls with few
    of them and one for calls with many are worth their code; None for any other kernel.
    """
    if ROWS in kernel.attributes or not _is_product_of_given(kernel):
        return None
    naive = kernel.clone()
    simplify(naive)
    chains = [perfect_nest(loop) for loop in child_loops(naive)]
    chain = next((each for each in chains if sum_of_products(each[-1]) is not None), None)
    nests = None if chain is None else _nests_of(naive, chain, target)
    found = None if nests is None else _viewed(naive, nests, target)
    rows = None if found is None else varying_rows(*found)
    return rows if found is not None and rows is not None and versions_pay(*found, target) else None


def _is_product_of_given(kernel: KernelOp) -> bool:
    """Whether a kernel has one contraction, in loops over sizes of a call, of two operands of which
    neither is a weight.
    """
    if not kernel.symbol_names:
        return False
    chains = [perfect_nest(loop) for loop in child_loops(kernel)]
    found = [(chain, sum_of_products(chain[-1])) for chain in chains]
    products = [(chain, factors) for chain, factors in found if factors is not None]
    if len(products) != 1:
        return False
    chain, factors = products[0]
    weights = weight_arguments(kernel)
    varies = any(loop.extent.constant is None for loop in chain if loop.reduction is None)
    return varies and all(load.buffer not in weights for load in factors[:2])


def _plan_of(kernel: KernelOp, nests: Nests, target: Target, choose: Choose) -> Plan | None:
    """The plan of a contraction; None where no loop can be the vector."""
    found = _viewed(kernel, nests, target)
    return None if found is None else choose(*found, target)


def _viewed(kernel: KernelOp, nests: Nests, target: Target) -> tuple[Problem, View] | None:
    """The problem of a contraction, and its loops; None where none of these can be the vector."""
    lanes = lanes_of([nest[0] for nest in nests.outer], target)
    store = stores_in(nests.reductions[-1])[0]
    problem = problem_of(kernel, nests.factors, store, lanes, nests.words)
    problem = with_last_nest(problem, nests)
    view = contraction_view(problem, target)
    return None if view is None else (problem, view)


def _nests_of(kernel: KernelOp, chain: list[ForOp], target: Target) -> Nests | None:
    """The nests of a contraction, with loops that are contiguous as one; None for another nest."""
    split, factors = split_nest(chain), sum_of_products(chain[-1])
    if split is None or factors is None:
        return None
    # A tile of T stays in registers from its initialisation to the nest that reads it, so all of
    # these nests have to be tiled alike.
    found = aligned_nests(chain[0], factors.store, split.outer)
    if found is None:
        return None
    # Loops over contiguous memory become one before any is chosen: the pixels of an image fill
    # vectors that the last loop over its columns alone does not.
    outer, result = coalesce_outer(kernel, found.nests, factors.store.buffer)
    words = split_into_words(kernel, outer[found.own], split.reductions, factors, target)
    if words is None:
        return Nests(outer, split.reductions, factors[:2], result)
    return Nests(outer, words.reductions, factors[:2], result, words.as_rows)
