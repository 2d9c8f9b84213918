"""How large a tensor or buffer may be, while compiling and in a call."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from weft.dialects.errors import ExtentError

MOST = 1 << 47
"""The largest extent, and the most bytes of a tensor or buffer, extents of 0 left out: no process
has more memory, and no product of two such numbers and an element size comes near 2**127.
"""


def is_allowed(extents: Iterable[int], element_bytes: int) -> bool:
    """Whether a tensor may have these extents; those that are not known are left out."""
    total = element_bytes
    for extent in extents:
        if not 0 <= extent <= MOST:
            return False
        total *= extent or 1
    return total <= MOST


def exact_number(number: float, who: str) -> Fraction:
    """A float that extents are computed from, as it is. Raises ExtentError for what is no number,
    and for what is beyond any extent.
    """
    if not abs(number) <= MOST:  # nor is nan
        raise too_large(who, number)
    return Fraction(number)


def too_large(who: str, got: object) -> ExtentError:
    """The one error for what is too large."""
    rule = "requires extents of 0 to 2**47, and no more bytes (extent too large)"
    return ExtentError(f"{who} {rule}, got {got}")
