"""Which values are numbers for certain: an extreme of one takes a single comparison."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from weft.dialects.loop.ops import AllocOp, LoadOp, StoreOp


def is_number(value: SSAValue, assumed: frozenset[SSAValue] = frozenset()) -> bool:
    """Whether a float is never NaN: a constant; `maxnum` or `minnum` of a number and anything; or
    what is loaded from a local buffer to which only numbers are stored, as the extreme of a row is.

    The elements of buffers in `assumed` are numbers.
    """
    match value.owner:
        case arith.ConstantOp(value=FloatAttr(value=number)):
            return not math.isnan(number.data)
        case arith.MaxnumfOp() | arith.MinnumfOp() as extreme:
            return any(is_number(operand, assumed) for operand in extreme.operands)
        case arith.ExtFOp() | arith.TruncFOp() as conversion:
            return is_number(conversion.operands[0], assumed)
        case LoadOp(buffer=buffer):
            return buffer in assumed or _holds_numbers(buffer, assumed | {buffer})
        case _:
            return False


def _holds_numbers(buffer: SSAValue, assumed: frozenset[SSAValue]) -> bool:
    if not isinstance(buffer.owner, AllocOp):
        return False
    users = [use.operation for use in buffer.uses]
    return all(
        isinstance(user, LoadOp) or (isinstance(user, StoreOp) and is_number(user.value, assumed))
        for user in users
    )
