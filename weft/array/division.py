"""Quotients that are rounded down, as graph operators."""

from __future__ import annotations

from typing import Any


def whole(dividend: Any, divisor: Any) -> Any:
    """The quotient of integers, rounded down: one over zero is zero, and it wraps around."""
    quotient = dividend.op("div", dividend, divisor)
    if dividend.dtype.kind == "u":
        return quotient
    rest = dividend.op("mod", dividend, divisor, fmod=False)
    down = dividend.op("logical_and", rest != 0, (dividend < 0) != (divisor < 0))
    return quotient.op("sub", quotient, down.astype(quotient.dtype))


def floored(dividend: Any, divisor: Any) -> Any:
    """The quotient of floats, rounded down, as Python and NumPy compute it: what is divided is a
    multiple of the divisor, so that 1.0 // 0.1 is 9. It has no slope anywhere.
    """
    dividend, divisor = (each.op("stop_gradient", each) for each in (dividend, divisor))
    rest = dividend.op("mod", dividend, divisor, fmod=True)
    down = dividend.op("logical_and", rest != 0, (dividend < 0) != (divisor < 0))
    multiple = dividend.op("div", dividend.op("sub", dividend, rest), divisor)
    rounded = dividend.op("round", multiple.op("sub", multiple, down.astype(multiple.dtype)))
    plain = dividend.op("logical_or", dividend == 0, divisor == 0)  # which has the sign of a zero
    return dividend.op("where", plain, dividend.op("div", dividend, divisor), rounded)
