"""Operators on each element, which bodies that are written for scalars are made of too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import ml_dtypes
from xdsl.ir import Attribute

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    SIGNED,
    UI8,
    UI16,
    UI32,
    UI64,
)  # fmt: skip
from weft.dialects.loop.scalar import width

UNSIGNED_OF = {8: UI8, 16: UI16, 32: UI32, 64: UI64}
SIGNED_OF = {8: I8, 16: I16, 32: I32, 64: I64}


def named(name: str, of_bools: str = "") -> HloImporter:
    """The operator of that name, and another for bools."""

    def build(node: Node) -> Sequence[Term]:
        bools = node.only.type.element == BOOL
        if bools and not of_bools:
            raise UnsupportedError("requires numbers, got bools")
        values = [operand.value for operand in node.operands]
        chosen = of_bools if bools else name
        return [Term(node.b, node.b.op(chosen, *values).results[0])]

    return build


def of_terms(function: Callable[..., Term]) -> HloImporter:
    """A formula of the operands."""

    def build(node: Node) -> Sequence[Term]:
        return [function(*node.operands)]

    return build


def in_f32(function: Callable[..., Term]) -> HloImporter:
    """A formula of floats, of which halves are computed in f32 and rounded once."""

    def build(node: Node) -> Sequence[Term]:
        return [widened(function, *node.operands)]

    return build


def widened(function: Callable[..., Term], *operands: Term) -> Term:
    """A formula in f32 of operands that are narrower, rounded once."""
    element = operands[0].type.element
    if element not in FLOATS:
        raise UnsupportedError(f"requires floats, got {element}")
    if element in (F16, BF16):
        return function(*(each.cast(F32) for each in operands)).cast(element)
    return function(*operands)


def is_nan(x: Term) -> Term:
    """Whether each element is NaN."""
    return x.math("is_nan")


def is_finite(x: Term) -> Term:
    """Whether each element is neither infinite nor NaN."""
    return x.math("abs") < math.inf


def divide(x: Term, y: Term) -> Term:
    """The quotient; of integers towards zero, and -1 (all bits) over zero, as XLA has it."""
    if x.type.element in FLOATS:
        return x / y
    ones = x.number(-1 if x.type.element in SIGNED else int(greatest(x.type.element)))
    return y.equals(0).where(ones, x / y)


def remainder(x: Term, y: Term) -> Term:
    """The remainder with the dividend's sign; of an integer over zero the dividend."""
    found = x.of(x.b.mod(x.value, y.value, fmod=True))
    return found if x.type.element in FLOATS else y.equals(0).where(x, found)


def greatest(element: Attribute) -> int:
    """The greatest integer of a type."""
    return int(ml_dtypes.iinfo(numpy_dtype(element)).max)


def negated(x: Term) -> Term:
    """The number of the other sign; of unsigned integers modulo a power of two."""
    return -x


def sign(x: Term) -> Term:
    """-1, 0 or 1; a zero keeps its sign, and NaN is NaN."""
    if x.type.element not in FLOATS:
        return x.math("sign")
    return x.equals(0).where(x, x.math("sign"))


def cbrt(x: Term) -> Term:
    """The cube root: a power, and a step of Newton's method, which makes it exact to an ULP."""
    if x.type.element == F64:
        return _cbrt(x)
    return _cbrt(x.cast(F64)).cast(x.type.element)


def _cbrt(x: Term) -> Term:
    size = x.math("abs")
    usual = (size > 0).__and__(size < math.inf)
    safe = usual.where(size, 1.0)
    root = x.of(x.b.pow(safe.value, safe.number(1 / 3).value))
    root = root - (root * root * root - safe) / (root * root * 3.0)
    return usual.where((x < 0).where(-root, root), x)


def atan2(y: Term, x: Term) -> Term:
    """The angle of `(x, y)`, with the special values of C."""
    big, small = x.math("abs").maximum(y.math("abs")), x.math("abs").minimum(y.math("abs"))
    both_infinite, zero = small.equals(math.inf), big.equals(0)
    ratio = small / zero.where(1.0, big)
    ratio = both_infinite.where(1.0, big.equals(math.inf).where(0.0, ratio))
    nan = is_nan(x) | is_nan(y)
    steep = y.math("abs") > x.math("abs")
    angle = ratio.math("atan")
    angle = steep.where(math.pi / 2 - angle, angle)
    angle = is_negative(x).where(math.pi - angle, angle)
    return nan.where(x + y, copy_sign(angle, y))


def is_negative(x: Term) -> Term:
    """Whether the sign bit is set."""
    return bits(x, signed=True) < 0


