"""What polynomials are made of, and what each kind of atom is worth, ranges over and looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from weft.dialects import interval
from weft.dialects.errors import WeftError
from weft.dialects.expr.terms import Atom, Monomial
from weft.dialects.interval import Range

if TYPE_CHECKING:
    from weft.dialects.expr.polynomial import Expr


class Symbol(Struct, frozen=True):
    """A size known by name, like `batch`."""

    name: str


class Operand(Struct, frozen=True):
    """The index operand of that position; in a layout, the logical index of that dimension."""

    index: int


class Quotient(Struct, frozen=True, cache_hash=True):
    """The dividend over the divisor, rounded towards minus infinity."""

    dividend: Expr
    divisor: Expr


class Remainder(Struct, frozen=True, cache_hash=True):
    """What `Quotient` leaves; it has the divisor's sign."""

    dividend: Expr
    divisor: Expr


class Extremum(Struct, frozen=True, cache_hash=True):
    """The greatest (`max`) or least (`min`) of the operands."""

    operator: str
    operands: tuple[Expr, ...]


OPERATORS = frozenset((Quotient, Remainder, Extremum))


def atom_key(atom: Atom) -> tuple[int, str | int]:
    if isinstance(atom, Symbol):
        return 0, atom.name
    if isinstance(atom, Operand):
        return 1, atom.index
    if isinstance(atom, (Quotient, Remainder, Extremum)):
        return 2, str(atom)
    # An atom that has a number is ordered by it, so that equal programs produce equal text.
    return 3, getattr(atom, "number", id(atom))


def children_of(atom: Atom) -> tuple[Expr, ...]:
    if type(atom) not in OPERATORS:
        return ()
    if isinstance(atom, (Quotient, Remainder)):
        return atom.dividend, atom.divisor
    return atom.operands if isinstance(atom, Extremum) else ()


def atom_range(atom: Atom, ranges: Mapping[Atom, Range]) -> Range:
    if atom in ranges:
        return ranges[atom]
    if isinstance(atom, Symbol):
        return 0, None
    if isinstance(atom, Quotient):
        return interval.floordiv(atom.dividend.range(ranges), atom.divisor.range(ranges))
    if isinstance(atom, Remainder):
        return interval.modulo(atom.divisor.range(ranges))
    if isinstance(atom, Extremum):
        bounds = interval.maximum if atom.operator == "max" else interval.minimum
        return bounds(operand.range(ranges) for operand in atom.operands)
    return interval.UNBOUNDED


def evaluate_atom(atom: Atom, values: Mapping[Atom, int]) -> int:
    if atom in values:
        return values[atom]
    if isinstance(atom, Quotient):
        return atom.dividend.evaluate(values) // atom.divisor.evaluate(values)
    if isinstance(atom, Remainder):
        return atom.dividend.evaluate(values) % atom.divisor.evaluate(values)
    if isinstance(atom, Extremum):
        choose = max if atom.operator == "max" else min
        return choose(operand.evaluate(values) for operand in atom.operands)
    raise WeftError(f"evaluation requires a value for every atom, got none for {atom}")


def format_monomial(monomial: Monomial, name: Callable[[Atom], str]) -> str:
    return " * ".join(_format_atom(atom, name) for atom in monomial)


def format_sum(terms: Mapping[Monomial, int], name: Callable[[Atom], str]) -> str:
    """The text of multiples of products of atoms, added up."""
    if not terms:
        return "0"
    texts = sorted(
        ((format_monomial(monomial, name), factor) for monomial, factor in terms.items()),
        key=lambda term: (term[0] == "", term[0]),
    )
    text = ""
    for position, (monomial, factor) in enumerate(texts):
        sign = "-" if factor < 0 else "+"
        text += f" {sign} " if position else sign.replace("+", "")
        size = abs(factor)
        text += (
            monomial
            if size == 1 and monomial
            else f"{size} * {monomial}"
            if monomial
            else str(size)
        )
    return text


def _format_atom(atom: Atom, name: Callable[[Atom], str]) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    if isinstance(atom, (Quotient, Remainder)):
        operator = "floordiv" if isinstance(atom, Quotient) else "mod"
        dividend, divisor = (_format_factor(x, name) for x in (atom.dividend, atom.divisor))
        return f"({dividend} {operator} {divisor})"
    if isinstance(atom, Extremum):
        return f"{atom.operator}({', '.join(operand.format(name) for operand in atom.operands)})"
    if isinstance(atom, Operand):
        return f"d{atom.index}" if name is str else name(atom)
    return name(atom)


def _format_factor(expr: Expr, name: Callable[[Atom], str]) -> str:
    text = expr.format(name)
    return f"({text})" if len(expr.terms) > 1 or (" * " in text and text[0] != "(") else text
