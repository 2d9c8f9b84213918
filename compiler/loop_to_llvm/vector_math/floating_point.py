"""Steps that functions share: rounding to integers, powers of two, significands, double words."""

from __future__ import annotations

from msgspec import Struct

from weft.compiler.loop_to_llvm.vector_math.formats import Format
from weft.compiler.loop_to_llvm.vector_math.lanes import Integer, Real, fma, select


def shifter(fmt: Format) -> float:
    """Adding this rounds a small number to an integer, which the low bits of the sum then hold."""
    return 1.5 * 2.0**fmt.fraction_bits


def doubled_bias(shifted: Real) -> Integer:
    """n + 2*bias, where `shifted` is n + shifter: not negative, so a logical shift halves it."""
    fmt = shifted.format
    return shifted.bits() - (fmt.encode(shifter(fmt)) - 2 * fmt.bias)


def power_of_two(biased: Integer, fmt: Format) -> Real:
    """2**(biased - bias) for a biased exponent of a normal number."""
    return (biased << fmt.fraction_bits).as_real(fmt)


def scale(x: Real, exponent: Integer) -> Real:
    """x * 2**(exponent - 2*bias) in two steps, of which only the last may round or overflow."""
    half = exponent >> 1
    return x * power_of_two(half, x.format) * power_of_two(exponent - half, x.format)


def power_in_parts(exponent: Integer, fmt: Format) -> tuple[Real, Real]:
    """Two powers of two whose product is 2**n, where the low bits of `exponent` are those of
    n + 2*bias. The second is the same for all n above 1 and for all others, and moves away from 1:
    times the first no number near 1 overflows or is rounded.
    """
    field = exponent << fmt.fraction_bits
    quarter = (fmt.bias + 1) // 2
    up, down = (exponent.at.real(fmt, 2.0**each) for each in (quarter, -quarter))
    outer = select(field.as_real(fmt).is_negative(), up, down)  # n + 2*bias has one more bit
    return (field - outer.bits()).as_real(fmt), outer


def significand(x: Real, *, subnormal: bool = True) -> tuple[Real, Real]:
    """m, e with x = m * 2**e and sqrt(1/2) <= m < sqrt(2), for positive finite x.

    `subnormal=False` promises that x is normal.
    """
    fmt = x.format
    adjust = x.literal(2.0**fmt.fraction_bits + fmt.bias)
    if subnormal:
        small = x < fmt.smallest_normal
        x = select(small, x * 2.0**fmt.precision, x)
        adjust = select(small, adjust + float(fmt.precision), adjust)
    root = fmt.encode(0.5**0.5)
    bits = x.bits() + (fmt.encode(1.0) - root)
    biased = (bits >> fmt.fraction_bits) | fmt.encode(2.0**fmt.fraction_bits)
    m = ((bits & ((1 << fmt.fraction_bits) - 1)) + root).as_real(fmt)
    return m, biased.as_real(fmt) - adjust


class DoubleWord(Struct, frozen=True):
    """The exact sum of two numbers, of which `low` is small beside `high`."""

    high: Real
    low: Real


def two_sum(x: Real, y: Real | float) -> DoubleWord:
    """x + y without error, whichever is larger (Knuth)."""
    total = x + y
    part = total - x
    lost = -part + y
    return DoubleWord(total, (x - (total - part)) + lost)


def fast_two_sum(x: Real, y: Real) -> DoubleWord:
    """x + y without error where |x| >= |y| or x is 0 (Dekker)."""
    total = x + y
    return DoubleWord(total, y - (total - x))


def _halves(x: Real) -> tuple[Real, Real]:
    """x as a sum of two numbers of half the precision (Veltkamp)."""
    spread = x * (2.0 ** ((x.format.precision + 1) // 2) + 1.0)
    high = spread - (spread - x)
    return high, x - high


def two_product(x: Real, y: Real) -> DoubleWord:
    """x * y without error unless it overflows or underflows."""
    product = x * y
    if x.at.has_fma:
        return DoubleWord(product, fma(x, y, -product))
    xh, xl = _halves(x)
    yh, yl = _halves(y)
    return DoubleWord(product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl)
