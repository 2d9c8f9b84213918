"""Items that last from one position to another, found by whether they meet in time."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Generic, TypeVar

Item = TypeVar("Item")


class LiveIntervals(Generic[Item]):
    """A segment tree over positions from 0: adding an item takes as long as the logarithm of the
    last position, finding those that meet a range that and as long as there are such items.
    """

    def __init__(self, positions: int):
        self._leaves = 1 << max(0, positions - 1).bit_length()
        self._nodes: dict[int, list[Item]] = {}
        self._starts: list[tuple[int, int]] = []
        self._items: list[Item] = []

    def add(self, first: int, last: int, item: Item) -> None:
        """Adds an item that lasts from the first to the last position."""
        insort(self._starts, (first, len(self._items)))
        self._items.append(item)
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                self._nodes.setdefault(low, []).append(item)
                low += 1
            if high & 1:
                high -= 1
                self._nodes.setdefault(high, []).append(item)
            low, high = low >> 1, high >> 1

    def meeting(self, first: int, last: int) -> list[Item]:
        """The items that last at any position from the first to the last, each once."""
        found: list[Item] = []
        node = first + self._leaves
        while node:
            found += self._nodes.get(node, ())
            node >>= 1
        begin = bisect_right(self._starts, (first, len(self._items)))
        end = bisect_right(self._starts, (last, len(self._items)))
        return found + [self._items[number] for _, number in self._starts[begin:end]]
