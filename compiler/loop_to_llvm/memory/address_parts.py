"""An address as a sum of parts that have no operand in common.

Unrolled iterations differ in few operands at a time: a tile's rows repeat what its columns have.
So what a part is at values that it has had before is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from xdsl.ir import SSAValue

from weft.dialects.expr import Atom, Expr, Monomial, Operand, sum_of
from weft.dialects.interval import Range


class Part(Struct, eq=False):
    """Some terms, the operands in them, and what they are at values of these."""

    terms: Expr
    operands: list[Operand]
    values: list[SSAValue]
    known: dict[tuple[Expr, ...], Expr] = field(default_factory=dict[tuple[Expr, ...], Expr])


class AddressParts:
    """The address of one operation over its operands. `ranges` are those of the atoms that values
    of operands have, which each atom has from the start.
    """

    def __init__(self, address: Expr, values: Sequence[SSAValue], ranges: Mapping[Atom, Range]):
        self.ranges = ranges
        self.parts = [
            Part(Expr(terms), operands, [values[each.index] for each in operands])
            for operands, terms in _separated(address)
        ]

    def at(self, values: Mapping[SSAValue, Any]) -> Expr:
        """The address at what the operands are."""
        found: list[Expr] = []
        for part in self.parts:
            key = tuple([values[value] for value in part.values])
            each = part.known.get(key)
            if each is None:
                given: dict[Atom, Expr] = dict(zip(part.operands, key, strict=True))
                each = part.known[key] = part.terms.substitute(given, self.ranges)
            found.append(each)
        return sum_of(found)


def _separated(address: Expr) -> list[tuple[list[Operand], dict[Monomial, int]]]:
    """The terms in groups of which no two have an operand in common."""
    groups: list[tuple[list[Operand], dict[Monomial, int]]] = []
    for monomial, factor in address.terms.items():
        atoms = Expr({monomial: factor}).atoms()
        operands = dict.fromkeys(atom for atom in atoms if isinstance(atom, Operand))
        terms, apart = {monomial: factor}, groups
        groups = []
        for own, others in apart:
            if operands.keys().isdisjoint(own):
                groups.append((own, others))
            else:
                operands |= dict.fromkeys(own)
                terms = others | terms
        groups.append((list(operands), terms))
    return groups
