"""bytes, what was read since -> cycles: from which cache something comes again, and how long it
takes; and how elements of an operand along K compete for sets of the caches.
"""

from __future__ import annotations

from math import gcd

from msgspec import Struct

from weft.compiler.loop.schedules.gemm.problem import Operand, Problem
from weft.compiler.target.target import LINE, PAGE, Target

FULL = 0.75
"""The share of a cache that keeps what is read again: the rest is in the way of other lines."""

KEPT_BY_L2, LOST_BY_L2 = 0.6, 1.6
"""The share of L2 of which everything is there when it is read again, and that of which nothing is;
in between the more is lost the more there is, for pages fall in its sets at random. Read over and
over, 1.25 MB of 2 come with 126 bytes a nanosecond, 1.5 with 67, 2 with 46 and 3 with 27.
"""

SHARE_OF_WEIGHTS = 0.125
"""Of L2, from which on a weight may be in memory when it is needed again."""

CONFLICTS = 4
"""Times over that the rows of a panel fill their sets of L1 before packing it pays."""


class Moved(Struct, frozen=True):
    """Cycles in which bytes come from L2, and from behind it."""

    l2: float = 0.0
    beyond: float = 0.0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.l2 + other.l2, self.beyond + other.beyond)

    def __mul__(self, times: float) -> Moved:
        return Moved(self.l2 * times, self.beyond * times)

    @property
    def cycles(self) -> float:
        """All of them."""
        return self.l2 + self.beyond


class Caches:
    """The caches of one core as rows see them that are so many bytes long and `step` bytes apart,
    which is 0 for what is contiguous: the larger the power of two that divides the step, the fewer
    sets they fall in.
    """

    def __init__(self, target: Target, row: int, step: int):
        self._target = target
        self._row = max(LINE, row)
        self._step = step
        cost = target.cost
        self._l1 = FULL * self._capacity(target.l1_bytes, cost.l1_associativity)
        self._l2 = self._capacity(target.l2_bytes, cost.l2_associativity)

    def moved(self, bytes: float, since: float) -> Moved:
        """The cycles in which bytes come again after so many others were read."""
        target, cost = self._target, self._target.cost
        if since <= self._l1:
            return Moved()
        in_l3 = since <= FULL * target.l3_bytes
        behind = cost.l3_bandwidth if in_l3 else cost.memory_gbs / cost.ghz
        lost = min(1.0, max(0.0, since / self._l2 - KEPT_BY_L2) / (LOST_BY_L2 - KEPT_BY_L2))
        return Moved((1.0 - lost) * bytes / cost.l2_bandwidth, lost * bytes / behind)

    def _capacity(self, size: int, associativity: int) -> float:
        """The bytes of a cache that the rows fall in."""
        if self._step == 0:
            return size
        return size * self._row / max(self._row, gcd(self._step, size // associativity))


def may_be_cold(problem: Problem, target: Target) -> bool:
    """Whether a call may find a factor in memory: one that each call gives and that is larger than
    what L2 keeps, where others have used the last cache since, or a weight that is no small part of
    L2, since when all other weights were read.
    """
    least = {False: FULL * target.l2_bytes, True: SHARE_OF_WEIGHTS * target.l2_bytes}
    return any(each.bytes > least[each.is_weight] for each in problem.factors)


def crossed(step: int) -> float:
    """How many lines more than their own bytes rows touch on average that are so many bytes apart,
    which is 0 for what is contiguous: one where they begin anywhere, none where each begins a line.
    """
    return 1.0 - gcd(step, LINE) / LINE if step else 0.0


def spread(step: int, row: int, target: Target) -> float:
    """How many times their own bytes of L2 rows take that are so many bytes long, and `step` apart,
    which is 0 for what is contiguous.
    """
    way = target.l2_bytes // target.cost.l2_associativity
    return max(1.0, gcd(step, way) / max(LINE, row)) if step else 1.0


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
