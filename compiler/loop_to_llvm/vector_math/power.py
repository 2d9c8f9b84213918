"""pow, sqrt and rsqrt."""

from __future__ import annotations

import math
from fractions import Fraction

from weft.compiler.loop_to_llvm.vector_math.avx512 import can_scale, square_root
from weft.compiler.loop_to_llvm.vector_math.coefficients import EXP2, POW_LOG, POWF_EXP2, POWF_LOG
from weft.compiler.loop_to_llvm.vector_math.constants import ln2, parts
from weft.compiler.loop_to_llvm.vector_math.floating_point import (
    DoubleWord,
    doubled_bias,
    fast_two_sum,
    power_of_two,
    scale,
    shifter,
    significand,
    two_product,
    two_sum,
)
from weft.compiler.loop_to_llvm.vector_math.formats import F64
from weft.compiler.loop_to_llvm.vector_math.lanes import (
    Mask,
    Real,
    fma,
    inf,
    nan,
    polynomial,
    select,
)


def sqrt(x: Real) -> Real:
    """The square root, correctly rounded; NaN below zero."""
    return square_root(x) if can_scale(x) and x.format is F64 else x.sqrt()


def rsqrt(x: Real) -> Real:
    """1 / sqrt(x); infinite with its sign at zeros, NaN below."""
    return 1.0 / sqrt(x)


def _constant(x: Real, number: Fraction) -> DoubleWord:
    """A constant to twice the precision."""
    high, low = parts(number, x.format.precision, 2)
    return DoubleWord(x.literal(high), x.literal(low))


def _artanh_argument(m: Real) -> DoubleWord:
    """(m - 1) / (m + 1) to twice the precision."""
    f = m - 1.0
    divisor = two_sum(m, 1.0)
    high = f / divisor.high
    product = two_product(high, divisor.high)
    rest = ((f - product.high) - product.low) - high * divisor.low
    return DoubleWord(high, rest / divisor.high)


def _log2_series(s: DoubleWord) -> DoubleWord:
    """2/ln(2) * artanh(s) / s = c + c/3*z + z*z*p(z) with z = s*s, to about 66 bits."""
    square = two_product(s.high, s.high)
    z, z_low = square.high, fma(s.high + s.high, s.low, square.low)
    first = _constant(z, 2 / ln2())
    third = _constant(z, 2 / (3 * ln2()))
    linear = two_product(z, third.high)
    linear_low = linear.low + fma(z, third.low, z_low * third.high)
    tail = fast_two_sum(linear.high, z * z * polynomial(z, POW_LOG[z.format.name]))
    total = fast_two_sum(first.high, tail.high)
    return DoubleWord(total.high, total.low + (first.low + (tail.low + linear_low)))


def _log2(a: Real) -> DoubleWord:
    """log2(a) to about 66 bits for positive finite a of f64."""
    m, e = significand(a)
    s = _artanh_argument(m)
    series = _log2_series(s)
    product = two_product(s.high, series.high)
    product_low = product.low + fma(s.high, series.low, s.low * series.high)
    total = fast_two_sum(e, product.high)
    return fast_two_sum(total.high, total.low + product_low)


def _magnitude(a: Real, y: Real) -> Real:
    """a**y for positive finite a of f64."""
    exponent = y.at_least(-(2.0**66)).at_most(2.0**66)
    logarithm = _log2(a)
    product = two_product(exponent, logarithm.high)
    low = fma(exponent, logarithm.low, product.low)
    high = product.high.at_least(-1100.0).at_most(1100.0)
    low = select(high.equals(product.high), low, low.literal(0.0))
    shifted = high + shifter(F64)
    r = (high - (shifted - shifter(F64))) + low
    return scale(fma(r, polynomial(r, EXP2["f64"]), r.literal(1.0)), doubled_bias(shifted))


def _magnitude_f32(a: Real, y: Real) -> Real:
    """a**y for positive finite a of f32, by way of f64 arithmetic."""
    m, e = significand(a)
    m, e, exponent = m.to(F64), e.to(F64), y.at_least(-(2.0**66)).at_most(2.0**66).to(F64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = fma(z, polynomial(z, POWF_LOG["f64"]), z.literal(2 / math.log(2)))
    product = (exponent * fma(s, series, e)).at_least(-200.0).at_most(200.0)
    shifted = product + shifter(F64)
    r = product - (shifted - shifter(F64))
    fraction = fma(r, polynomial(r, POWF_EXP2["f64"]), r.literal(1.0))
    power = power_of_two(doubled_bias(shifted) - F64.bias, F64)
    return (fraction * power).to(a.format)


def _is_integer(magnitude: Real) -> Mask:
    """Whether a non-negative number, not NaN, is a whole one."""
    first_integral = 2.0**magnitude.format.fraction_bits
    rounded = (magnitude + first_integral) - first_integral
    return rounded.equals(magnitude) | (magnitude >= first_integral)


def _at_poles(result: Real, a: Real, y: Real) -> Real:
    """0**y and inf**y."""
    zero, infinite = a.equals(0.0), a.equals(math.inf)
    none = a.literal(0.0)
    result = select(zero, select(y < 0.0, inf(a), none), result)
    result = select(infinite, select(y < 0.0, none, inf(a)), result)
    return select(y.is_nan(), y, result)


def pow(x: Real, y: Real) -> Real:
    """x**y with the special values of IEEE 754 and C's Annex F."""
    a, b = abs(x), abs(y)
    magnitude = _magnitude(a, y) if x.format.bits == 64 else _magnitude_f32(a, y)
    result = _at_poles(magnitude, a, y)
    whole = _is_integer(b)
    odd = whole & ~_is_integer(b * 0.5)
    negative = x.is_negative()
    result = select(negative & odd, -result, result)
    result = select((x < 0.0) & ~whole & (a < math.inf), nan(x), result)
    result = select(x.is_nan(), x, result)
    one = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & b.equals(math.inf))
    return select(one, x.literal(1.0), result)
