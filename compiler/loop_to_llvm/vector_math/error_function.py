"""erf, as 1 - exp(-q(x)): one polynomial and one exponential, with no branch."""

from __future__ import annotations

from compiler.loop_to_llvm.vector_math.coefficients import ERF
from compiler.loop_to_llvm.vector_math.exponential import scaled_expm1
from compiler.loop_to_llvm.vector_math.lanes import Real, polynomial


def erf(x: Real) -> Real:
    """2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    a = abs(x).at_most(5.95 if x.format.bits == 64 else 3.95)
    less = scaled_expm1(-(a * polynomial(a, ERF[x.format.name])), 0)
    return less.with_sign_of(x)
