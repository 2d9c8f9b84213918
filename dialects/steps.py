"""Steps of the little programs on a stack by which an artifact computes the sizes of its dims."""

from __future__ import annotations

from enum import IntEnum


class Step(IntEnum):
    """What one step does, by the number that artifacts have for it (docs/abi.md)."""

    END = 0
    NUMBER = 1
    SYMBOL = 2
    ADD = 3
    SUB = 4
    MUL = 5
    MIN = 6
    MAX = 7
    FLOORDIV = 8
    MOD = 9
