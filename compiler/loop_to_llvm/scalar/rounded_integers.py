"""Rounded floats as integers of few bits: the low bits of the float beside 1.5 * 2**23, where
floats are one apart, so that a sum rounds as `roundeven` does.

    i8(roundeven(x) + z)   ->   i8(bits(clamp(x + 12582912, 12582784 - z, 12583039 - z) + z))
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from llvmlite import ir
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from weft.compiler.loop_to_llvm.scalar.elements import lanes_of
from weft.compiler.loop_to_llvm.vector_math.formats import F32
from weft.compiler.loop_to_llvm.vector_math.lanes import Emitter, Real, select

_ROUNDING: Final = 1.5 * 2**23

_MOST_BITS: Final = 16
"""Of an integer: with as many for what is added there are enough in a float."""


class Rounded(NamedTuple):
    """`roundeven(value) + offset`, a whole number."""

    value: Any
    offset: int


def rounded(op: Operation, operand: Any) -> Rounded | None:
    """What a conversion to a short integer rounds before, if it is of vectors of f32 that are
    rounded by a call, with an offset that is a whole number; `operand` is what it converts.
    """
    wanted, source = op.results[0].type, op.operands[0]
    if not isinstance(wanted, IntegerType) or not 1 < wanted.width.data <= _MOST_BITS:
        return None
    if not isinstance(source.type, Float32Type) or not lanes_of(operand):
        return None
    offset = 0
    if isinstance(source.owner, arith.AddfOp) and isinstance(operand, ir.Instruction):
        found = _whole_number(source.owner.rhs)
        if found is None:
            return None
        source, operand, offset = source.owner.lhs, operand.operands[0], found
    if not isinstance(source.owner, math.RoundEvenOp) or not isinstance(operand, ir.CallInstr):
        return None
    return Rounded(operand.args[0], offset)


def _whole_number(value: SSAValue) -> int | None:
    """A constant that is a whole number of few bits."""
    match value.owner:
        case arith.ConstantOp(value=FloatAttr(value=number)) if number.data.is_integer():
            return int(number.data) if abs(number.data) < 2**_MOST_BITS else None
        case _:
            return None


def emit_rounded(builder: ir.IRBuilder, number: Rounded, bits: int, *, signed: bool) -> Any:
    """The integer: out of range it saturates, and NaN gives 0."""
    at = Emitter(builder, lanes_of(number.value), has_fma=False)
    x, offset = Real(at, F32, number.value), number.offset
    most = (1 << (bits - signed)) - 1
    least = -most - 1 if signed else 0
    # An odd offset beside it would round ties to odd numbers.
    early = offset if offset % 2 == 0 else 0
    start, late = _ROUNDING + early, offset - early
    within = (x + start).at_least(_ROUNDING + least - late).at_most(_ROUNDING + most - late)
    found = select(x.is_nan(), x.literal(_ROUNDING - late), within)
    if late:
        found = found + float(late)
    return found.bits().resize(bits).value
