"""Sliding windows, as in pooling, and short reductions over leading axes: results that are
contiguous where their operands are become the lanes of a vector that stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.compiler.loop.matchers import sole_update, split_nest
from weft.compiler.loop.nest import child_loops, loads_in, perfect_nest
from weft.compiler.loop.schedules.coalesce_loops import coalesce_outer
from weft.compiler.loop.schedules.gemm.accumulation import aligned_nests
from weft.compiler.loop.schedules.gemm.macro_kernel import apply_plan
from weft.compiler.loop.schedules.gemm.plans import first_plan
from weft.compiler.loop.schedules.gemm.problem import Nests, problem_of
from weft.compiler.loop.schedules.gemm.views import window_view
from weft.compiler.loop.schedules.innermost_loops import lanes_of
from weft.compiler.target.target import Target
from weft.dialects.loop.program import KernelOp

NAME = "sliding-window"


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such reduction of the kernel; yields once for each."""
    for chain in [perfect_nest(loop) for loop in child_loops(kernel)]:
        split, update = split_nest(chain), sole_update(chain[-1])
        if split is None or update is None:
            continue
        factors = tuple(load for load in loads_in(chain[-1]) if load is not update.load)
        lanes = lanes_of([chain[0]], target)
        problem = problem_of(kernel, factors, update.store, lanes)
        view = window_view(problem, target)
        found = None if view is None else aligned_nests(chain[0], update.store, split.outer)
        if view is None or found is None:
            continue
        outer, result = found.nests, update.store.buffer
        accessed = (*problem.factors, problem.result)
        if all(each.along[view.column].step == 1 for each in accessed):
            # Results of a reduction over leading axes are contiguous over several loops.
            outer, result = coalesce_outer(kernel, outer, result)
        lanes = lanes_of([nest[0] for nest in outer], target)
        problem = problem_of(kernel, factors, update.store, lanes)
        view = window_view(problem, target)
        if view is None:
            continue
        nests = Nests(outer, split.reductions, factors, result)
        if apply_plan(kernel, nests, first_plan(problem, view, target), target):
            yield NAME
