"""Bodies of reductions and scatters: which one known combination they are, if any."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, SSAValue

from weft.dialects.stablehlo.attributes import WordAttr
from weft.dialects.stablehlo.op import HloOp

COMBINATIONS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}


def combination(block: Block) -> str | None:
    """The name of what a body of two scalars computes of them, `none` for the second one; None for
    any other body.
    """
    last = block.last_op
    if last is None or len(last.operands) != 1 or len(block.args) != 2:
        return None
    value = last.operands[0]
    if value is block.args[1]:
        return "none"
    op = value.owner
    if not isinstance(op, HloOp) or op.name not in COMBINATIONS or len(list(block.ops)) != 2:
        return None
    return COMBINATIONS[op.name] if set(op.operands) == set(block.args) else None


_EXTREMA = {"arg_max": "GT", "arg_min": "LT"}
"""By the operator of the graph: how the first of two elements compares with the second one where it
is kept.
"""


_OF_EXTREMA = 10
"""Operators of such a body."""


def position_of_extremum(block: Block) -> str | None:
    """The operator whose body keeps the greater or the lesser of two elements, a NaN before others,
    and its position, the lower one of equals; None for any other body.

    `a, i, b, j -> (a > b or a != a) ? a : b, (a > b or a != a or a == b and i < j) ? i : j`
    """
    last = block.last_op
    if last is None or len(last.operands) != 2 or len(block.args) != 4:
        return None
    if len(list(block.ops)) > _OF_EXTREMA:
        return None  # formulas of others may grow with each operator
    found = [_formula(block, each) for each in last.operands]
    for name, word in _EXTREMA.items():
        kept = _joined("or", _joined(word, "0", "2"), _joined("NE", "0", "0"))
        lower = _joined("and", _joined("EQ", "0", "2"), _joined("LT", "1", "3"))
        chosen = _joined("or", kept, lower)
        if found == [_joined("select", kept, "0", "2"), _joined("select", chosen, "1", "3")]:
            return name
    return None


def _formula(block: Block, value: SSAValue) -> str:
    """What a value of a body is computed from, the operands of `and` and `or` in one order."""
    if value in block.args:
        return str(next(at for at, each in enumerate(block.args) if each is value))
    op = value.owner
    if not isinstance(op, HloOp) or _word(op, "compare_type") == "TOTALORDER":
        return "another"
    word = _word(op, "comparison_direction") or op.name.removeprefix("stablehlo.")
    return _joined(word, *(_formula(block, each) for each in op.operands))


def _joined(name: str, *operands: str) -> str:
    ordered = sorted(operands) if name in ("and", "or") else operands
    return f"{name}({', '.join(ordered)})"


class Comparison(Struct, frozen=True):
    """A comparator of a sort: the direction, the operand whose two elements are compared, and
    whether floats are in total order, zeros and NaNs by their signs.
    """

    direction: str
    key: int
    total: bool = False


def comparison(block: Block) -> Comparison | None:
    """The comparison that a comparator is, where it is no more than one of the two elements of one
    operand; None for any other.
    """
    last = block.last_op
    if last is None or len(last.operands) != 1:
        return None
    op = last.operands[0].owner
    if not isinstance(op, HloOp) or op.name != "stablehlo.compare":
        return None
    first, second = (_key(block, each) for each in op.operands)
    word = _word(op, "comparison_direction")
    if first is None or second is None or word not in ("LT", "GT"):
        return None
    same = first.position // 2 == second.position // 2 and first.position != second.position
    if not same or first.tidies != second.tidies:
        return None
    total = _word(op, "compare_type") == "TOTALORDER"
    if first.tidies not in ((), ("EQ", "NE")) or (first.tidies and not total):
        return None
    if first.position > second.position:
        word = "GT" if word == "LT" else "LT"
    return Comparison(word, first.position // 2, total and not first.tidies)


class _Key(Struct, frozen=True):
    """An argument of a comparator, of which zeros (`EQ`) or NaNs (`NE`) are made one."""

    position: int
    tidies: tuple[str, ...] = ()


def _key(block: Block, value: SSAValue) -> _Key | None:
    """The argument that a value is, whose zeros and NaNs may have been made one by selections, as
    JAX does in front of a comparison in total order.
    """
    found: list[str] = []
    sources: list[SSAValue] = []
    while value not in block.args:
        op = value.owner
        if not isinstance(op, HloOp) or op.name != "stablehlo.select":
            return None
        condition = op.operands[0].owner
        if not isinstance(condition, HloOp) or condition.name != "stablehlo.compare":
            return None
        word = _word(condition, "comparison_direction")
        source, other = condition.operands
        number = _number(op.operands[1])
        zero = word == "EQ" and number == 0 and _number(other) == 0
        nan = word == "NE" and other is source and number is not None and math.isnan(number)
        if not zero and not nan:
            return None
        found.append(word)
        sources.append(source)
        value = op.operands[2]
    if any(source is not value for source in sources):
        return None
    position = next(at for at, each in enumerate(block.args) if each is value)
    return _Key(position, tuple(sorted(found)))


def _word(op: HloOp, name: str) -> str:
    value = op.written.get(name)
    return value.data if isinstance(value, WordAttr) else ""


def _number(value: SSAValue) -> float | None:
    """The number that a constant scalar is."""
    op = value.owner
    if not isinstance(op, HloOp) or op.name != "stablehlo.constant":
        return None
    elements = op.written.get("value")
    if not isinstance(elements, DenseIntOrFPElementsAttr):
        return None
    values: Any = elements.get_values()
    return float(values[0]) if len(values) == 1 else None
