"""What graph passes ask about values: the number of a constant, the one user, a polynomial."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from xdsl.ir import Operation, SSAValue

from weft.dialects.graph import ConstantOp, GraphOp, ReshapeOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from weft.dialects.graph.ops.exponential import PowOp
from weft.dialects.graph.reindexing.slicing import SliceOp

Powers = tuple[int, ...]
"""The exponent of each symbol in a product."""

Polynomial = dict[Powers, float]
"""Coefficients of products of symbols."""

DEEPEST = 8
"""Operators that are looked through; a polynomial of an activation has fewer on any path."""


def literal_of(value: SSAValue) -> bool | int | float | None:
    """What an inline constant is everywhere, of its own type: an integer may be no float."""
    owner = value.owner
    if not isinstance(owner, ConstantOp) or owner.literal is None or len(owner.literal.data) != 1:
        return None
    return owner.literal.data[0]


def number_of(value: SSAValue) -> float | None:
    """The number that an inline constant is everywhere."""
    literal = literal_of(value)
    return None if literal is None else float(literal)


def only_user(value: SSAValue) -> Operation | None:
    """The one operation that uses a value, and uses it once."""
    return value.get_user_of_unique_use()


def is_row_of_slice(op: Operation | None) -> bool:
    """Whether dims of 1 are dropped of a slice that nothing else reads, as `x[0]` does. What reads
    the slice in place may read that so as well.
    """
    if not isinstance(op, ReshapeOp) or not isinstance(op.operand.owner, SliceOp):
        return False
    return only_user(op.operand) is op and type_of(op.operand).has_rank and op.keeps_dims()


def erase_unused(op: Operation, kept: Container[Operation] = ()) -> None:
    """Removes a graph operator that nobody uses, and then those that only it used, but for some."""
    pending = [op]
    while pending:
        last = pending.pop()
        used = any(result.uses for result in last.results)
        if isinstance(last, GraphOp) and last.parent is not None and not used:
            owners = [operand.owner for operand in last.operands]
            last.detach()
            last.erase()
            pending += [each for each in owners if isinstance(each, Operation) and each not in kept]


def polynomial(
    value: SSAValue, symbols: Mapping[SSAValue, int], depth: int = DEEPEST
) -> Polynomial | None:
    """The value as a polynomial of the symbols, which are numbered; None where it is none."""
    if value in symbols:
        return {tuple(int(n == symbols[value]) for n in range(len(symbols))): 1.0}
    constant = (0,) * len(symbols)
    if (number := number_of(value)) is not None:
        return {constant: number}
    owner = value.owner
    if depth == 0 or not isinstance(owner, AddOp | SubOp | MulOp | DivOp | PowOp):
        return None
    left = polynomial(owner.operands[0], symbols, depth - 1)
    right = polynomial(owner.operands[1], symbols, depth - 1)
    if left is None or right is None:
        return None
    if isinstance(owner, AddOp | SubOp):
        sign = 1 if isinstance(owner, AddOp) else -1
        return _sum(left, {powers: sign * factor for powers, factor in right.items()})
    if isinstance(owner, MulOp):
        return _product(left, right)
    number = right.get(constant) if right.keys() == {constant} else None
    if isinstance(owner, DivOp):
        return _product(left, {constant: 1 / number}) if number else None
    return _power(left, number, constant)


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    keys = dict.fromkeys([*left, *right])
    return {powers: left.get(powers, 0.0) + right.get(powers, 0.0) for powers in keys}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for one, factor in left.items():
        for other, times in right.items():
            powers = tuple(a + b for a, b in zip(one, other, strict=True))
            total[powers] = total.get(powers, 0.0) + factor * times
    return total


def _power(base: Polynomial, exponent: float | None, one: Powers) -> Polynomial | None:
    if exponent not in (1, 2, 3):
        return None
    result: Polynomial = {one: 1.0}
    for _ in range(int(exponent)):
        result = _product(result, base)
    return result


def is_close(found: Polynomial | None, wanted: Polynomial, tolerance: float) -> bool:
    """Whether two polynomials have the same terms, and coefficients that differ by a rounding."""
    if found is None:
        return False
    terms = {powers: factor for powers, factor in found.items() if factor != 0}
    return terms.keys() == wanted.keys() and all(
        abs(terms[powers] - factor) <= tolerance * abs(factor) for powers, factor in wanted.items()
    )


def inputs_behind(value: SSAValue, depth: int = 5) -> Iterable[SSAValue]:
    """The values that a polynomial of few operators may be one of, nearest first."""
    level, seen = [value], dict[SSAValue, None]()
    for _ in range(depth):
        level = [
            operand
            for each in level
            if isinstance(each.owner, AddOp | SubOp | MulOp | DivOp | PowOp)
            for operand in each.owner.operands
            if number_of(operand) is None and operand not in seen
        ]
        seen |= dict.fromkeys(level)
    return seen
