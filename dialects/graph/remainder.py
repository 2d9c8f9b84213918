"""Remainders inside loop nests: of integers by correcting C's, of floats by long division."""

from __future__ import annotations

import math

from xdsl.ir import Attribute

from dialects.graph.types import BF16, F16, F32, F64
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import Scalar, is_unsigned

DOUBLINGS: dict[Attribute, int] = {F16: 40, BF16: 261, F32: 277, F64: 2098}
"""How many times the least positive number can be doubled without overflow."""


def integer_remainder(dividend: Scalar, divisor: Scalar, *, truncates: bool) -> Scalar:
    """The remainder with the divisor's sign, or the dividend's where the quotient truncates."""
    rest = dividend.remainder(divisor)
    if truncates or is_unsigned(dividend.element):
        return rest
    return _with_sign_of(rest, divisor)


def _with_sign_of(rest: Scalar, divisor: Scalar) -> Scalar:
    """The remainder, moved by one divisor where it is of the other sign."""
    differs = rest.compare("ne", 0) & ((rest < 0) ^ (divisor < 0))
    return differs.select(rest + divisor, rest)


def float_remainder(
    b: LoopBuilder, dividend: Scalar, divisor: Scalar, element: Attribute, *, truncates: bool
) -> Scalar:
    """The exact remainder of floats: the divisor is doubled up to the dividend and halved again.

    Each subtraction on the way is exact, so nothing is rounded.
    """
    size, step_size = dividend.math("absf"), divisor.math("absf")
    rest = _long_division(b, size, step_size, DOUBLINGS[element]).math("copysign", dividend)
    if not truncates:
        zero = rest.constant(0).math("copysign", divisor)
        rest = rest.compare("eq", 0).select(zero, _with_sign_of(rest, divisor))
    defined = (size < math.inf) & (step_size > 0)
    return defined.select(rest, rest.constant(math.nan))


def _long_division(b: LoopBuilder, dividend: Scalar, divisor: Scalar, doublings: int) -> Scalar:
    """What remains of a float that is not negative."""
    step = b.scratch([], divisor.element, "step")
    rest = b.scratch([], dividend.element, "rest")
    b.store(step, [], divisor)
    b.store(rest, [], dividend)
    with b.loops([doublings]):
        current = b.load(step, [])
        double = current + current
        b.store(step, [], (double <= dividend).select(double, current))
    with b.loops([doublings + 1]):
        current, left = b.load(step, []), b.load(rest, [])
        b.store(rest, [], (left >= current).select(left - current, left))
        half = current * 0.5
        b.store(step, [], (half >= divisor).select(half, current))
    return b.load(rest, [])
