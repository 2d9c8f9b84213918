"""Floats of 8, 6 and 4 bits in LLVM IR: their bits, in the low end of an i8, to f32 and back.

A float that is too large becomes an infinity where the format has one, NaN where it has that alone,
else the greatest number. NaN becomes -0 in a format without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from weft.compiler.loop_to_llvm.vector_math.formats import F32
from weft.compiler.loop_to_llvm.vector_math.lanes import Integer, Real, select

_F32_INFINITY = F32.encode(float("inf"))
_F32_NAN = F32.encode(float("nan"))
_HIDDEN = 1 << F32.fraction_bits
"""What f32's exponent field counts in."""


class Special(Enum):
    """What the codes beyond numbers are: IEEE 754's, NaN of all ones, NaN in place of -0, none."""

    IEEE = "ieee"
    ALL_ONES = "fn"
    NEGATIVE_ZERO = "fnuz"
    NONE = "finite"


class NarrowFormat(Struct, frozen=True):
    """A format with sign, exponent and fraction; subnormal numbers have an exponent field of 0."""

    exponent_bits: int
    fraction_bits: int
    bias: int
    special: Special

    @property
    def sign(self) -> int:
        """The code of the sign bit."""
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def greatest(self) -> int:
        """The code of the greatest number."""
        above = {Special.IEEE: 1 << self.fraction_bits, Special.ALL_ONES: 1}
        return self.sign - 1 - above.get(self.special, 0)

    @property
    def nan(self) -> int | None:
        """The code of NaN."""
        quiet = self.greatest + 1 + (1 << (self.fraction_bits - 1))
        codes = {Special.IEEE: quiet, Special.ALL_ONES: self.sign - 1}
        return self.sign if self.special is Special.NEGATIVE_ZERO else codes.get(self.special)

    @property
    def overflow(self) -> int:
        """The code of what exceeds the greatest number."""
        if self.special in (Special.IEEE, Special.NONE):
            return self.greatest + (self.special is Special.IEEE)
        return self.sign if self.special is Special.NEGATIVE_ZERO else self.sign - 1

    @property
    def shift(self) -> int:
        """How many fraction bits f32 has more."""
        return F32.fraction_bits - self.fraction_bits

    @property
    def smallest_normal(self) -> float:
        """The least number with an exponent field above 0."""
        return 2.0 ** (1 - self.bias)


NARROW_FORMATS: Mapping[str, NarrowFormat] = {
    "f8E3M4": NarrowFormat(3, 4, 3, Special.IEEE),
    "f8E4M3": NarrowFormat(4, 3, 7, Special.IEEE),
    "f8E4M3B11FNUZ": NarrowFormat(4, 3, 11, Special.NEGATIVE_ZERO),
    "f8E4M3FN": NarrowFormat(4, 3, 7, Special.ALL_ONES),
    "f8E4M3FNUZ": NarrowFormat(4, 3, 8, Special.NEGATIVE_ZERO),
    "f8E5M2": NarrowFormat(5, 2, 15, Special.IEEE),
    "f8E5M2FNUZ": NarrowFormat(5, 2, 16, Special.NEGATIVE_ZERO),
    "f6E2M3FN": NarrowFormat(2, 3, 1, Special.NONE),
    "f6E3M2FN": NarrowFormat(3, 2, 3, Special.NONE),
    "f4E2M1FN": NarrowFormat(2, 1, 1, Special.NONE),
}
POWER_OF_TWO = "f8E8M0FNU"
"""Of eight exponent bits alone: 2**(code - 127), NaN for 255."""

NARROW_FLOATS = (*NARROW_FORMATS, POWER_OF_TWO)


def narrow_to_f32(x: Integer, name: str) -> Real:
    """Exact."""
    wide = x.resize(32)
    if name == POWER_OF_TWO:
        least = wide.literal(_HIDDEN >> 1)
        power = select(wide.compare("==", 0), least, wide << F32.fraction_bits)
        return select(wide.compare("==", 255), wide.literal(_F32_NAN), power).as_real(F32)
    fmt = NARROW_FORMATS[name]
    magnitude = wide & (fmt.sign - 1)
    scaled = (magnitude << fmt.shift) + ((F32.bias - fmt.bias) << F32.fraction_bits)
    # smallest * (1 + fraction) - smallest needs no subnormal operand.
    unscaled = ((scaled + _HIDDEN).as_real(F32) - fmt.smallest_normal).bits()
    number = select(magnitude.compare("<", 1 << fmt.fraction_bits), unscaled, scaled)
    if fmt.special is Special.IEEE:
        infinite = magnitude.compare("==", fmt.overflow)
        number = select(infinite, number.literal(_F32_INFINITY), number)
        number = select(magnitude.compare(">", fmt.overflow), number.literal(_F32_NAN), number)
    signed = number | ((wide & fmt.sign) << (31 - fmt.exponent_bits - fmt.fraction_bits))
    if fmt.special in (Special.ALL_ONES, Special.NEGATIVE_ZERO):
        code = magnitude if fmt.special is Special.ALL_ONES else wide
        assert fmt.nan is not None, "a format of this kind has NaN"
        signed = select(code.compare("==", fmt.nan), signed.literal(_F32_NAN), signed)
    return signed.as_real(F32)


def f32_to_narrow(x: Real, name: str) -> Integer:
    """The nearest number, ties to even."""
    if name == POWER_OF_TWO:
        return _f32_to_power(x)
    fmt = NARROW_FORMATS[name]
    bits = x.bits()
    magnitude = bits & 0x7FFFFFFF
    rounding = ((magnitude >> fmt.shift) & 1) + ((1 << (fmt.shift - 1)) - 1)
    rescaled = magnitude - ((F32.bias - fmt.bias) << F32.fraction_bits)
    normal = (rescaled + rounding) >> fmt.shift
    # The unit in the last place of this is the least number of the format, so that adding rounds.
    unit = 2.0 ** (1 - fmt.bias + fmt.shift)
    subnormal = (magnitude.as_real(F32) + unit).bits() - F32.encode(unit)
    small = magnitude.compare("<", F32.encode(fmt.smallest_normal))
    code = select(small, subnormal, normal)
    # A float of exponent 128 or more is beyond every format; below that, the code itself tells.
    beyond = code.compare(">", fmt.greatest) & ~small
    code = select(beyond, code.literal(fmt.overflow), code)
    sign = (bits >> (31 - fmt.exponent_bits - fmt.fraction_bits)) & fmt.sign
    if fmt.special is Special.NEGATIVE_ZERO:
        sign = select(code.compare("==", 0), sign.literal(0), sign)
    is_nan = magnitude.compare(">", _F32_INFINITY)
    if fmt.nan is None:
        return select(is_nan, code.literal(fmt.sign), code | sign).resize(8)
    return (select(is_nan, code.literal(fmt.nan), code) | sign).resize(8)


def _f32_to_power(x: Real) -> Integer:
    """The nearest power of two, ties up; NaN for what is not positive, or too large."""
    bits = x.bits()
    rounded = (bits + (_HIDDEN >> 1)) >> F32.fraction_bits
    lowest = select(bits.compare("<", 3 << 21), bits.literal(0), bits.literal(1))
    code = select(bits.compare("<", _HIDDEN), lowest, rounded)
    # Negative numbers, zero, infinities and NaN.
    outside = (bits - 1).compare(">=", _F32_INFINITY - 1)
    return select(outside, code.literal(255), code).resize(8)
