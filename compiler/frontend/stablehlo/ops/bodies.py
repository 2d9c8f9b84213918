"""Bodies of reductions and scatters: which one known combination they are, if any."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

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


def comparison(block: Block) -> tuple[str, int] | None:
    """The direction and the operand that a comparator of a sort compares, where it is no more than
    one comparison of the two elements of one operand.
    """
    last = block.last_op
    if last is None or len(last.operands) != 1:
        return None
    op = last.operands[0].owner
    if not isinstance(op, HloOp) or op.name != "stablehlo.compare":
        return None
    direction = op.written.get("comparison_direction")
    first, second = (_position(block, each) for each in op.operands)
    if first is None or second is None or first // 2 != second // 2 or first == second:
        return None
    word = str(getattr(direction, "data", ""))
    if word not in ("LT", "GT"):
        return None
    if first > second:
        word = "GT" if word == "LT" else "LT"
    return word, first // 2


def _position(block: Block, value: SSAValue) -> int | None:
    """Which argument of a block a value is."""
    for position, argument in enumerate(block.args):
        if argument is value:
            return position
    return None
