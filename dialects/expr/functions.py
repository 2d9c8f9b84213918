"""Functions of several expressions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from weft.dialects.expr.atoms import OPERATORS, children_of
from weft.dialects.expr.polynomial import Expr, ExprLike, extremum


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
    strides: list[Expr] = []
    step = Expr.of(1)
    for dim in reversed(list(dims)):
        strides.append(step)
        step = step * dim
    return strides[::-1]


def inner_exprs(expr: Expr) -> list[Expr]:
    """The expressions inside quotients, remainders and extrema, and those inside of these."""
    found: list[Expr] = []
    for monomial in expr.terms:
        for atom in monomial:
            if type(atom) in OPERATORS:
                for child in children_of(atom):
                    found += [child, *inner_exprs(child)]
    return found
