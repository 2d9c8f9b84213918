"""Dictionaries that know what changed in them since a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Tracked(dict[Key, Value]):
    """A dictionary that is changed one key at a time, by assignment and `discard`; between `begin`
    and `end`, which may be nested, it notes what keys had before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[dict[Key, Value | None]] = []

    def __setitem__(self, key: Key, value: Value) -> None:
        if self._before:
            self._before[-1].setdefault(key, self.get(key))
        super().__setitem__(key, value)

    def discard(self, key: Key) -> None:
        """Forgets a key, if it is there."""
        if self._before:
            self._before[-1].setdefault(key, self.get(key))
        self.pop(key, None)

    def put(self, key: Key, value: Value | None) -> None:
        """Gives a key a value, or none."""
        if value is None:
            self.discard(key)
        else:
            self[key] = value

    def begin(self) -> None:
        """From here on changes are noted."""
        self._before.append({})

    def end(self) -> dict[Key, Value | None]:
        """What the keys that changed had before; None for those that were not there."""
        before = self._before.pop()
        for outer in self._before[-1:]:
            for key, value in before.items():
                outer.setdefault(key, value)
        return before

    def restore(self, before: Mapping[Key, Value | None]) -> None:
        """Gives keys what they had before."""
        for key, value in before.items():
            self.put(key, value)
