"""Rates that change: functions from the number of the step, a float32 of at least 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as wnp

Rate = Callable[[Any], Any]


def exponential(start: float, factor: float, every: int = 1) -> Rate:
    """`start`, times a factor after each so many steps."""
    return lambda step: start * factor ** wnp.floor((step - 1.0) / every)


def multistep(start: float, steps: Sequence[int], factor: float = 0.1) -> Rate:
    """`start`, times a factor behind each of these steps."""

    def rate(step: Any) -> Any:
        passed = sum((wnp.where(step > float(each), 1.0, 0.0 * step) for each in steps), 0.0 * step)
        return start * factor**passed

    return rate


def linear(start: float, end: float, steps: int) -> Rate:
    """From one rate to another in so many steps, and then that."""
    return lambda step: start + (end - start) * wnp.minimum((step - 1.0) / steps, 1.0)


def polynomial(start: float, end: float, steps: int, power: float = 1.0) -> Rate:
    """From one rate to another as a power of what is left of so many steps."""

    def rate(step: Any) -> Any:
        left = 1.0 - wnp.minimum((step - 1.0) / steps, 1.0)
        return end + (start - end) * left**power

    return rate


def cosine(start: float, steps: int, end: float = 0.0) -> Rate:
    """From one rate to another along half a cosine (Loshchilov and Hutter, 2017)."""

    def rate(step: Any) -> Any:
        share = wnp.minimum((step - 1.0) / steps, 1.0)
        return end + (start - end) * 0.5 * (1.0 + wnp.cos(share * math.pi))

    return rate


def warmup(steps: int, rate: Rate | float) -> Rate:
    """A rate, or a schedule that begins behind them, of which so many steps first lead up to it."""

    def warmed(step: Any) -> Any:
        after = rate(wnp.maximum(step - steps, 1.0)) if callable(rate) else rate
        return after * wnp.minimum(step / (steps + 1.0), 1.0)

    return warmed


def one_cycle(highest: float, steps: int, share: float = 0.3, ratio: float = 25.0) -> Rate:
    """Up from `highest / ratio` in a share of the steps and down to nearly nothing, along cosines
    (Smith and Topin, 2018).
    """
    rise = share * steps - 1.0

    def rate(step: Any) -> Any:
        up = wnp.minimum((step - 1.0) / rise, 1.0)
        down = wnp.clip((step - 1.0 - rise) / (steps - 1.0 - rise), 0.0, 1.0)
        low, end = highest / ratio, highest / ratio / 1e4
        rising = low + (highest - low) * 0.5 * (1.0 - wnp.cos(up * math.pi))
        falling = end + (highest - end) * 0.5 * (1.0 + wnp.cos(down * math.pi))
        return wnp.where(step - 1.0 <= rise, rising, falling)

    return rate
