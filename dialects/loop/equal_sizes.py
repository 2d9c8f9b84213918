"""Sizes that have to be equal in every call of a graph function, or a program: an attribute of it,
for the operators that need them may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from weft.dialects.expr import Atom, Equalities, Expr, Symbol
from weft.dialects.loop.types import ExprsAttr

EQUAL_SIZES = "equal_sizes"
"""The attribute of a function or program that lists pairs of sizes that are equal in every call."""

EQUAL_SIZES_OF = "equal_sizes_of"
"""The attribute that lists the nodes which need them, where these have names."""

Pair = tuple[Expr, Expr]


def note_equal_sizes(op: Operation, pairs: Mapping[Pair, str]) -> None:
    """Notes these pairs alone, and the name of the node that needs each, which may be empty."""
    for key in (EQUAL_SIZES, EQUAL_SIZES_OF):
        op.attributes.pop(key, None)
    if not pairs:
        return
    op.attributes[EQUAL_SIZES] = ArrayAttr(map(ExprsAttr, pairs))
    if any(pairs.values()):
        op.attributes[EQUAL_SIZES_OF] = ArrayAttr(map(StringAttr, pairs.values()))


def noted_equal_sizes(op: Operation) -> dict[Pair, str]:
    """The pairs that are noted, each with the node that needs it."""
    pairs, names = op.attributes.get(EQUAL_SIZES), op.attributes.get(EQUAL_SIZES_OF)
    if not isa(pairs, ArrayAttr[ExprsAttr]):
        return {}
    nodes = (
        [name.data for name in names] if isa(names, ArrayAttr[StringAttr]) else [""] * len(pairs)
    )
    sizes = [pair.data for pair in pairs]
    return {(one, other): node for (one, other), node in zip(sizes, nodes, strict=True)}


def equalities_around(op: Operation) -> Equalities:
    """What the functions that an operation is in note."""
    known: dict[Pair, str] = {}
    outer: Operation | None = op
    while outer is not None:
        known |= noted_equal_sizes(outer)
        outer = outer.parent_op()
    return Equalities(known)


def multiples(pairs: Iterable[Pair]) -> dict[str, int]:
    """The sizes that are multiples of a number where these pairs are equal:

    h = 2 * ((h + 1) floordiv 2)      h is even
    """
    numbers: dict[str, int] = {}
    sides = [sides for one, other in pairs for sides in ((one, other), (other, one))]
    while found := next(_multiple(sides, as_multiples(numbers)), None):
        name, number = found
        numbers[name] = numbers.get(name, 1) * number
    return numbers


def as_multiples(numbers: Mapping[str, int]) -> dict[Atom, Expr]:
    """Each size as the number times another size of its name."""
    return {Symbol(name): number * Expr.of(name) for name, number in numbers.items()}


def _multiple(sides: Iterable[Pair], values: Mapping[Atom, Expr]) -> Iterator[tuple[str, int]]:
    """The sizes that equal something of which all terms are multiples of a number above 1."""
    for one, other in sides:
        size, whole = one.substitute(values), other.substitute(values)
        names, number = size.symbols(), gcd(*whole.terms.values())
        if number > 1 and whole.constant is None and size == Expr.of(names[0] if names else 0):
            yield names[0], number
