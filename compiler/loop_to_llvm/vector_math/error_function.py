"""erf: sixteen polynomials whose coefficients are in registers, or 1 - exp(-q(x)), one polynomial
and one exponential; neither has a branch. And GELU, in the same two ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.loop_to_llvm.vector_math.avx512 import can_pick, picked_polynomial
from weft.compiler.loop_to_llvm.vector_math.coefficients import (
    ERF,
    ERF_QUARTERS,
    EXP2,
    NORMAL_TAIL,
    NORMAL_TAIL_QUARTERS,
)
from weft.compiler.loop_to_llvm.vector_math.exponential import scaled_expm1
from weft.compiler.loop_to_llvm.vector_math.floating_point import power_of_two, shifter
from weft.compiler.loop_to_llvm.vector_math.lanes import Real, fma, polynomial, select

FAR_TAIL = 16.0
"""Beyond it the normal distribution has nothing that f32 could hold."""

LAST_OF_QUARTERS = 3.8749998
"""The largest f32 that is nearer to 15 quarters than to 16: erf is 1 there but for a unit."""


def _by_quarters(a: Real, rows: Sequence[Sequence[float]]) -> Real:
    """The polynomial of the quarter that is nearest to a number, of its distance."""
    quarters = shifter(a.format) / 4
    shifted = a + quarters
    return picked_polynomial(a - (shifted - quarters), shifted, rows)


def erf(x: Real) -> Real:
    """2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    if can_pick(x):
        return _by_quarters(abs(x).at_most(LAST_OF_QUARTERS), ERF_QUARTERS).with_sign_of(x)
    a = abs(x).at_most(5.95 if x.format.bits == 64 else 3.95)
    less = scaled_expm1(-(a * polynomial(a, ERF[x.format.name])), 0)
    return less.with_sign_of(x)


def gelu(x: Real) -> Real:
    """x times the normal distribution up to x, as max(x, 0) - |x| * (the distribution beyond |x|):
    nothing cancels where x is negative. NaN at -infinity, as of the product.
    """
    if not can_pick(x):
        return _gelu_by_power(x)
    last = (len(NORMAL_TAIL_QUARTERS) - 1) / 4
    # Compared as integers, which takes less time; a NaN comes back in the sum.
    bound = x.format.encode(last)
    magnitude = abs(x.bits().at_most(bound, signed=True).as_real(x.format))
    near = magnitude.bits().at_most(bound, signed=False).as_real(x.format)
    positive = select(x < 0.0, x.literal(0.0), x)
    return fma(-magnitude, _by_quarters(near, NORMAL_TAIL_QUARTERS), positive)


def _gelu_by_power(x: Real) -> Real:
    """As `gelu`, where the distribution beyond |x| is a power of two of a polynomial."""
    distance = abs(x)
    tail = _power_or_nothing(fma(distance, polynomial(distance, NORMAL_TAIL["f32"]), -1.0))
    magnitude = abs(x.at_most(FAR_TAIL))  # an infinite one has no product with nothing
    return fma(-magnitude, tail, x.at_least(0.0))


def _power_or_nothing(x: Real) -> Real:
    """2**x of a number below the greatest exponent; 0 where it is subnormal."""
    biased = shifter(x.format) + x.format.bias
    x = x.at_least(float(-x.format.bias))
    shifted = x + biased
    r = x - (shifted - biased)
    fraction = fma(r, polynomial(r, EXP2[x.format.name]), r.literal(1.0))
    return fraction * power_of_two(shifted.bits(), x.format)
