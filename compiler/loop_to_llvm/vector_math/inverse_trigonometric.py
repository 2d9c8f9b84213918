"""asin, acos and atan."""

from __future__ import annotations

import math

from weft.compiler.loop_to_llvm.vector_math.coefficients import ASIN, ATAN
from weft.compiler.loop_to_llvm.vector_math.constants import parts, pi
from weft.compiler.loop_to_llvm.vector_math.lanes import Real, fma, polynomial, select


def _asin_excess(s: Real, z: Real) -> Real:
    """asin(s) - s for |s| <= 1/2, given z = s*s."""
    return s * z * polynomial(z, ASIN[s.format.name])


def _folded(x: Real) -> tuple[Real, Real, Real]:
    """a = |x|, s and z = s*s: s is a up to 1/2; above, asin(a) = pi/2 - 2*asin(s)."""
    a = abs(x)
    small = a <= 0.5
    z = select(small, a * a, (1.0 - a) * 0.5)
    return a, select(small, a, z.sqrt()), z


def asin(x: Real) -> Real:
    """The arc sine; NaN beyond 1."""
    a, s, z = _folded(x)
    excess = _asin_excess(s, z)
    high, low = parts(pi() / 2, x.format.precision, 2)
    upper = (high - (s + s)) - ((excess + excess) - low)
    return select(a <= 0.5, s + excess, upper).with_sign_of(x)


def acos(x: Real) -> Real:
    """The arc cosine; NaN beyond 1."""
    a, s, z = _folded(x)
    excess = _asin_excess(s, z)
    high, low = parts(pi() / 2, x.format.precision, 2)
    middle = high - (s.with_sign_of(x) + (excess.with_sign_of(x) - low))
    doubled = (s + excess) + (s + excess)
    outer = select(x < 0.0, 2 * high - (doubled - 2 * low), doubled)
    return select(a <= 0.5, middle, outer)


def atan(x: Real) -> Real:
    """The arc tangent: of t = a, (a-1)/(a+1) or -1/a, plus 0, pi/4 or pi/2, where a = |x|."""
    a = abs(x)
    near, far = a <= math.tan(math.pi / 8), a > math.tan(3 * math.pi / 8)
    one, zero = x.literal(1.0), x.literal(0.0)
    numerator = select(near, a, select(far, -one, a - 1.0))
    denominator = select(near, one, select(far, a, a + 1.0))
    t = numerator / denominator
    high, low = parts(pi() / 4, x.format.precision, 2)
    base = select(near, zero, select(far, x.literal(2 * high), x.literal(high)))
    rest = select(near, zero, select(far, x.literal(2 * low), x.literal(low)))
    z = t * t
    angle = base + (t + fma(t * z, polynomial(z, ATAN[x.format.name]), rest))
    return angle.with_sign_of(x)
