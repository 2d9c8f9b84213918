"""Bodies of reductions and scatters: which one known combination they are, if any."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

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
    if not isinstance(op, HloOp) or word_of(op, "compare_type") == "TOTALORDER":
        return "another"
    word = word_of(op, "comparison_direction") or op.name.removeprefix("stablehlo.")
    return _joined(word, *(_formula(block, each) for each in op.operands))


def _joined(name: str, *operands: str) -> str:
    ordered = sorted(operands) if name in ("and", "or") else operands
    return f"{name}({', '.join(ordered)})"


_OF_KEYS = 200
"""Operators of a comparator whose formulas are compared."""


class SortKey(Struct, frozen=True):
    """What a comparator compares of both elements: a formula of the first one, whether the greater
    one comes first, and whether floats are in total order, zeros and NaNs by their signs.
    """

    value: SSAValue
    descending: bool
    total: bool


def sort_keys(block: Block) -> list[SortKey] | None:
    """The keys of a comparator that compares one formula of both elements, and of equals another;
    None for any other comparator.

    `f(a) < f(b) or f(a) == f(b) and (g(a) > g(b) or ...)`
    """
    last = block.last_op
    if last is None or len(last.operands) != 1 or len(list(block.ops)) > _OF_KEYS:
        return None
    return _keys(block, last.operands[0])


def _keys(block: Block, value: SSAValue) -> list[SortKey] | None:
    op = value.owner
    if not isinstance(op, HloOp) or op.name != "stablehlo.or":
        key = _key_of(block, op)
        return None if key is None else [key]
    for first, both in (op.operands, op.operands[::-1]):
        key, last = _key_of(block, first.owner), both.owner
        if key is None or not isinstance(last, HloOp) or last.name != "stablehlo.and":
            continue
        for same, others in (last.operands, last.operands[::-1]):
            if _are_equals(first.owner, same.owner):
                following = _keys(block, others)
                return None if following is None else [key, *following]
    return None


def _key_of(block: Block, op: Operation | Block) -> SortKey | None:
    """The key of one comparison, if it is of the same formula of both elements."""
    if not isinstance(op, HloOp) or op.name != "stablehlo.compare":
        return None
    word, total = word_of(op, "comparison_direction"), word_of(op, "compare_type") == "TOTALORDER"
    first, second = op.operands
    if not _mirrors(block, first, second, set()):
        first, second = second, first
        word = {"LT": "GT", "GT": "LT"}.get(word)
    if word not in ("LT", "GT") or not _mirrors(block, first, second, set()):
        return None
    untied = _untied(first) if total else None
    return SortKey(first if untied is None else untied, word == "GT", total and untied is None)


def _are_equals(order: Operation | Block, same: Operation | Block) -> bool:
    """Whether a comparison is `==` of what another one compares."""
    if not isinstance(order, HloOp) or not isinstance(same, HloOp):
        return False
    alike = word_of(order, "compare_type") == word_of(same, "compare_type")
    equal = alike and word_of(same, "comparison_direction") == "EQ"
    return equal and set(order.operands) == set(same.operands)


def _mirrors(block: Block, x: SSAValue, y: SSAValue, known: set[tuple[SSAValue, SSAValue]]) -> bool:
    """Whether one value is of the first elements what another is of the second ones."""
    if (x, y) in known:
        return True
    if isinstance(x, BlockArgument) and isinstance(y, BlockArgument):
        if x.block is not block or y.block is not block:
            return x is y
        return x.index % 2 == 0 and y.index == x.index + 1
    one, other = x.owner, y.owner
    if not isinstance(one, HloOp) or not isinstance(other, HloOp):
        return False
    same = one.name == other.name and one.written == other.written and not one.regions
    same = same and x.type == y.type and len(one.operands) == len(other.operands)
    pairs = zip(one.operands, other.operands, strict=False)
    if not same or not all(_mirrors(block, a, b, known) for a, b in pairs):
        return False
    known.add((x, y))
    return True


def _untied(value: SSAValue) -> SSAValue | None:
    """What a value is selected from, if its zeros and its NaNs are made one by selections, as JAX
    does in front of a comparison in total order: in that order it then is as numbers are.
    """
    found: list[str] = []
    sources: list[SSAValue] = []
    while isinstance(op := value.owner, HloOp) and op.name == "stablehlo.select":
        condition = op.operands[0].owner
        if not isinstance(condition, HloOp) or condition.name != "stablehlo.compare":
            return None
        word = word_of(condition, "comparison_direction")
        source, other = condition.operands
        number = number_of(op.operands[1])
        zero = word == "EQ" and number == 0 and number_of(other) == 0
        nan = word == "NE" and other is source and number is not None and math.isnan(number)
        if not zero and not nan:
            return None
        found.append(word)
        sources.append(source)
        value = op.operands[2]
    one = all(source is value for source in sources)
    return value if one and sorted(found) == ["EQ", "NE"] else None


def word_of(op: HloOp, name: str) -> str:
    """The word that an attribute is, or nothing."""
    value = op.written.get(name)
    return value.data if isinstance(value, WordAttr) else ""


def number_of(value: SSAValue) -> float | None:
    """The number that a constant scalar is."""
    op = value.owner
    if not isinstance(op, HloOp) or op.name != "stablehlo.constant":
        return None
    elements = op.written.get("value")
    if not isinstance(elements, DenseIntOrFPElementsAttr):
        return None
    values: Any = elements.get_values()
    return float(values[0]) if len(values) == 1 else None
