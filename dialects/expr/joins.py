"""Quotients and remainders that tiling and collapsing loops leave behind, put together again: then
equal expressions have equal terms, and an access is affine in the index of the loop.
"""

from __future__ import annotations

from collections.abc import Hashable

from weft.dialects.expr.atoms import Quotient, Remainder, atom_key
from weft.dialects.expr.terms import Monomial, Terms


def multiply_terms(left: Terms, right: Terms) -> dict[Monomial, int]:
    """The terms of a product, each one's atoms in order."""
    terms: dict[Monomial, int] = {}
    for one, factor in left.items():
        for other, times in right.items():
            monomial = (
                tuple(sorted((*one, *other), key=atom_key)) if one and other else one or other
            )
            terms[monomial] = terms.get(monomial, 0) + factor * times
    return {monomial: factor for monomial, factor in terms.items() if factor}


def join_quotients(terms: Terms) -> tuple[Terms, Terms] | None:
    """What is left of a sum, and what it is added to, where `c * (x floordiv c) + x mod c` is `x`,
    also where both are times something, or `x - c * (x floordiv c)` is `x mod c`.
    """
    atoms = [atom for monomial in terms for atom in monomial]
    quotients = [atom for atom in atoms if type(atom) is Quotient]
    if not quotients:
        return None
    if any(type(atom) is Remainder for atom in atoms):
        joined = _join_remainders(terms, {(each.dividend, each.divisor) for each in quotients})
        if joined is not None:
            return joined
    for monomial, factor in terms.items():
        if len(monomial) == 1 and isinstance(quotient := monomial[0], Quotient):
            size = quotient.divisor.constant
            count = -factor // size if size and factor % size == 0 else 0
            whole = quotient.dividend.terms
            if count and all(terms.get(key) == count * share for key, share in whole.items()):
                left = _without(terms, (monomial, *whole))
                return left, {(Remainder(quotient.dividend, quotient.divisor),): count}
    return None


def _join_remainders(
    terms: Terms, quotients: set[tuple[Hashable, Hashable]]
) -> tuple[Terms, Terms] | None:
    """The first of both, for quotients of these dividends and divisors."""
    for monomial, factor in terms.items():
        for position, atom in enumerate(monomial):
            if isinstance(atom, Remainder) and (atom.dividend, atom.divisor) in quotients:
                times = {monomial[:position] + monomial[position + 1 :]: factor}
                whole: Terms = {(Quotient(atom.dividend, atom.divisor),): 1}
                steps = multiply_terms(multiply_terms(whole, atom.divisor.terms), times)
                if all(terms.get(key) == count for key, count in steps.items()):
                    left = _without(terms, (monomial, *steps))
                    return left, multiply_terms(atom.dividend.terms, times)
    return None


def _without(terms: Terms, others: tuple[Monomial, ...]) -> Terms:
    return {monomial: factor for monomial, factor in terms.items() if monomial not in others}
