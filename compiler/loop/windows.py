"""Windows of accesses: what iterations of a loop touch, where those of two never meet."""

from __future__ import annotations

from collections.abc import Sequence, Set

from weft.compiler.loop.nest import index_ranges, values_in
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.loop.ops import ForOp

Subscripts = tuple[Expr, ...]


def keep_to_windows(
    firsts: Sequence[Subscripts], seconds: Sequence[Subscripts], loop: ForOp, fixed: Set[Atom]
) -> bool:
    """Whether, in some dimension, an iteration of the loop shifts all of these elements by more
    than all else there tells the first ones from the second ones, but for sizes and what is
    `fixed`. So where one of either is the same element, it is so in one iteration.
    """
    return any(
        _shifts_past(dict.fromkeys(first), dict.fromkeys(second), loop, fixed)
        for first, second in zip(zip(*firsts, strict=True), zip(*seconds, strict=True), strict=True)
    )


def _shifts_past(
    firsts: dict[Expr, None], seconds: dict[Expr, None], loop: ForOp, fixed: Set[Atom]
) -> bool:
    index, exprs = loop.index, firsts | seconds
    factor = next(iter(exprs)).coefficient(index).constant
    if not factor or any(each.coefficient(index).constant != factor for each in exprs):
        return False
    rests = _without_common([each - Expr.atom(index) * factor for each in exprs], fixed)
    if any(index in rest.atoms() for rest in rests):
        return False
    ranges = dict(zip(exprs, (rest.range(index_ranges(rest, {})) for rest in rests), strict=True))
    same_start = set(values_in(loop.lower)) <= fixed  # else indices differ by less than a step
    window = abs(factor) * (loop.step.data if same_start else 1)
    for some, others in ((firsts, seconds), (seconds, firsts)):
        highs, lows = [ranges[each][1] for each in some], [ranges[each][0] for each in others]
        known = [most for most in highs if most is not None]
        least = [low for low in lows if low is not None]
        if len(known) + len(least) < len(highs) + len(lows) or max(known) - min(least) >= window:
            return False
    return True


def _without_common(exprs: Sequence[Expr], fixed: Set[Atom]) -> list[Expr]:
    """The expressions without the terms that all share and that do not change."""
    first, *others = exprs
    common = {
        monomial
        for monomial, factor in first.terms.items()
        if all(other.terms.get(monomial) == factor for other in others)
        and all(atom in fixed or isinstance(atom, Symbol) for atom in monomial)
    }
    if not common:
        return list(exprs)
    return [Expr({m: f for m, f in each.terms.items() if m not in common}) for each in exprs]
