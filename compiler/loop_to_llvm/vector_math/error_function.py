"""erf: sixteen polynomials whose coefficients are in registers, or 1 - exp(-q(x)), one polynomial
and one exponential; neither has a branch. And GELU, with as many polynomials again.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.loop_to_llvm.vector_math.coefficients import (
    ERF,
    ERF_QUARTERS,
    NORMAL_TAIL_QUARTERS,
)
from compiler.loop_to_llvm.vector_math.exponential import scaled_expm1
from compiler.loop_to_llvm.vector_math.floating_point import shifter
from compiler.loop_to_llvm.vector_math.lanes import (
    Real,
    fma,
    picked_polynomial,
    polynomial,
    select,
)

LAST_OF_QUARTERS = 3.8749998
"""The largest f32 that is nearer to 15 quarters than to 16: erf is 1 there but for a unit."""


def _by_quarters(a: Real, rows: Sequence[Sequence[float]]) -> Real:
    """The polynomial of the quarter that is nearest to a number, of its distance."""
    quarters = shifter(a.format) / 4
    shifted = a + quarters
    return picked_polynomial(a - (shifted - quarters), shifted, rows)


def erf(x: Real) -> Real:
    """2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    if x.can_pick:
        return _by_quarters(abs(x).at_most(LAST_OF_QUARTERS), ERF_QUARTERS).with_sign_of(x)
    a = abs(x).at_most(5.95 if x.format.bits == 64 else 3.95)
    less = scaled_expm1(-(a * polynomial(a, ERF[x.format.name])), 0)
    return less.with_sign_of(x)


def gelu(x: Real) -> Real:
    """x times the normal distribution up to x, as max(x, 0) - |x| * (the distribution beyond |x|):
    nothing cancels where x is negative. NaN at -infinity, as of the product.
    """
    assert x.can_pick, "gelu requires coefficients in registers"
    last = (len(NORMAL_TAIL_QUARTERS) - 1) / 4
    # Compared as integers, which takes less time; a NaN comes back in the sum.
    bound = x.format.encode(last)
    magnitude = abs(x.bits().at_most(bound, signed=True).as_real(x.format))
    near = magnitude.bits().at_most(bound, signed=False).as_real(x.format)
    positive = select(x < 0.0, x.literal(0.0), x)
    return fma(-magnitude, _by_quarters(near, NORMAL_TAIL_QUARTERS), positive)
