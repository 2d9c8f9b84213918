"""sin, cos and tan, reduced by pi/2 in parts (Cody and Waite), or in full where a lane is large."""

from __future__ import annotations

import math
from fractions import Fraction

from weft.compiler.loop_to_llvm.vector_math.coefficients import COS, SIN
from weft.compiler.loop_to_llvm.vector_math.constants import parts, pi
from weft.compiler.loop_to_llvm.vector_math.floating_point import shifter
from weft.compiler.loop_to_llvm.vector_math.lanes import Integer, Real, fma, polynomial, select
from weft.compiler.loop_to_llvm.vector_math.payne_hanek import reduce_large_lanes


def _largest_small_angle(x: Real) -> float:
    """Up to here the multiple n of pi/2 is so short that n times each part below is exact."""
    if x.format.bits == 64:
        return 2.0**20
    return 2.0**16 if x.at.has_fma else 2.0**12


def _half_pi_parts(x: Real) -> tuple[float, ...]:
    """pi/2 in parts, largest first; without fused multiply-add each leaves n room in a product."""
    half_pi = pi() / 2
    if x.at.has_fma:
        return parts(half_pi, x.format.precision, 3)
    short, count = (32, 3) if x.format.bits == 64 else (12, 4)
    exact = parts(half_pi, short, count)
    rest = half_pi - sum(map(Fraction, exact))
    return (*exact, float(rest))


def _reduce_small(x: Real) -> tuple[Real, Integer]:
    """r and n modulo 4 with x = r + n*pi/2 and |r| about pi/4 at most."""
    shifted = fma(x, 2 / math.pi, x.literal(shifter(x.format)))
    n = -(shifted - shifter(x.format))
    r = x
    for part in _half_pi_parts(x):
        r = fma(n, part, r)
    return r, shifted.bits()


def _reduce(x: Real) -> tuple[Real, Integer]:
    """As `_reduce_small`, for any x; NaN where x is infinite."""
    r, quadrant = _reduce_small(x)
    large = (abs(x) > _largest_small_angle(x)) & (abs(x) < math.inf)
    return reduce_large_lanes(x, large, r, quadrant)


def _sin_cos(r: Real) -> tuple[Real, Real]:
    """The sine and cosine of a reduced angle."""
    z = r * r
    name = r.format.name
    sine = fma(z * r, polynomial(z, SIN[name]), r)
    cosine = fma(z, fma(z, polynomial(z, COS[name]), r.literal(-0.5)), r.literal(1.0))
    return sine, cosine


def _quarter_turns(r: Real, quadrant: Integer) -> Real:
    """sin(r + quadrant * pi/2)."""
    sine, cosine = _sin_cos(r)
    chosen = select((quadrant & 1).compare("==", 0), sine, cosine)
    sign = (quadrant & 2) << (r.format.bits - 2)
    return (chosen.bits() ^ sign).as_real(r.format)


def _identity_if_tiny(x: Real, result: Real) -> Real:
    """x itself where sin(x) and tan(x) round to it: keeps -0 and subnormal numbers."""
    return select(abs(x) < 2.0 ** -(x.format.precision // 2 + 1), x, result)


def sin(x: Real) -> Real:
    """The sine; NaN at infinity."""
    return _identity_if_tiny(x, _quarter_turns(*_reduce(x)))


def cos(x: Real) -> Real:
    """The cosine; NaN at infinity."""
    r, quadrant = _reduce(x)
    return _quarter_turns(r, quadrant + 1)


def tan(x: Real) -> Real:
    """The tangent, sine over cosine; NaN at infinity."""
    r, quadrant = _reduce(x)
    sine, cosine = _sin_cos(r)
    even = (quadrant & 1).compare("==", 0)
    return _identity_if_tiny(x, select(even, sine, -cosine) / select(even, cosine, sine))
