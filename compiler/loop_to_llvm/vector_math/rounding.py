"""floor, ceil, trunc and roundeven, by arithmetic where the instruction may be missing."""

from __future__ import annotations

from weft.compiler.loop_to_llvm.vector_math.lanes import Real, select


def roundeven(x: Real) -> Real:
    """The nearest integer, ties to even."""
    if x.at.has_fma:
        return x.round_with("roundeven")
    first_integral = 2.0**x.format.fraction_bits
    magnitude = abs(x)
    rounded = ((magnitude + first_integral) - first_integral).with_sign_of(x)
    return select(magnitude < first_integral, rounded, x)


def _corrected(x: Real, step: float) -> Real:
    """The nearest integer, moved by `step` if on the wrong side of x; zeros keep the sign of x."""
    nearest = roundeven(x)
    wrong = nearest > x if step < 0 else nearest < x
    return select(wrong, nearest + step, nearest).with_sign_of(x)


def floor(x: Real) -> Real:
    """The largest integer not above x."""
    return x.round_with("floor") if x.at.has_fma else _corrected(x, -1.0)


def ceil(x: Real) -> Real:
    """The smallest integer not below x."""
    return x.round_with("ceil") if x.at.has_fma else _corrected(x, 1.0)


def trunc(x: Real) -> Real:
    """The integer next to x towards zero."""
    return x.round_with("trunc") if x.at.has_fma else _corrected(abs(x), -1.0).with_sign_of(x)
