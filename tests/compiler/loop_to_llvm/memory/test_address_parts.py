"""Addresses by parts are those that a substitution gives."""

import random

import pytest
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.test import TestOp

from weft.compiler.loop_to_llvm.memory.address_parts import AddressParts
from weft.dialects.expr import Atom, Expr, Operand
from weft.dialects.interval import Range


def _some(rng: random.Random, atoms: list[Expr]) -> Expr:
    """Multiples of sums, quotients and remainders of some atoms, one of them constant."""
    total = Expr.of(rng.randint(-9, 9))
    for _ in range(rng.randint(1, 4)):
        inner = sum((rng.randint(1, 40) * each for each in rng.sample(atoms, 2)), Expr.of(0))
        divisor = rng.choice((1, 4, 16))
        part = rng.choice((inner, inner // divisor, inner % divisor))
        total = total + rng.randint(1, 50) * part
    return total


@pytest.mark.parametrize("seed", range(20))
def test_parts_add_up_to_the_address(seed: int) -> None:
    rng = random.Random(seed)
    values = list(TestOp(result_types=[IndexType()] * 3).results)
    operands: list[Atom] = [Operand(number) for number in range(3)]
    counters = [Expr.of(name) for name in ("i", "j")]
    address = _some(rng, [Expr.of(Operand(number)) for number in range(3)])
    ranges: dict[Atom, Range] = {
        atom: (0, rng.choice((3, 15, 100))) for each in counters for atom in each.atoms()
    }
    parts = AddressParts(address, values, ranges)
    for _ in range(12):
        given = [rng.randint(1, 20) * rng.choice(counters) + rng.randint(0, 3) for _ in values]
        known = dict(zip(operands, given, strict=True))
        found = parts.at(dict(zip(values, given, strict=True)))
        assert found == address.substitute(known, ranges)
        numbers = {atom: 2 for each in counters for atom in each.atoms()}
        expected = address.evaluate({atom: each.evaluate(numbers) for atom, each in known.items()})
        assert found.evaluate(numbers) == expected
