"""ATen's special functions, computed in f64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from weft.compiler.frontend.stablehlo.ops.elementwise import bits, exact, from_bits
from weft.compiler.frontend.stablehlo.ops.series import (
    digamma,
    hurwitz_zeta,
    lgamma,
    modified_bessel,
)
from weft.compiler.frontend.stablehlo.ops.special import erf_inv, erfc, next_after
from weft.compiler.frontend.torch.operands import (
    AtenFunction,
    AtenTable,
    Operand,
    computed,
    entry,
    promoted,
)
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, F64, FLOATS, I32

Function = Callable[[Term], Term]


def of_floats(function: Function, b: GraphBuilder, x: Term) -> Term:
    """A formula in f64 of each element."""
    return computed(b, exact(function), x, floats=True)


def _digamma(x: Term) -> Term:
    """At 0 an infinity of the other sign."""
    zero = x.equals(0)
    return zero.where(-1.0 / x, digamma(zero.where(1.0, x)))


def zeta(b: GraphBuilder, x: Operand, other: Operand) -> Term:
    """Hurwitz' zeta function."""
    return computed(b, exact(hurwitz_zeta), x, other, floats=True)


def polygamma(b: GraphBuilder, n: int, x: Term) -> Term:
    """The n-th derivative of digamma."""
    if n == 0:
        return of_floats(_digamma, b, x)
    sign = 1.0 if n % 2 else -1.0

    def of(y: Term) -> Term:
        return hurwitz_zeta(y * 0.0 + (n + 1.0), y) * (sign * math.factorial(n))

    return of_floats(of, b, x)


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
    "i0": partial(modified_bessel, 0, False),
    "special_modified_bessel_i0": partial(modified_bessel, 0, False),
    "special_i0e": partial(modified_bessel, 0, True),
    "special_i1": partial(modified_bessel, 1, False),
    "special_modified_bessel_i1": partial(modified_bessel, 1, False),
    "special_i1e": partial(modified_bessel, 1, True),
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
