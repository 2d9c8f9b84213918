"""Pi and ln 2 to any precision, computed with integers and cut into parts that multiply exactly."""

from fractions import Fraction
from functools import cache

from weft.compiler.loop_to_llvm.vector_math.formats import Format

DIGITS = 1600
"""Binary digits after the point; reducing the largest f64 reads about 1200 digits of 2/pi."""


def _inverse_series(n: int, alternate: bool) -> int:
    """arctan(1/n), or artanh(1/n), scaled by 2**DIGITS."""
    power = (1 << DIGITS) // n
    total, odd = 0, 1
    while power:
        total += (-1 if alternate and odd % 4 == 3 else 1) * (power // odd)
        power //= n * n
        odd += 2
    return total


@cache
def pi() -> Fraction:
    """Machin's formula: pi/4 = 4*arctan(1/5) - arctan(1/239)."""
    quarter = 4 * _inverse_series(5, True) - _inverse_series(239, True)
    return Fraction(4 * quarter, 1 << DIGITS)


@cache
def ln2() -> Fraction:
    """ln 2 = 2*artanh(1/3)."""
    return Fraction(2 * _inverse_series(3, False), 1 << DIGITS)


def truncated(number: Fraction, bits: int) -> Fraction:
    """The leading `bits` binary digits of a positive number."""
    exponent = 0
    while number * Fraction(2) ** exponent < 1:
        exponent += 1
    while number * Fraction(2) ** exponent >= 2:
        exponent -= 1
    scale = Fraction(2) ** (exponent + bits - 1)
    return Fraction(int(number * scale)) / scale


def parts(number: Fraction, bits: int, count: int) -> tuple[float, ...]:
    """Positive floats of at most `bits` digits each that sum to the number, largest first."""
    found: list[float] = []
    for _ in range(count):
        part = truncated(number, bits)
        found.append(float(part))
        number -= part
    return tuple(found)


def ln2_parts(fmt: Format) -> tuple[float, float]:
    """ln 2 as high + low, where high times any exponent of the format is exact."""
    high = truncated(ln2(), fmt.precision - (fmt.bits - fmt.precision))
    return float(high), float(ln2() - high)
