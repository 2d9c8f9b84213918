"""Threefry-2x32 of 20 rounds, by Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"
(2011), on whatever has words of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_PARITY: Final = 0x1BD11BDA
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_BLOCKS: Final = 5
"""Of four rounds each."""


def threefry(
    key: tuple[T, T],
    count: tuple[T, T],
    add: Callable[[T, T], T],
    xor: Callable[[T, T], T],
    rotate: Callable[[T, int], T],
    number: Callable[[int], T],
) -> tuple[T, T]:
    """Two random words of a key of two and a count of two: sums are modulo 2^32, `rotate` moves
    bits up, those that leave a word come in below.
    """
    keys = (*key, xor(xor(*key), number(_PARITY)))
    x, y = add(count[0], keys[0]), add(count[1], keys[1])
    for block in range(_BLOCKS):
        for by in _ROTATIONS[block % 2]:
            x = add(x, y)
            y = xor(x, rotate(y, by))
        x = add(x, keys[(block + 1) % 3])
        y = add(add(y, keys[(block + 2) % 3]), number(block + 1))
    return x, y