def bits(x: Term, *, signed: bool) -> Term:
    """The bits of floats as integers of the same width."""
    table = SIGNED_OF if signed else UNSIGNED_OF
    return x.of(x.b.bitcast(x.value, to=table[width(x.type.element)]))


def from_bits(x: Term, element: Attribute) -> Term:
    """Bits as floats."""
    return x.of(x.b.bitcast(x.value, to=element))


def copy_sign(size: Term, sign_of: Term) -> Term:
    """The magnitude of one number with the sign of another."""
    size = size.math("abs")
    return is_negative(sign_of).where(-size, size)


def exact(function: Callable[..., Term]) -> Callable[..., Term]:
    """A formula of f32 in f64, rounded once; of f64 as it is."""

    def computed(*operands: Term) -> Term:
        element = operands[0].type.element
        return function(*(each.cast(F64) for each in operands)).cast(element)

    return computed


def rsqrt(x: Term) -> Term:
    """`1 / sqrt(x)`."""
    return 1.0 / x.math("sqrt")


def round_away(x: Term) -> Term:
    """The nearest whole number, halves away from zero."""
    size = x.math("abs")
    whole = size.math("floor")
    up = (size - whole >= 0.5).where(whole + 1.0, whole)
    return copy_sign(up, x)


def logical_not(node: Node) -> Sequence[Term]:
    """The other bool, or every bit flipped."""
    return [node.only.math("logical_not" if node.only.type.element == BOOL else "bitwise_not")]


def shift(direction: str, *, signed: bool = False) -> HloImporter:
    """Bits moved; a count that is negative or no less than the width moves all of them out."""

    def build(node: Node) -> Sequence[Term]:
        x, count = node.operands
        element = x.type.element
        bits_of = SIGNED_OF if signed else UNSIGNED_OF
        work = element if direction == "LEFT" else bits_of[width(element)]
        as_work = [
            each if each.type.element == work else each.of(node.b.bitcast(each.value, to=work))
            for each in (x, count)
        ]
        values = [each.value for each in as_work]
        moved = x.of(node.b.bit_shift(*values, direction=direction))
        return [moved if work == element else x.of(node.b.bitcast(moved.value, to=element))]

    return build


