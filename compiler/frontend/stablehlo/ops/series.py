"""Functions of floats that are sums of series, computed in f64: the logarithm of the gamma function
and its derivatives, Hurwitz' zeta function, modified Bessel functions.

Those of Bessel are Chebyshev series, whose coefficients are those of integrals by the trapezoid
rule, which is exact to rounding for periodic functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from weft.compiler.frontend.stablehlo.ops.elementwise import is_nan
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.weights import Array

_LANCZOS_BASE = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707, 9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)  # fmt: skip
_GAMMA = 7.5


def lgamma(x: Term) -> Term:
    """`log(|gamma(x)|)` by Lanczos' approximation, below 1/2 by reflection."""
    reflects = x < 0.5
    z = reflects.where(-x, x - 1.0)
    total = z * 0.0 + _LANCZOS_BASE
    for position, coefficient in enumerate(_LANCZOS):
        total = total + coefficient / (z + (position + 1.0))
    t = z + _GAMMA
    log_t = (z / _GAMMA).math("log1p") + math.log(_GAMMA)
    log_y = (z + 0.5 - t / log_t) * log_t + math.log(2 * math.pi) / 2 + total.math("log")
    size = x.math("abs")
    part = size - size.math("floor")
    part = (part > 0.5).where(1.0 - part, part)
    sine = (part * math.pi).math("sin").math("log")
    reflected = (sine.math("abs") < math.inf).where(math.log(math.pi) - sine - log_y, -sine)
    found = reflects.where(reflected, log_y)
    return size.equals(math.inf).where(size, found)


def digamma(x: Term) -> Term:
    """The derivative of `lgamma`."""
    reflects = x < 0.5
    z = reflects.where(-x, x - 1.0)
    upper, lower = z * 0.0, z * 0.0 + _LANCZOS_BASE
    for position, coefficient in enumerate(_LANCZOS):
        distance = z + (position + 1.0)
        upper = upper - coefficient / (distance * distance)
        lower = lower + coefficient / distance
    t = z + _GAMMA
    log_t = (z / _GAMMA).math("log1p") + math.log(_GAMMA)
    y = log_t + upper / lower - (_GAMMA - 0.5) / t
    reduced = x + (x + 0.5).math("floor").math("abs")
    angle = reduced * math.pi
    reflected = y - angle.math("cos") * math.pi / angle.math("sin")
    pole = (x <= 0) & x.equals(x.math("floor"))
    return pole.where(x * math.nan, reflects.where(reflected, y))


_DIRECT: Final = 12
"""Terms that are added up before the Euler-Maclaurin formula takes over."""

_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
)  # fmt: skip


def _zeta_of_positive(s: Term, q: Term) -> Term:
    """`sum((q + k) ** -s)` for positive `q` and `s > 1`."""
    axis = len(q.shape)
    terms = q.insert(axis) + counted(q.b, _DIRECT, q.type.element)
    direct = _power(terms, -s.insert(len(s.shape)) if s.shape else -s).sum([axis])
    end = q + float(_DIRECT)
    last = _power(end, -s)
    total = direct + last * end / (s - 1.0) + last * 0.5
    factor = last * s / end
    for at, number in enumerate(_BERNOULLI):
        total = total + factor * (number / math.factorial(2 * at + 2))
        factor = factor * (s + (2.0 * at + 1)) * (s + (2.0 * at + 2)) / (end * end)
    return total


def _power(x: Term, exponent: Term) -> Term:
    return x.of(x.b.pow(x.value, exponent.value))


def hurwitz_zeta(s: Term, q: Term) -> Term:
    """Of negative `q` by what is left of it in front of and behind zero; whole `s` alone."""
    shape = (s + q).shape
    s, q = s.expand(shape), q.expand(shape)
    below = q < 0
    shift = q - q.math("floor")
    even = is_even(s)
    mirrored = _zeta_of_positive(s, _safe(1.0 - shift)) - _zeta_of_positive(s, _safe(1.0 - q))
    mirrored = even.where(mirrored, -mirrored)
    found = _zeta_of_positive(s, below.where(_safe(shift), _safe(q)))
    found = below.where(found + mirrored, found)
    found = (below & s.equals(s.math("floor")).math("logical_not")).where(math.nan, found)
    found = _is_pole(q).where(math.inf, found)
    found = s.equals(1.0).where(math.inf, (s < 1.0).where(math.nan, found))
    return (is_nan(s) | is_nan(q)).where(math.nan, found)


def is_even(x: Term) -> Term:
    """Whether each element is an even number."""
    return (x * 0.5).math("floor").equals(x * 0.5)


def _is_pole(q: Term) -> Term:
    return (q <= 0) & q.equals(q.math("floor"))


def zeta(s: Term, q: Term) -> Term:
    """CHLO's zeta function: at poles infinite for even `s` and 1, and else not defined."""
    odd = (is_even(s) | s.equals(1.0)).math("logical_not")
    found = _is_pole(q).where(math.inf, hurwitz_zeta(s, q))
    return (_is_pole(q) & odd).where(math.nan, found)


def polygamma(n: Term, x: Term) -> Term:
    """The n-th derivative of digamma, with `n` a whole number."""
    order = n + 1.0
    found = lgamma(order).math("exp") * zeta(order, x)
    found = n.equals(0.0).where(digamma(x), is_even(n).where(-found, found))
    return ((n >= 0) & n.equals(n.math("floor"))).where(found, math.nan)


def _safe(x: Term) -> Term:
    return (x > 0).where(x, 1.0)


@cache
def _angles() -> Array:
    return (np.arange(4000) + 0.5) * (np.pi / 4000)


def _scaled_modified_bessel(order: int, x: Array) -> Array:
    """`exp(-x) * I_n(x)` by its integral."""
    angles = _angles()
    grown = np.exp(x[:, None] * (np.cos(angles) - 1))
    return (grown * np.cos(order * angles)).mean(axis=1)


def _coefficients(function: Callable[[Array], Array], degree: int) -> list[float]:
    """Those of the polynomial that takes the values of a function of [-1, 1], highest first."""
    chebyshev: Any = np.polynomial.chebyshev
    return [float(each) for each in chebyshev.chebinterpolate(function, degree)[::-1]]


def _series(x: Term, coefficients: Sequence[float]) -> Term:
    """Clenshaw's recurrence."""
    first = x * 0.0
    second, twice = first, x + x
    for coefficient in coefficients[:-1]:
        first, second = twice * first - second + coefficient, first
    return x * first - second + coefficients[-1]


@cache
def _parts_of_modified_bessel(order: int) -> tuple[list[float], list[float]]:
    """The series on [0, 8], and, times the root of x, behind it."""
    near = _coefficients(lambda y: _scaled_modified_bessel(order, 4 * (y + 1)), 32)

    def behind(y: Array) -> Array:
        x = 16 / (y + 1)
        return _scaled_modified_bessel(order, x) * np.sqrt(x)

    return near, _coefficients(behind, 24)


def modified_bessel(order: int, scaled: bool, x: Term) -> Term:
    """`I_n(x)`, or `exp(-|x|) * I_n(x)`, for n 0 or 1."""
    near, far = _parts_of_modified_bessel(order)
    size = x.math("abs")
    low = _series(size.minimum(8.0) / 4.0 - 1.0, near)
    large = size.maximum(8.0)
    high = _series(16.0 / large - 1.0, far) / large.math("sqrt")
    found = (size <= 8.0).where(low, high)
    if not scaled:
        found = found * size.math("exp")
    return (x < 0).where(-found, found) if order else found
