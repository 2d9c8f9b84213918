"""exp, exp2, expm1 and the hyperbolic functions that are built on them."""

from __future__ import annotations

import math

from weft.compiler.loop_to_llvm.vector_math.avx512 import can_pick, can_scale, pick, scaled, within
from weft.compiler.loop_to_llvm.vector_math.coefficients import EXP, EXP2, EXP_POWER, EXP_SIXTEENTH
from weft.compiler.loop_to_llvm.vector_math.constants import ln2_parts
from weft.compiler.loop_to_llvm.vector_math.floating_point import (
    doubled_bias,
    power_in_parts,
    power_of_two,
    scale,
    shifter,
)
from weft.compiler.loop_to_llvm.vector_math.lanes import Integer, Real, fma, polynomial, select

LONGEST = 0.03
"""More than what is left of an argument behind a sixteenth of ln(2), at most ln(2)/32."""


def _reduce(x: Real) -> tuple[Real, Integer]:
    """r, n + 2*bias with x = r + n*ln(2) and |r| about ln(2)/2 at most."""
    shifted = fma(x, 1 / math.log(2), x.literal(shifter(x.format)))
    n = shifted - shifter(x.format)
    high, low = ln2_parts(x.format)
    return fma(-n, low, fma(-n, high, x)), doubled_bias(shifted)


def _exp_by_table(x: Real) -> Real:
    """2**n * e**r where n counts sixteenths, whose powers are in a table, so that r is short and
    takes few terms.
    """
    sixteenths = shifter(x.format) / 16
    shifted = fma(x, 1 / math.log(2), x.literal(sixteenths))
    n = shifted - sixteenths
    high, low = ln2_parts(x.format)
    r = fma(-n, low, fma(-n, high, x))
    if can_scale(x):
        r = within(r, LONGEST)  # where e**x is 0, infinite or NaN, by n alone
    power = pick(shifted, [2.0 ** (part / 16) for part in range(16)])
    result = fma(polynomial(r, EXP_SIXTEENTH[x.format.name]), r * power, power)
    if can_scale(x):
        return scaled(result, n)  # takes the whole part of n
    biased = shifted.bits() - (x.format.encode(sixteenths) - 32 * x.format.bias)
    return scale(result, biased >> 4)


def _nearest(x: Real, steps: float) -> tuple[Real, Integer]:
    """The integer n next to `steps * x`, and one whose low bits are those of n + 2*bias."""
    doubled = shifter(x.format) + 2 * x.format.bias
    shifted = fma(x, steps, x.literal(doubled))
    return shifted - doubled, shifted.bits()


def exp(x: Real) -> Real:
    """e**x."""
    low, high = (-746.0, 710.0) if x.format.bits == 64 else (-105.0, 89.0)
    if not (can_pick(x) and can_scale(x)):
        x = x.at_least(low).at_most(high)
    if can_pick(x):
        return _exp_by_table(x)
    n, exponent = _nearest(x, 1 / math.log(2))
    high_part, low_part = ln2_parts(x.format)
    r = fma(-n, low_part, fma(-n, high_part, x))
    # r * r would have to be kept, of which vectors side by side have too many.
    part = fma(polynomial(r, EXP_POWER.get(x.format.name, EXP[x.format.name])) * r, r, r)
    if can_scale(x):
        return scaled(part + 1.0, n)
    inner, outer = power_in_parts(exponent, x.format)
    return fma(part, inner, inner) * outer


def exp2(x: Real) -> Real:
    """2**x."""
    low, high = (-1076.0, 1025.0) if x.format.bits == 64 else (-151.0, 129.0)
    x = x.at_least(low).at_most(high)
    n, exponent = _nearest(x, 1.0)
    r = x - n
    power = fma(r, polynomial(r, EXP2[x.format.name]), r.literal(1.0))
    if can_scale(x):
        return scaled(power, n)
    inner, outer = power_in_parts(exponent, x.format)
    return power * inner * outer


def scaled_expm1(x: Real, halvings: int) -> Real:
    """(e**x - 1) / 2**halvings.

    x is at most (bias + halvings + 0.5) * ln(2), and NaN or at least -(bias - 4) * ln(2).
    """
    r, exponent = _reduce(x)
    power = power_of_two(exponent - (x.format.bias + halvings), x.format)
    fraction = fma(r * r, polynomial(r, EXP[x.format.name]), r)
    return fma(power, fraction, power - 0.5**halvings)


def _tiny(x: Real) -> float:
    """Below this magnitude expm1 and sinh round to x."""
    return 2.0 ** -(x.format.precision + 1)


def expm1(x: Real) -> Real:
    """e**x - 1."""
    high = 710.0 if x.format.bits == 64 else 89.0
    clamped = x.at_least(-(x.format.precision + 3.0)).at_most(high)
    half = scaled_expm1(clamped, 1)
    return select(abs(x) < _tiny(x), x, half + half)


def _hyperbolic_argument(x: Real) -> Real:
    """|x|, at most slightly more than where sinh and cosh overflow."""
    return abs(x).at_most(710.5 if x.format.bits == 64 else 89.43)


def sinh(x: Real) -> Real:
    """(E + E/(E+1)) / 2 with E = e**|x| - 1, of which a quarter is kept against overflow."""
    quarter = scaled_expm1(_hyperbolic_argument(x), 2)
    magnitude = fma(quarter / (quarter + 0.25), 0.5, quarter + quarter)
    return select(abs(x) < _tiny(x), x, magnitude.with_sign_of(x))


def cosh(x: Real) -> Real:
    """(e**x + e**-x) / 2."""
    less = scaled_expm1(_hyperbolic_argument(x), 2)
    quarter = less + 0.25
    return 0.125 / quarter + (quarter + quarter)


def tanh(x: Real) -> Real:
    """E / (E + 2) with E = e**(2|x|) - 1."""
    magnitude = abs(x).at_most(20.0 if x.format.bits == 64 else 10.0)
    less = scaled_expm1(magnitude + magnitude, 0)
    return (less / (less + 2.0)).with_sign_of(x)
