"""How elements of an operand along K compete for sets of the caches."""

from __future__ import annotations

from weft.compiler.loop.schedules.gemm.problem import Operand, Problem
from weft.compiler.target.target import LINE, PAGE, Target

CONFLICTS = 4
"""Times over that the rows of a panel fill their sets of L1 before packing it pays."""


def set_conflicts(problem: Problem, panel: Operand, target: Target) -> float:
    """How many times over the elements along K fill the sets of L2 that they fall in: the larger
    the power of two that divides their stride, the fewer sets there are.
    """
    bytes = panel.bytes_apart(problem.outer)
    return (problem.depth or 0) * (bytes & -bytes) / target.l2_bytes


def conflict_in_l1(problem: Problem, panel: Operand, size: int, target: Target) -> bool:
    """Whether rows of a panel of so many columns are a line each, which fall in so few sets of L1
    that most of them come from L2 for each tile of rows.
    """
    over = set_conflicts(problem, panel, target) * target.l2_bytes / target.l1_bytes
    return size * panel.bits // 8 <= LINE and over >= CONFLICTS


def has_page_stride(problem: Problem, panel: Operand) -> bool:
    """Whether the stride along K is a known number of whole pages."""
    steps = [panel.along[n].step for n in problem.reductions]
    numbers = [step.constant for step in steps if step is not None]
    return any(each and each * panel.bits // 8 % PAGE == 0 for each in numbers)
