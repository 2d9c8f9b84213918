"""Sums as mappings from products of atoms to their numbers: what polynomials are computed by."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import gcd

Atom = Hashable
Monomial = tuple[Atom, ...]
Terms = Mapping[Monomial, int]


def add_terms(terms: dict[Monomial, int], others: Terms, times: int) -> None:
    """Adds a multiple of other terms to those of a sum."""
    for monomial, factor in others.items():
        total = terms.get(monomial, 0) + factor * times
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]


def without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """The monomial divided by the factors, or None where they do not divide it."""
    rest = list(monomial)
    for atom in factors:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def common_factors(terms: Mapping[Monomial, int], divisor: int) -> list[int]:
    """The factors, more than 1, that some terms share with a divisor; the largest first."""
    shared = {gcd(count, divisor) for monomial, count in terms.items() if monomial}
    return sorted(shared - {1}, reverse=True)


def split_multiples(dividend: Terms, divisor: Terms) -> tuple[Terms, Terms]:
    """What the divisor goes into, divided by it, and the rest."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    (monomial, factor), *more = divisor.items()
    for candidate, count in dividend.items():
        left = None if more else without(candidate, monomial)
        if left is None or (count % factor and left):
            rest[candidate] = count
        elif count % factor and not candidate:
            whole[left], rest[candidate] = divmod(count, factor)
        elif count % factor:
            rest[candidate] = count
        else:
            whole[left] = count // factor
    return {m: f for m, f in whole.items() if f}, {m: f for m, f in rest.items() if f}


def distance(one: Sequence[Terms], other: Sequence[Terms]) -> Terms | None:
    """What has to be added to each of some sums to make them others, in any order; None where no
    sum does that.
    """
    if len(one) != len(other):
        return None
    low, least = _common_terms(one), _common_terms(other)
    shapes = (
        {frozenset(_minus(each, common).items()) for each in sums}
        for sums, common in ((one, low), (other, least))
    )
    return _minus(least, low) if next(shapes) == next(shapes) else None


def _common_terms(sums: Sequence[Terms]) -> Terms:
    """The least multiple of each product of atoms that any of the sums has."""
    products = dict.fromkeys(monomial for each in sums for monomial in each)
    least = {m: min(each.get(m, 0) for each in sums) for m in products}
    return {m: count for m, count in least.items() if count}


def _minus(terms: Terms, others: Terms) -> Terms:
    result = dict(terms)
    add_terms(result, others, -1)
    return result
