"""Which loops of a problem the register tile goes along: candidates for the columns, which become
the vector, and for the rows beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec import Struct

from weft.compiler.loop.layouts import LONGEST_STRIDE
from weft.compiler.loop.schedules.gemm.problem import Operand, Problem
from weft.compiler.target.target import Target

SCATTER_COST = 24
"""Multiply-adds that a vector costs whose lanes are stored strided, once per element of T, and each
that is read so beside it.
"""

TRANSPOSE_COST = 6
"""Those of one that is transposed in registers, where another loop stores contiguously."""

PACKING_COST = 0.25
"""What packing a panel in every call adds to the time of its multiply-adds."""

GATHER_COST = 8.0
"""The same for strided lanes of an operand that other loops index too: no panel holds it."""

STRIDED_COST = 0.25
"""The same for lanes a few elements apart, which are loaded as whole vectors and shuffled."""

LOAD_COST = 0.5
"""The same for each vector that is loaded for them where no rows share it, as those of windows over
single channels.
"""

ASSUMED_EXTENT = 512
"""The iterations that a loop of unknown extent is taken to have."""

FEW_ROWS = 4
"""Rows of a tile below which the loads of its columns hold the multiply-adds up."""

NARROW = (0, 1, 2, 3, 4)
"""Strides of the lanes of a window that are loaded as whole vectors."""


class View(Struct, frozen=True, kw_only=True):
    """The loops of a tile, as a Plan has them: the factor that the columns index, none of a window,
    and whether it may be packed.
    """

    column: int
    row: int | None
    batch: tuple[int, ...] = ()
    panel: int | None = None
    packable: bool = False
    narrow: bool = False


def contraction_view(problem: Problem, target: Target) -> View | None:
    """The loops whose lanes are best filled, loaded and stored; None where there are none. The
    vector may run along either operand, which is then the panel: T = X Y is Tt = Yt Xt. It may run
    along a batch dim too, as in depthwise convolutions: its lanes load both operands.
    """
    best = min(_candidates(problem), key=lambda each: _cost(problem, *each), default=None)
    if best is None or _cost(problem, *best) == inf or _is_read_along_k(problem, *best):
        return None
    return _view(problem, target, *best)


def other_views(problem: Problem, view: View, target: Target) -> list[View]:
    """The views whose columns index another operand than those of a view, as tiles of rows and
    columns that are no batch.
    """
    batch, only = _roles(problem)
    if view.column in batch or view.panel is None or not problem.factors[view.panel].as_rows:
        return []
    side = 1 - view.panel
    usable = [n for n in only[side] if problem.extents[n] != 1]
    best = min(usable, key=lambda n: _cost(problem, n, side), default=None)
    if best is None or _cost(problem, best, side) == inf or _is_read_along_k(problem, best, side):
        return []
    return [_view(problem, target, best, side)]


def _candidates(problem: Problem) -> list[tuple[int, int]]:
    """The loops that may be the columns, each with the operand that they index."""
    batch, only = _roles(problem)
    candidates = [(n, side) for side in (0, 1) for n in only[side]]
    candidates += [(n, side) for n in batch for side in (0, 1)]
    return [
        (n, side)
        for n, side in candidates
        if problem.extents[n] != 1 and problem.factors[1 - side].as_rows
    ]


def _view(problem: Problem, target: Target, column: int, side: int) -> View:
    """The view of these columns."""
    batch, only = _roles(problem)
    row = _choose_row(problem, only[1 - side])
    # Rows of the other operand share each vector of the panel. Where there are none, as in a
    # product of one row, rows of the panel itself are worth a tile if they hide the latency of few
    # vectors, or if their windows overlap; they share no vector, so the tile is narrow.
    others, panel = [n for n in only[side] if n != column], problem.factors[side]
    overlapping = any(panel.along[n].slides for n in others)
    alone = row is None and (_is_short(problem, column, target) or overlapping)
    return View(
        column=column,
        row=_choose_row(problem, others) if alone else row,
        batch=tuple(n for n in batch if n != column),
        panel=side,
        packable=_may_be_packed(problem, panel, column),
        narrow=column in batch or alone,
    )


def window_view(problem: Problem, target: Target) -> View | None:
    """The last loop as the vector, or another one in whose layout lanes are contiguous; None for
    another nest.
    """
    # A loop that is not the innermost becomes the vector only in a blocked layout, where lanes are
    # contiguous though the stride is not 1. A nest that stores contiguously along an outer loop is
    # a transposition, and left to other schedules.
    long = [n for n in reversed(range(problem.outer)) if problem.extents[n] != 1]
    column = next((n for n in long if _is_narrow(problem, n)), None)
    if column is None or (column != long[0] and problem.result.along[column].step == 1):
        return None
    row: int | None = long[0]
    # Rows beside contiguous columns are worth a tile if windows of neighbouring rows overlap, so
    # that a load serves several, or if few vectors would leave the units waiting.
    if column == long[0]:
        row = next(iter(long[1:]), None)
        overlapping = row is not None and any(each.along[row].slides for each in problem.factors)
        row = row if overlapping or _is_short(problem, column, target) else None
    return View(column=column, row=row, narrow=True)


def _roles(problem: Problem) -> tuple[list[int], tuple[list[int], list[int]]]:
    """The outer loops that index both factors, and those that index one alone."""
    lhs, rhs = problem.factors
    both = [n for n in range(problem.outer) if lhs.indexed_by(n) and rhs.indexed_by(n)]
    one = [
        [n for n in range(problem.outer) if each.indexed_by(n) and n not in both]
        for each in (lhs, rhs)
    ]
    return both, (one[0], one[1])


def _choose_row(problem: Problem, others: Sequence[int]) -> int | None:
    """The innermost loop with enough iterations for a tile, else the longest."""
    lengths = {n: problem.extents[n].constant or ASSUMED_EXTENT for n in reversed(others)}
    longest = max(lengths, key=lambda n: lengths[n], default=None)
    if longest is None or lengths[longest] == 1:
        return None
    return next((n for n, length in lengths.items() if length >= FEW_ROWS), longest)


def _cost(problem: Problem, column: int, side: int) -> float:
    """The time of the multiply-adds, in that of full vectors which are loaded as they are."""
    panel, other = problem.factors[side], problem.factors[1 - side]
    lanes = problem.lanes
    if other.indexed_by(column) and other.along[column].lanes != 1:
        return inf
    extent = problem.extents[column].constant
    filled = 0.9 if extent is None else extent / (-(-extent // lanes) * lanes)
    gathered = SCATTER_COST * sum(each.along[column].lanes not in (0, 1) for each in problem.read)
    scattered = (_store_cost(problem, column) + gathered) / (problem.depth or ASSUMED_EXTENT)
    ready = panel.is_weight or panel.along[column].lanes == 1
    packed = 0.0 if ready else _packing_cost(problem, panel, column)
    return (1.0 + scattered + packed) / filled


def _store_cost(problem: Problem, column: int) -> float:
    """The multiply-adds in whose time a vector of results is stored that is not contiguous."""
    along = problem.stored.along
    if along[column].lanes == 1:
        return 0.0
    others = (n for n in range(problem.outer) if n != column and along[n].step == 1)
    return TRANSPOSE_COST if any(len(along[n].dims) == 1 for n in others) else SCATTER_COST


def _packing_cost(problem: Problem, panel: Operand, column: int) -> float:
    """What packing strided columns of an operand costs in every call, or loading them strided."""
    if _fits_panels(problem, panel, column):
        return PACKING_COST
    (other,) = [each for each in problem.factors if each is not panel]
    loops = [n for n in range(problem.outer) if problem.extents[n] != 1]
    shared = any(other.indexed_by(n) and not panel.indexed_by(n) for n in loops)
    if _is_strided(panel, column):
        return STRIDED_COST if shared else LONGEST_STRIDE * LOAD_COST
    return GATHER_COST


def _may_be_packed(problem: Problem, panel: Operand, column: int) -> bool:
    """Whether the columns of an operand may be packed, rather than loaded strided."""
    packed = panel.is_weight or not _is_strided(panel, column)
    return packed or _fits_panels(problem, panel, column)


def _fits_panels(problem: Problem, panel: Operand, column: int) -> bool:
    """Whether no other loop indexes the operand that does not index the other factor too."""
    (other,) = [each for each in problem.factors if each is not panel]
    loops = (n for n in range(problem.outer) if problem.extents[n] != 1)
    return [n for n in loops if panel.indexed_by(n) and not other.indexed_by(n)] == [column]


def _is_read_along_k(problem: Problem, column: int, side: int) -> bool:
    """Whether each element of the panel is read once, along K, as those of a matrix that is
    multiplied with a vector: packing or gathering columns takes longer than adding up lanes.
    """
    panel, sums = problem.factors[side], problem.reductions[-1]
    once = problem.rows_of(panel) == 1 and not panel.is_weight
    along_k = all(each.along[sums].step == 1 for each in problem.factors)
    return once and along_k and panel.along[column].lanes not in (0, 1)


def _is_strided(panel: Operand, column: int) -> bool:
    """Whether lanes are a few elements apart: whole vectors are loaded and shuffled."""
    step = panel.along[column].lanes
    return step is not None and step.constant in range(2, LONGEST_STRIDE + 1)


def _is_narrow(problem: Problem, column: int) -> bool:
    """Whether lanes store contiguously, and load with a stride of a few elements."""
    steps = [each.along[column].lanes for each in problem.factors]
    return problem.result.along[column].lanes == 1 and all(
        step is not None and step.constant in NARROW for step in steps
    )


def _is_short(problem: Problem, column: int, target: Target) -> bool:
    """Whether one row has too few vectors of accumulators to hide the latency of the FMAs."""
    extent = problem.extents[column].constant
    return extent is not None and extent // problem.lanes < target.fma_latency
