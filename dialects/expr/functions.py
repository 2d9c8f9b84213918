"""Functions of several expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

from weft.dialects.expr.atoms import OPERATORS, children_of
from weft.dialects.expr.polynomial import Expr, ExprLike, extremum, rejoin
from weft.dialects.expr.terms import Monomial, add_terms


def maximum(operands: Iterable[ExprLike]) -> Expr:
    """The greatest of the operands, resolved where their differences are known."""
    return extremum("max", operands, {})


def minimum(operands: Iterable[ExprLike]) -> Expr:
    """The least of the operands, resolved where their differences are known."""
    return extremum("min", operands, {})


def product(factors: Iterable[ExprLike]) -> Expr:
    """The product of the factors; 1 for none."""
    return reduce(lambda left, right: left * right, factors, Expr.of(1))


def row_major_strides(dims: Iterable[Expr]) -> list[Expr]:
    """How many elements apart two neighbours along each dimension lie,
    the last dimension being the fastest.
    """
    return list(_row_major_strides(tuple(dims)))


@lru_cache(maxsize=1 << 12)
def _row_major_strides(dims: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step = Expr.of(1)
    for dim in reversed(dims):
        strides.append(step)
        step = step * dim
    return tuple(strides[::-1])


def sum_of_products(exprs: Sequence[Expr], factors: Sequence[Expr]) -> Expr:
    """The sum of the expressions, each times its factor; in one pass where factors are numbers, as
    they mostly are.
    """
    terms: dict[Monomial, int] = {}
    for expr, factor in zip(exprs, factors, strict=True):
        if factor.constant is None:
            products = (each * times for each, times in zip(exprs, factors, strict=True))
            return sum(products, Expr.of(0))
        if factor.constant:
            add_terms(terms, expr.terms, factor.constant)
    return rejoin(terms)


def sum_of(exprs: Sequence[Expr]) -> Expr:
    """The sum of the expressions, in one pass."""
    if len(exprs) == 1:
        return exprs[0]
    terms: dict[Monomial, int] = {}
    joined = False
    for expr in exprs:
        add_terms(terms, expr.terms, 1)
        joined = joined or expr.has_operators()
    return rejoin(terms) if joined else Expr(terms, operators=False)


def inner_exprs(expr: Expr) -> list[Expr]:
    """The expressions inside quotients, remainders and extrema, and those inside of these."""
    found: list[Expr] = []
    for monomial in expr.terms:
        for atom in monomial:
            if type(atom) in OPERATORS:
                for child in children_of(atom):
                    found += [child, *inner_exprs(child)]
    return found
