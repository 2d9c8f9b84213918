"""log, log2, log1p and the inverse hyperbolic functions that are built on log1p."""

from __future__ import annotations

import math

from weft.compiler.loop_to_llvm.vector_math.coefficients import (
    LOG,
    LOG1P_DENOMINATOR,
    LOG1P_NUMERATOR,
    LOG_OF_SUM,
)
from weft.compiler.loop_to_llvm.vector_math.constants import ln2, ln2_parts, parts
from weft.compiler.loop_to_llvm.vector_math.floating_point import significand, two_sum
from weft.compiler.loop_to_llvm.vector_math.lanes import Real, fma, inf, nan, polynomial, select

_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln(2) in two parts, of which the first has so few bits that it times an exponent is exact."""


def _log_terms(m: Real) -> tuple[Real, Real, Real]:
    """f, h, t with log(m) = f - (h - t), where f = m - 1 is exact, h = f*f/2 and t is small."""
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    return f, h, s * fma(z, polynomial(z, LOG[m.format.name]), h)


def _with_poles(result: Real, x: Real) -> Real:
    """The values of a logarithm at 0, below it, at infinity and at NaN."""
    result = select(x < math.inf, result, x)
    return select(x <= 0.0, select(x.equals(0.0), -inf(x), nan(x)), result)


def log(x: Real) -> Real:
    """The natural logarithm; -inf at 0, NaN below."""
    m, e = significand(x)
    if x.format.bits == 32:
        return _with_poles(_log_without_division(m, e), x)
    f, h, t = _log_terms(m)
    high, low = ln2_parts(x.format)
    result = fma(e, high, f - (h - fma(e, low, t)))
    return _with_poles(result, x)


def _log_without_division(m: Real, e: Real) -> Real:
    """log(m * 2**e) of f32 in the order of Cephes' logf, three powers at a time, as XLA has it: the
    results are the same bits, so that what JAX's random numbers are computed with cancels alike.
    """
    f = m - 1.0
    square = f * f
    cube = square * f
    low, middle, high = (polynomial(f, LOG_OF_SUM[at : at + 3]) for at in (0, 3, 6))
    tail = fma(fma(high, cube, middle), cube, low)
    small = fma(tail, cube, e * _LN2_LOW)
    return fma(e, _LN2_HIGH, (f - square * 0.5) + small)


def log2(x: Real) -> Real:
    """The logarithm to base 2; exact at powers of two."""
    m, e = significand(x)
    f, h, t = _log_terms(m)
    high, low = parts(1 / ln2(), x.format.precision, 2)
    natural = f - (h - t)
    lost = (f - natural) - (h - t)
    scaled = fma(lost, high, natural * low)
    return _with_poles(fma(natural, high, scaled) + e, x)


def _log1p(x: Real) -> Real:
    """log(1 + x) for x > -1 but tiny: the logarithm of the rounded sum, and its error's share."""
    total = two_sum(x, 1.0)
    m, e = significand(total.high, subnormal=False)
    f, h, t = _log_terms(m)
    high, low = ln2_parts(x.format)
    share = fma(e, low, total.low / total.high)
    return fma(e, high, f - (h - (t + share)))


def log1p(x: Real) -> Real:
    """log(1 + x), exact in the small."""
    if x.format.bits == 32:
        return select(abs(x) < math.sqrt(2.0) - 1.0, _log1p_by_quotient(x), log(x + 1.0))
    result = _with_poles(_log1p(x), x + 1.0)
    return select(abs(x) < 2.0 ** -(x.format.precision + 1), x, result)


def _log1p_by_quotient(x: Real) -> Real:
    """log(1 + x) of f32 below sqrt(2) - 1, in the order of XLA's, with the same bits."""
    square = x * x
    quotient = polynomial(x, LOG1P_NUMERATOR) / polynomial(x, LOG1P_DENOMINATOR)
    return (quotient * (x * square) - square * 0.5) + x


def _shift_exponent(x: Real) -> int:
    """Numbers above 2 to this: x + 1/x rounds to x, yet x*x does not overflow below it."""
    return x.format.precision + 7


def _log1p_or_shifted(near: Real, magnitude: Real) -> Real:
    """log1p(near), or log(2*magnitude) where they agree and `near` may overflow."""
    large = magnitude > 2.0 ** _shift_exponent(magnitude)
    result = log1p(select(large, magnitude, near))
    return select(large, result + math.log(2), result)


def asinh(x: Real) -> Real:
    """The inverse of sinh: log1p(a + a*a / (1 + sqrt(a*a + 1))) with a = |x|."""
    a = abs(x)
    square = a * a
    near = a + square / ((square + 1.0).sqrt() + 1.0)
    return _log1p_or_shifted(near, a).with_sign_of(x)


def acosh(x: Real) -> Real:
    """The inverse of cosh: log1p(t + sqrt(2*t + t*t)) with t = x - 1; NaN below 1."""
    t = x - 1.0
    near = t + fma(t, t, t + t).sqrt()
    return select(x < 1.0, nan(x), _log1p_or_shifted(near, x))


def atanh(x: Real) -> Real:
    """The inverse of tanh: log1p(2a / (1 - a)) / 2 with a = |x|; infinite at 1, NaN beyond."""
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).with_sign_of(x)