def popcnt(x: Term) -> Term:
    """How many bits are set."""
    size = width(x.type.element)
    element, work = x.type.element, UNSIGNED_OF[width(x.type.element)]
    v = x if element == work else x.of(x.b.bitcast(x.value, to=work))

    def masked(value: Term, byte: int) -> Term:
        mask = int.from_bytes(bytes([byte]) * (size // 8), "little")
        return v.of(v.b.bitwise_and(value.value, v.number(mask).value))

    def right(value: Term, count: int) -> Term:
        return v.of(v.b.bit_shift(value.value, v.number(count).value, direction="RIGHT"))

    v = v - masked(right(v, 1), 0x55)
    v = masked(v, 0x33) + masked(right(v, 2), 0x33)
    v = masked(v + right(v, 4), 0x0F)
    total = v
    for byte in range(1, size // 8):
        total = total + right(v, 8 * byte)
    total = v.of(v.b.bitwise_and(total.value, v.number(0xFF).value))
    return total.cast(element)


def count_leading_zeros(x: Term) -> Term:
    """How many bits in front of the first that is set: bits below it are filled and counted."""
    element, size = x.type.element, width(x.type.element)
    v = x.of(x.b.bitcast(x.value, to=UNSIGNED_OF[size])) if element in SIGNED else x
    step = 1
    while step < size:
        moved = v.b.bit_shift(v.value, v.number(step).value, direction="RIGHT")
        v = v.of(v.b.bitwise_or(v.value, moved))
        step *= 2
    found = size - popcnt(v)
    return found.cast(element)


_COMPARISONS = {
    "EQ": "equal", "LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal",
    "NE": "equal",
}  # fmt: skip


def compare(node: Node) -> Sequence[Term]:
    """A comparison; `TOTALORDER` orders floats by sign and magnitude, NaN outermost."""
    x, y = node.operands
    direction = node.word("comparison_direction")
    if node.word("compare_type") == "TOTALORDER" and x.type.element in FLOATS:
        x, y = total_order(x), total_order(y)
    return [compared(direction, x, y)]


def compared(direction: str, x: Term, y: Term) -> Term:
    """A comparison by its name; false is less than true."""
    if direction not in _COMPARISONS:
        raise ModelError(f"requires a comparison out of {', '.join(_COMPARISONS)}, got {direction}")
    if x.type.element == BOOL:
        x, y = x.cast(UI8), y.cast(UI8)
    found = x.of(x.b.op(_COMPARISONS[direction], x.value, y.value).results[0])
    return found.math("logical_not") if direction == "NE" else found


def total_order(x: Term) -> Term:
    """Floats as integers in the order of IEEE 754's `totalOrder`."""
    as_integer = bits(x, signed=True)
    most = greatest(as_integer.type.element)
    flipped = x.of(x.b.bitwise_xor(as_integer.value, as_integer.number(most).value))
    return (as_integer < 0).where(flipped, as_integer)


def select(node: Node) -> Sequence[Term]:
    """The second operand where the first holds, else the third."""
    condition, then, otherwise = node.operands
    return [condition.where(then, otherwise)]


def clamp(node: Node) -> Sequence[Term]:
    """`min(max(x, low), high)`."""
    low, x, high = node.operands
    if x.type.element == BOOL:
        return [(x | low) & high]
    return [x.maximum(low).minimum(high)]


def convert(node: Node) -> Sequence[Term]:
    """The values as another element type."""
    return [node.only.cast(node.result.element)]


def reduce_precision(node: Node) -> Sequence[Term]:
    """Floats rounded to fewer bits of exponent and mantissa, halves to the even one."""
    x = node.only
    exponent, mantissa = node.integer("exponent_bits"), node.integer("mantissa_bits")
    element = x.type.element
    info = cast("Any", ml_dtypes.finfo)(numpy_dtype(element))
    kept, most = int(info.nmant), int(info.nexp)
    number = bits(x, signed=False)
    if mantissa < kept:
        dropped = kept - mantissa
        last = _bit_and(_right(number, dropped), 1)
        number = number + (last + ((1 << (dropped - 1)) - 1))
        number = _bit_and(number, ((1 << int(info.bits)) - 1) ^ ((1 << dropped) - 1))
    rounded = from_bits(number, element)
    if exponent < most:
        bias = (1 << (exponent - 1)) - 1
        largest = (2.0 - 2.0**-mantissa) * 2.0**bias
        smallest = 2.0 ** (1 - bias)
        size = rounded.math("abs")
        rounded = (size > largest).where(copy_sign(x.number(math.inf), x), rounded)
        rounded = (size < smallest).where(copy_sign(x.number(0.0), x), rounded)
    # without a mantissa there is no NaN
    return [is_nan(x).where(x if mantissa else copy_sign(x.number(math.inf), x), rounded)]


def _right(x: Term, count: int) -> Term:
    return x.of(x.b.bit_shift(x.value, x.number(count).value, direction="RIGHT"))


def _bit_and(x: Term, mask: int) -> Term:
    return x.of(x.b.bitwise_and(x.value, x.number(mask).value))


def constant_like(x: Term, value: float) -> Term:
    """A scalar of the element type."""
    return x.number(value)


def is_integer(element: Attribute) -> bool:
    """Whether numbers of the type are whole."""
    return element in INTEGERS


def logistic(x: Term) -> Term:
    """`1 / (1 + exp(-x))`."""
    return x.math("sigmoid")


ELEMENTWISE = {
    "abs": named("abs"),
    "add": named("add", "logical_or"),
    "and": named("bitwise_and", "logical_and"),
    "atan2": in_f32(atan2),
    "cbrt": of_terms(cbrt),
    "ceil": named("ceil"),
    "clamp": clamp,
    "compare": compare,
    "convert": convert,
    "cosine": named("cos"),
    "count_leading_zeros": of_terms(count_leading_zeros),
    "divide": of_terms(divide),
    "exponential": named("exp"),
    "exponential_minus_one": named("expm1"),
    "floor": named("floor"),
    "is_finite": of_terms(is_finite),
    "log": named("log"),
    "log_plus_one": named("log1p"),
    "logistic": of_terms(logistic),
    "maximum": named("max", "logical_or"),
    "minimum": named("min", "logical_and"),
    "multiply": named("mul", "logical_and"),
    "negate": of_terms(negated),
    "not": logical_not,
    "or": named("bitwise_or", "logical_or"),
    "popcnt": of_terms(popcnt),
    "power": named("pow"),
    "reduce_precision": reduce_precision,
    "remainder": of_terms(remainder),
    "round_nearest_afz": in_f32(round_away),
    "round_nearest_even": named("round"),
    "rsqrt": in_f32(rsqrt),
    "select": select,
    "shift_left": shift("LEFT"),
    "shift_right_arithmetic": shift("RIGHT", signed=True),
    "shift_right_logical": shift("RIGHT"),
    "sign": of_terms(sign),
    "sine": named("sin"),
    "sqrt": named("sqrt"),
    "subtract": named("sub"),
    "tan": named("tan"),
    "tanh": named("tanh"),
    "xor": named("bitwise_xor", "logical_xor"),
}
"""By the name in StableHLO."""
