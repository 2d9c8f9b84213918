"""What connects ranks, as a model: a message takes a time of its own, and a time for its bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from weft.dialects.errors import OptionError

_UNITS: Final[Mapping[str, float]] = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0,
    "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
}  # fmt: skip


class Wire(NamedTuple):
    """`alpha` seconds of a message, and `beta` bytes of a second; without, shared memory."""

    alpha: float = 0.0
    beta: float = inf

    @staticmethod
    def written(alpha: str, beta: str | None) -> Wire:
        """That of a time and a rate with their units, `2us` and `12GB/s`, or a rate without limit.
        Raises OptionError for others, and a rate of 0.
        """
        rate = inf if beta is None else _quantity("beta", beta, "B/s")
        wire = Wire(_quantity("alpha", alpha, "s"), rate)
        if not wire.beta:
            raise OptionError(f"beta requires a positive rate, got {beta!r}")
        return wire

    @property
    def units(self) -> tuple[int, int]:
        """What a message takes in nanoseconds, and a byte in femtoseconds."""
        return round(self.alpha * 1e9), round(1e15 / self.beta)

    def time(self, messages: int, size: float) -> float:
        """The seconds of messages one after the other, which have so many bytes together."""
        return messages * self.alpha + size / self.beta


MEMORY: Final = Wire()


def ring(operation: str, members: int, part: int) -> tuple[int, int]:
    """The messages that each rank of a group sends on a ring, one after the other, and their bytes.
    `part` are the bytes of all_reduce, else those of one rank's part.
    """
    steps = members - 1
    if operation == "all_reduce":
        return 2 * steps, 2 * steps * part // members
    return steps, steps * part


def _quantity(name: str, written: str, unit: str) -> float:
    """A number with its unit, in seconds or bytes of a second."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)\s*([a-zA-Z/]+)", written)
    units = [each for each in _UNITS if each.endswith("B/s") == (unit == "B/s")]
    if match is None or match[2] not in units:
        raise OptionError(f"{name} requires a number in one of {', '.join(units)}, got {written!r}")
    return float(match[1]) * _UNITS[match[2]]
