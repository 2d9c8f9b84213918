"""The text form of integer expressions inside xDSL's syntax: `4 * %i + (batch * seq) floordiv 16`.

expr     ::= term (('+' | '-') term)*
term     ::= factor (('*' | 'floordiv' | 'mod') factor)*
factor   ::= '-' factor | integer | name | operand | '(' expr ')' | extremum
extremum ::= ('max' | 'min') '(' expr (',' expr)* ')'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeGuard

from xdsl.dialects.builtin import IndexType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from weft.dialects.expr import Atom, Expr, Operand, maximum, minimum

OptionalAtomParser = Callable[[], Expr | None]

INDEX = IndexType()

RESERVED = frozenset({"max", "min", "floordiv", "mod", "true", "false"})
"""Words that mean something else in an expression's text."""

_VALUES = frozenset((OpResult, BlockArgument))


def is_size_name(text: str) -> bool:
    """Whether the text of an expression may have this as the name of a size: `d0` and its like are
    operands there.
    """
    return text not in RESERVED and bool(re.fullmatch(r"(?!d\d+$)[A-Za-z_]\w*", text, re.ASCII))


def parse_expr(parser: AttrParser, parse_atom: OptionalAtomParser = lambda: None) -> Expr:
    """Parses one expression; `parse_atom` is asked first at each atom, and names are symbols."""
    total = _parse_term(parser, parse_atom)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = total + _parse_term(parser, parse_atom)
        elif parser.parse_optional_punctuation("-"):
            total = total - _parse_term(parser, parse_atom)
        else:
            return total


def _parse_term(parser: AttrParser, parse_atom: OptionalAtomParser) -> Expr:
    total = _parse_factor(parser, parse_atom)
    while True:
        if parser.parse_optional_punctuation("*"):
            total = total * _parse_factor(parser, parse_atom)
        elif parser.parse_optional_keyword("floordiv"):
            total = total // _parse_factor(parser, parse_atom)
        elif parser.parse_optional_keyword("mod"):
            total = total % _parse_factor(parser, parse_atom)
        else:
            return total


def _parse_factor(parser: AttrParser, parse_atom: OptionalAtomParser) -> Expr:
    if parser.parse_optional_punctuation("-"):
        return -_parse_factor(parser, parse_atom)
    if (atom := parse_atom()) is not None:
        return atom
    if parser.parse_optional_punctuation("("):
        inner = parse_expr(parser, parse_atom)
        parser.parse_punctuation(")")
        return inner
    if (
        number := parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    ) is not None:
        return Expr.of(number)
    name = parser.parse_identifier(" in an integer expression")
    if name in ("max", "min") and parser.parse_optional_punctuation("("):
        operands = [parse_expr(parser, parse_atom)]
        while parser.parse_optional_punctuation(","):
            operands.append(parse_expr(parser, parse_atom))
        parser.parse_punctuation(")")
        return maximum(operands) if name == "max" else minimum(operands)
    return Expr.of(name)


def parse_formal_expr(parser: AttrParser) -> Expr:
    """Parses an expression whose `d0`, `d1`, ... are formal operands, as attributes hold them."""

    def formal() -> Expr | None:
        name = parser.parse_optional_identifier()
        if name is None:
            return None
        if name[0] == "d" and name[1:].isdecimal():
            return Expr.of(Operand(int(name[1:])))
        if name in ("max", "min"):
            return _parse_formal_extremum(parser, name)
        return Expr.of(name)

    return parse_expr(parser, formal)


def _parse_formal_extremum(parser: AttrParser, operator: str) -> Expr:
    parser.parse_punctuation("(")
    operands = [parse_formal_expr(parser)]
    while parser.parse_optional_punctuation(","):
        operands.append(parse_formal_expr(parser))
    parser.parse_punctuation(")")
    return maximum(operands) if operator == "max" else minimum(operands)


def parse_value_expr(parser: Parser, values: list[SSAValue]) -> Expr:
    """Parses an expression whose atoms may be SSA values;
    new ones are appended to `values` and become operands.
    """

    def value() -> Expr | None:
        unresolved = parser.parse_optional_unresolved_operand()
        if unresolved is None:
            return None
        operand = parser.resolve_operand(unresolved, INDEX)
        if operand not in values:
            values.append(operand)
        return Expr.of(Operand(values.index(operand)))

    return parse_expr(parser, value)


def print_value_expr(printer: Printer, expr: Expr, values: Sequence[SSAValue]) -> None:
    """Prints an expression with its operands by their SSA names."""

    for position, part in enumerate(_parts(expr)):
        if position % 2:
            printer.print_ssa_value(values[int(part)])
        elif part:
            printer.print_string(part)


@lru_cache(maxsize=1 << 12)
def _parts(expr: Expr) -> list[str]:
    """The text of a formal expression, with the number of an operand as every second part."""

    def mark(atom: Atom) -> str:
        assert isinstance(atom, Operand), (
            f"an expression in the IR holds operands and symbols, not {atom}"
        )
        return f"{_MARK}{atom.index}{_MARK}"

    return expr.format(mark).split(_MARK)


_MARK = "\0"
"""Surrounds an operand's number in a formatted expression,
where only the printer knows the operand's name.
"""


def bind(expr: Expr, values: Sequence[SSAValue]) -> Expr:
    """The expression with each formal operand replaced by its SSA
    value, for passes to compute with.
    """
    return expr if expr.constant is not None else _bound(expr, tuple(values))


@lru_cache(maxsize=1 << 12)
def bind_all(exprs: tuple[Expr, ...], values: tuple[SSAValue, ...]) -> tuple[Expr, ...]:
    """The expressions, each as by `bind`."""
    return tuple(bind(expr, values) for expr in exprs)


def bound_exprs(op: Operation, formal: tuple[Expr, ...], first: int = 0) -> tuple[Expr, ...]:
    """The expressions of an operation over its operands from the first one on. They are kept with
    the operation, which is asked for them again and again between two changes.
    """
    operands, kept = op._operands, vars(op).get("bound_exprs")  # pyright: ignore[reportPrivateUsage]
    if kept is not None and kept[0] is formal and kept[1] is operands:
        return kept[2]
    found = bind_all(formal, tuple(operands[first:]))
    vars(op)["bound_exprs"] = formal, operands, found
    return found


@lru_cache(maxsize=1 << 12)
def _bound(expr: Expr, values: tuple[SSAValue, ...]) -> Expr:
    atoms: dict[Atom, Expr] = {
        Operand(position): Expr.atom(value) for position, value in enumerate(values)
    }
    return expr.substitute(atoms)


def is_value(atom: Atom) -> TypeGuard[SSAValue]:
    """Whether the atom is an SSA value, told several times as fast as by `isinstance`, for which
    they are an abstract class.
    """
    return type(atom) in _VALUES


def unbind(exprs: Sequence[Expr]) -> tuple[list[Expr], list[SSAValue]]:
    """The inverse of `bind`: formal expressions and the SSA values that their
    operands stand for, each once.
    """
    values = list(dict.fromkeys(atom for expr in exprs for atom in expr.atoms() if is_value(atom)))
    formals: dict[Atom, Expr] = {
        value: Expr.of(Operand(position)) for position, value in enumerate(values)
    }
    return [expr.substitute(formals) for expr in exprs], values
