"""Offsets and sizes that vary: which of them are proved to be in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from weft.dialects.expr import Atom, Expr, Extremum, Quotient
from weft.dialects.interval import Range

LARGE: Final = 1009
"""A size at which offsets that grow with sizes stand in order."""

EXAMPLES: Final = 100
"""How many choices of sizes are tried before the order is seen from one with sizes below 0."""


class Offsets:
    """Offsets in increasing order, as far as that is proved: one is at most the next where they are
    as far apart as a buffer that lies between, whose size is never negative, since extents are not.
    """

    def __init__(
        self, sizes: Mapping[Expr, list[Expr]], total: Expr | None, ranges: Mapping[Atom, Range]
    ):
        self._ranges = ranges
        found = [*sizes] if total is None else [*sizes, total]
        self._values = self._plausible([size for each in sizes.values() for size in each])
        self._known: dict[Expr, int] = {}
        # Which order to prove is seen from one example.
        self._offsets = sorted(dict.fromkeys(found), key=self.example)
        self._examples = list(map(self.example, self._offsets))
        self._numbers = {offset: number for number, offset in enumerate(self._offsets)}
        self._broken = [0]
        for low, high in pairwise(self._offsets):
            apart = any(is_at_most(low + size, high, ranges) for size in sizes.get(low, ()))
            self._broken.append(self._broken[-1] + (not apart))

    def _plausible(self, sizes: Sequence[Expr]) -> dict[Atom, int]:
        """Values at which no buffer has a size below 0, as a window of LARGE elements would give:
        all are LARGE, or else some are small.
        """
        atoms = list(dict.fromkeys(atom for size in sizes for atom in size.atoms()))
        draw = Random(0)
        values = first = {atom: _within(atom, LARGE, self._ranges) for atom in atoms}
        for _ in range(EXAMPLES):
            if all(size.evaluate(values) >= 0 for size in sizes):
                return values
            values = {
                atom: _within(atom, draw.choice((1, 2, 3, 17, LARGE)), self._ranges)
                for atom in atoms
            }
        return first

    def example(self, offset: Expr) -> int:
        """An offset where sizes that vary have their plausible values."""
        if offset not in self._known:
            known = self._values
            values = {
                atom: known.get(atom, _within(atom, LARGE, self._ranges)) for atom in offset.atoms()
            }
            self._known[offset] = offset.evaluate(values)
        return self._known[offset]

    def is_at_most(self, end: Expr, begin: Expr) -> bool:
        """Whether the end of a place is never behind an offset: it is not behind the first one that
        is not behind it, and from there on offsets increase.
        """
        if self.example(end) > self.example(begin):
            return False
        if begin.constant is None or end.constant is None:
            number = self._numbers.get(begin)
            if number is not None and self._reaches(end, number):
                return True
        return is_at_most(end, begin, self._ranges)

    def _reaches(self, end: Expr, number: int) -> bool:
        # Most are not behind the offset itself, or the first that the example has them before.
        first = bisect_left(self._examples, self.example(end))
        first = max(first, bisect_left(self._broken, self._broken[number]))
        return any(
            is_at_most(end, self._offsets[between], self._ranges)
            for between in (number, *range(first, number))
            if between >= first
        )


def is_at_most(low: Expr, high: Expr, ranges: Mapping[Atom, Range], depth: int = 3) -> bool:
    """Whether one size never exceeds another: a `max` counts as any one of its operands."""
    return _is_never_negative(high - low, ranges, depth)


def _is_never_negative(gap: Expr, ranges: Mapping[Atom, Range], depth: int) -> bool:
    """Whether a gap is at least 0 by its range, or since one is that is never greater: with one
    operand of a `max` in its place, or with a quotient by what it is at least.
    """
    least, _ = gap.range(ranges)
    if least is not None and least >= 0:
        return True
    # Of gaps of many sizes nearly all bounds are below 0 somewhere, and so are all bounds of these.
    if depth == 0 or any(gap.evaluate(values) < 0 for values in _choices(gap, ranges)):
        return False
    return any(_is_never_negative(lower, ranges, depth - 1) for lower in _lower_bounds(gap))


def _choices(gap: Expr, ranges: Mapping[Atom, Range]) -> Iterator[dict[Atom, int]]:
    """Some values that sizes may have: all small, all large, and either in turns."""
    atoms = list(gap.atoms())
    for pattern in ((0, 0), (1, 1), (0, 1), (1, 0)):
        sizes = ((1, LARGE)[pattern[number % 2]] for number in range(len(atoms)))
        yield {atom: _within(atom, size, ranges) for atom, size in zip(atoms, sizes, strict=True)}


def _within(atom: Atom, value: int, ranges: Mapping[Atom, Range]) -> int:
    """The value next to one that a size may have."""
    low, high = ranges.get(atom, (None, None))
    return max(low or 0, value if high is None else min(high, value))


def _lower_bounds(gap: Expr) -> Iterator[Expr]:
    for monomial, factor in gap.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        rest = gap - factor * Expr({monomial: 1})
        if isinstance(atom, Extremum) and atom.operator == ("max" if factor > 0 else "min"):
            yield from (rest + factor * each for each in atom.operands)
        elif isinstance(atom, Quotient) and (divisor := atom.divisor.constant or 0) > 0:
            # x - (c - 1) <= c * (x floordiv c) <= x
            least = atom.dividend - (divisor - 1 if factor > 0 else 0)
            if factor % divisor == 0:
                yield rest + factor // divisor * least


def is_multiple(expr: Expr, number: int) -> bool:
    """Whether a number divides every value of an expression."""
    for monomial, factor in expr.terms.items():
        if factor % number == 0:
            continue
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, Extremum):
            return False
        if not all(is_multiple(factor * each, number) for each in atom.operands):
            return False
    return True
