"""erf: sixteen polynomials whose coefficients are in registers, or 1 - exp(-q(x)), one polynomial
and one exponential; neither has a branch.
"""

from __future__ import annotations

from compiler.loop_to_llvm.vector_math.coefficients import ERF, ERF_QUARTERS
from compiler.loop_to_llvm.vector_math.exponential import scaled_expm1
from compiler.loop_to_llvm.vector_math.floating_point import shifter
from compiler.loop_to_llvm.vector_math.lanes import Real, picked_polynomial, polynomial

LAST_OF_QUARTERS = 3.8749998
"""The largest f32 that is nearer to 15 quarters than to 16: erf is 1 there but for a unit."""


def _erf_by_table(x: Real) -> Real:
    """The polynomial of the nearest quarter."""
    a = abs(x).at_most(LAST_OF_QUARTERS)
    quarters = shifter(x.format) / 4
    shifted = a + quarters
    return picked_polynomial(a - (shifted - quarters), shifted, ERF_QUARTERS).with_sign_of(x)


def erf(x: Real) -> Real:
    """2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    if x.can_pick:
        return _erf_by_table(x)
    a = abs(x).at_most(5.95 if x.format.bits == 64 else 3.95)
    less = scaled_expm1(-(a * polynomial(a, ERF[x.format.name])), 0)
    return less.with_sign_of(x)
