"""Equal sizes as rules, each from the greater of both expressions to the lesser one.

    2 * ((h + 1) floordiv 2) = h      rewrites   4 * w * ((h + 1) floordiv 2)   to   2 * h * w

The order of expressions is well-founded, and a step that does not go down in it is not taken, so
rewriting ends. Deeper operators are greater, then names and numbers of terms decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from weft.dialects.expr.atoms import OPERATORS, Extremum, Symbol, children_of
from weft.dialects.expr.polynomial import Expr
from weft.dialects.expr.terms import Atom, Monomial, without

Pair = tuple[Expr, Expr]

AtomKey = tuple[int, str, tuple["Measure", ...]]
MonomialKey = tuple[AtomKey, ...]
Measure = tuple[tuple[MonomialKey, int], ...]


class Equalities:
    """Pairs of expressions that are equal, and what they make of others."""

    def __init__(self, pairs: Iterable[Pair] = ()):
        self._rules: list[Pair] = []
        self._known: dict[Expr, Expr] = {}  # each operator would else double the steps inside
        for pair in pairs:
            self.add(pair)

    def add(self, pair: Pair) -> None:
        """Takes up a pair."""
        pending = [pair]
        while pending:
            one, other = map(self.normal, pending.pop())
            rule = _oriented(one, other)
            if rule is None:
                continue
            alone = Equalities()
            alone._rules = [rule]
            changed = [old for old in self._rules if any(alone.normal(x) != x for x in old)]
            self._rules = [*(old for old in self._rules if old not in changed), rule]
            self._known = {}
            pending += changed

    def normal(self, expr: Expr) -> Expr:
        """The least expression that the rules make of one."""
        if not self._rules:
            return expr
        if expr not in self._known:
            least = expr
            while (step := self._step(least)) is not None:
                least = step
            self._known |= {expr: least, least: least}
        return self._known[expr]

    def hold(self, pair: Pair) -> bool:
        """Whether the pair is a consequence of those that there are."""
        return self.normal(pair[0]) == self.normal(pair[1])

    def _step(self, expr: Expr) -> Expr | None:
        inside = expr.map_inner(self.normal) if expr.has_operators() else expr
        candidates = (inside, *(_reduced(expr, *rule) for rule in self._rules))
        measure = _measure(expr)
        return next((each for each in candidates if _measure(each) < measure), None)


def _oriented(one: Expr, other: Expr) -> Pair | None:
    """The rule of a pair; None where neither side is greater, or both are numbers."""
    greater, lesser = sorted((one, other), key=_measure, reverse=True)
    ordered = greater.constant is None and _measure(greater) != _measure(lesser)
    return (greater, lesser) if ordered else None


def _reduced(expr: Expr, greater: Expr, lesser: Expr) -> Expr:
    """The expression with as many multiples of the greater side replaced as its terms hold."""
    lead = max(greater.terms, key=_monomial_key)
    for monomial in expr.terms:
        factor = without(monomial, lead)
        if factor is None:
            continue
        counts = [
            _whole(expr.terms.get(_times(each, factor), 0), count)
            for each, count in greater.terms.items()
        ]
        least = min(counts, key=abs)
        if least and len({count > 0 for count in counts}) == 1:
            return expr - Expr({factor: least}) * (greater - lesser)
    return expr


def _whole(count: int, divisor: int) -> int:
    """The quotient, rounded towards 0."""
    return abs(count) // abs(divisor) * (1 if (count < 0) == (divisor < 0) else -1)


def _times(one: Monomial, other: Monomial) -> Monomial:
    return next(iter((Expr({one: 1}) * Expr({other: 1})).terms))


@lru_cache(maxsize=1 << 12)
def _measure(expr: Expr) -> Measure:
    """Orders expressions: their terms, the greatest first, as a multiset."""
    keys = ((_monomial_key(each), abs(count)) for each, count in expr.terms.items())
    return tuple(sorted(keys, reverse=True))


def _monomial_key(monomial: Monomial) -> MonomialKey:
    return tuple(sorted(map(_atom_key, monomial), reverse=True))


def _atom_key(atom: Atom) -> AtomKey:
    """Operators by how deep they are, and what is in them; sizes by name."""
    if type(atom) not in OPERATORS:
        return 0, atom.name if isinstance(atom, Symbol) else str(atom), ()
    children = tuple(sorted(map(_measure, children_of(atom)), reverse=True))
    depth = 1 + max((key[0] for each in children for term, _ in each for key in term), default=0)
    name = atom.operator if isinstance(atom, Extremum) else type(atom).__name__
    return depth, name, children
