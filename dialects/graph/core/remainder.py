"""Remainders inside loop nests: C's, corrected where they shall have the divisor's sign."""

from __future__ import annotations

from weft.dialects.loop.scalar import Scalar, is_float, is_unsigned


def remainder(dividend: Scalar, divisor: Scalar, *, truncates: bool) -> Scalar:
    """The remainder with the divisor's sign, or the dividend's where the quotient truncates."""
    rest = dividend.remainder(divisor)
    if truncates or is_unsigned(dividend.element):
        return rest
    differs = rest.compare("ne", 0) & ((rest < 0) ^ (divisor < 0))
    moved = differs.select(rest + divisor, rest)
    if not is_float(dividend.element):
        return moved
    return rest.compare("eq", 0).select(rest.constant(0).math("copysign", divisor), moved)
