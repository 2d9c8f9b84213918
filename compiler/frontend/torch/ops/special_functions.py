"""ATen's special functions, computed in f64 and rounded once.

Bessel functions are Chebyshev series, whose coefficients are those of integrals by the trapezoid
rule, which is exact to rounding for periodic functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from weft.compiler.frontend.stablehlo.ops.elementwise import bits, exact, from_bits
from weft.compiler.frontend.stablehlo.ops.special import (
    digamma,
    erf_inv,
    erfc,
    lgamma,
    next_after,
)
from weft.compiler.frontend.torch.operands import (
    AtenFunction,
    AtenTable,
    Operand,
    computed,
    entry,
    promoted,
)
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, F64, FLOATS, I32
from weft.dialects.weights import Array

Function = Callable[[Term], Term]


def of_floats(function: Function, b: GraphBuilder, x: Term) -> Term:
    """A formula in f64 of each element."""
    return computed(b, exact(function), x, floats=True)


def _digamma(x: Term) -> Term:
    """At 0 an infinity of the other sign."""
    zero = x.equals(0)
    return zero.where(-1.0 / x, digamma(zero.where(1.0, x)))


# Hurwitz' zeta function -----------------------------------------------------------------------

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


def _zeta(s: Term, q: Term) -> Term:
    """Of negative `q` by what is left of it in front of and behind zero; whole `s` alone."""
    below = q < 0
    shift = q - q.math("floor")
    even = (s * 0.5).math("floor").equals(s * 0.5)
    mirrored = _zeta_of_positive(s, _safe(1.0 - shift)) - _zeta_of_positive(s, _safe(1.0 - q))
    mirrored = even.where(mirrored, -mirrored)
    found = _zeta_of_positive(s, below.where(_safe(shift), _safe(q)))
    found = below.where(found + mirrored, found)
    whole = q.equals(q.math("floor"))
    found = (below & s.equals(s.math("floor")).math("logical_not")).where(math.nan, found)
    found = ((q <= 0) & whole).where(math.inf, found)
    found = s.equals(1.0).where(math.inf, (s < 1.0).where(math.nan, found))
    return (s.math("is_nan") | q.math("is_nan")).where(math.nan, found)


def _safe(x: Term) -> Term:
    return (x > 0).where(x, 1.0)


def zeta(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """Hurwitz' zeta function."""

    def of(s: Term, q: Term) -> Term:
        element = s.type.element
        first, second = s.cast(F64), q.cast(F64)
        shape = (first + second).shape
        return _zeta(first.expand(shape), second.expand(shape)).cast(element)

    return computed(b, of, x, other, floats=True)


def polygamma(b: GraphBuilder, n: int, x: Term) -> Term:
    """The n-th derivative of digamma."""
    if n == 0:
        return of_floats(_digamma, b, x)
    sign = 1.0 if n % 2 else -1.0

    def of(y: Term) -> Term:
        return _zeta(y * 0.0 + (n + 1.0), y) * (sign * math.factorial(n))

    return of_floats(of, b, x)


# Series of Chebyshev --------------------------------------------------------------------------


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


def _modified_bessel(order: int, scaled: bool, x: Term) -> Term:
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


# The complement of erf, scaled --------------------------------------------------------------


def _erfcx(x: Term) -> Term:
    """`exp(x * x) * erfc(x)`, of large x by a continued fraction."""
    near = (x.minimum(5.0) * x.minimum(5.0)).math("exp") * erfc(x.minimum(5.0))
    far = x.maximum(5.0)
    fraction = far
    for term in range(40, 0, -1):
        fraction = far + (term / 2) / fraction
    return (x < 5.0).where(near, (1 / math.sqrt(math.pi)) / fraction)


def _log_ndtr(x: Term) -> Term:
    """The logarithm of the distribution function."""
    root = x * -math.sqrt(0.5)
    low = (_erfcx(root.maximum(0.0)) * 0.5).math("log") - x * x * 0.5
    return (x < -1.0).where(low, (erfc(root.minimum(1.0)) * 0.5).math("log"))


# Bits -----------------------------------------------------------------------------------------

_EXPONENT: Final = 0x7FF << 52


def frexp(b: GraphBuilder, x: Term) -> tuple[Term, Term]:
    """Mantissas from 1/2 below 1, and exponents."""
    whole = x.cast(F64)
    plain = whole.equals(0) | (whole.math("abs") < math.inf).math("logical_not")
    tiny = whole.math("abs") < 2.0**-1022
    safe = plain.where(1.0, tiny.where(whole * 2.0**54, whole))
    number = bits(safe, signed=False)
    field = number.of(b.bit_shift(number.value, number.number(52).value, direction="RIGHT"))
    field = field.of(b.bitwise_and(field.value, field.number(0x7FF).value))
    kept = number.of(b.bitwise_and(number.value, number.number((1 << 64) - 1 - _EXPONENT).value))
    half = from_bits(kept.of(b.bitwise_or(kept.value, kept.number(1022 << 52).value)), F64)
    exponent = field.cast(I32) - 1022
    exponent = tiny.where(exponent - 54, exponent)
    return plain.where(whole, half).cast(x.type.element), plain.where(0, exponent)


def nextafter(b: GraphBuilder, x: Term, other: Term) -> Term:
    """The number beside one towards another."""
    first, second = promoted(b, x, other)
    if first.type.element not in (F32, F64):
        raise UnsupportedError(f"requires f32 or f64, got {first.type.element}")
    shape = (first + second).shape
    return next_after(first.expand(shape), second.expand(shape))


def angle(b: GraphBuilder, x: Term) -> Term:
    """Pi of negative numbers, 0 of others."""
    y = x if x.type.element in FLOATS else x.cast(F32)
    return y.math("is_nan").where(y, (y < 0).where(math.pi, y * 0.0))


_FUNCTIONS: Final[dict[str, Function]] = {
    "lgamma": lgamma,
    "digamma": _digamma,
    "erfinv": erf_inv,
    "erfc": erfc,
    "i0": partial(_modified_bessel, 0, False),
    "special_modified_bessel_i0": partial(_modified_bessel, 0, False),
    "special_i0e": partial(_modified_bessel, 0, True),
    "special_i1": partial(_modified_bessel, 1, False),
    "special_modified_bessel_i1": partial(_modified_bessel, 1, False),
    "special_i1e": partial(_modified_bessel, 1, True),
    "special_erfcx": _erfcx,
    "special_log_ndtr": _log_ndtr,
}


def _functions() -> dict[str, AtenFunction]:
    return {
        f"aten.{name}.default": partial(of_floats, function)
        for name, function in _FUNCTIONS.items()
    }


TABLE: Final[AtenTable] = _functions() | {
    **entry(zeta, "special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar"),
    **entry(polygamma, "polygamma.default"),
    **entry(frexp, "frexp.Tensor"),
    **entry(nextafter, "nextafter.default"),
    **entry(angle, "angle.default"),
}
