"""How large a tensor or buffer may be, while compiling and in a call."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dialects.errors import ExtentError

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


def extent_of(number: float, who: str) -> int:
    """A float that is computed for an extent, rounded down. Raises ExtentError for what is no
    number, and what is too large for any extent.
    """
    if math.isnan(number) or abs(number) > MOST:
        raise too_large(who, number)
    return math.floor(number)


def too_large(who: str, got: object) -> ExtentError:
    """The one error for what is too large."""
    rule = "requires extents of 0 to 2**47, and no more bytes (extent too large)"
    return ExtentError(f"{who} {rule}, got {got}")
