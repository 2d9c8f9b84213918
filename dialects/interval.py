"""Interval arithmetic: bounds of sums, products, quotients, remainders and extrema of integers."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int | None, int | None]
"""Least and greatest value, both inclusive; None where there is no bound."""

UNBOUNDED: Range = (None, None)


def add(left: Range, right: Range) -> Range:
    """Bounds of a sum."""
    (a, b), (c, d) = left, right
    return None if a is None or c is None else a + c, None if b is None or d is None else b + d


def multiply(left: Range, right: Range) -> Range:
    """Bounds of a product; a bound that is missing stays missing unless the other
    factor is zero or its sign decides.
    """
    (a, b), (c, d) = left, right
    if a is not None and b is not None and c is not None and d is not None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    # From here on an end is open: the extreme products are those of corners only where a factor
    # is constant, or where its sign says which corner is the extreme one.
    if a is not None and a == b:
        return _scale(right, a)
    if c is not None and c == d:
        return _scale(left, c)
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    known = (c is not None and c >= 0) or (d is not None and d <= 0)
    if known and b is not None and b <= 0:
        high, low = multiply((-b, None if a is None else -a), right)
        return None if low is None else -low, None if high is None else -high
    if d is not None and d <= 0 and a is not None and a >= 0:
        return multiply(right, left)
    return UNBOUNDED


def _scale(factor: Range, number: int) -> Range:
    """Bounds of a multiple."""
    if number == 0:
        return 0, 0
    low, high = (None if bound is None else bound * number for bound in factor)
    return (low, high) if number > 0 else (high, low)


def floordiv(dividend: Range, divisor: Range) -> Range:
    """Bounds of a floor quotient; none where the divisor may be negative."""
    (low, high), (least, most) = dividend, divisor
    if least is None or least < 0:
        return UNBOUNDED
    if least == most and least > 0:
        return None if low is None else low // least, None if high is None else high // least
    return (0, high) if low is not None and low >= 0 else UNBOUNDED


def modulo(divisor: Range) -> Range:
    """Bounds of what a floor division leaves; none where the divisor may be negative."""
    least, most = divisor
    if least is None or least < 0:
        return UNBOUNDED
    return 0, None if most is None else most - 1


def maximum(operands: Iterable[Range]) -> Range:
    """Bounds of the greatest of some values."""
    lows, highs = zip(*operands, strict=True)
    finite_lows = [low for low in lows if low is not None]
    finite_highs = [high for high in highs if high is not None]
    low = max(finite_lows, default=None)
    return low, max(finite_highs) if len(finite_highs) == len(highs) else None


def minimum(operands: Iterable[Range]) -> Range:
    """Bounds of the least of some values."""
    lows, highs = zip(*operands, strict=True)
    finite_lows = [low for low in lows if low is not None]
    finite_highs = [high for high in highs if high is not None]
    high = min(finite_highs, default=None)
    return min(finite_lows) if len(finite_lows) == len(lows) else None, high
