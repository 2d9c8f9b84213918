"""What memory holds, as terms: two are equal where they have one number.

A term is built from an operator's number and the terms that it read, so that it says how a value
came to be and not where it lay.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, cast

Path = tuple[int, ...]
"""The rows by which a part of a buffer is reached; () is all of it."""

_ROWS: Final = "rows"


class Terms:
    """Gives terms their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._parts: list[tuple[Hashable, ...]] = []
        self.undefined = self.of("undefined")
        """What memory holds that nothing has written yet."""
        self.lost = self.of("lost")
        """What memory held before something else was written there."""

    def of(self, *parts: Hashable) -> int:
        """The number of a term: what it is, and the terms that it is made of."""
        number = self._numbers.setdefault(parts, len(self._parts))
        if number == len(self._parts):
            self._parts.append(parts)
        return number

    def integer(self, term: int) -> int | None:
        """The value of a term that is a known integer."""
        parts = self._parts[term]
        return cast(int, parts[1]) if parts[0] == "integer" else None

    def read(self, term: int, path: Path) -> int:
        """A part of what a buffer holds."""
        for row in path:
            parts = self._parts[term]
            if parts[0] == _ROWS:
                rows = dict(cast(tuple[tuple[int, int], ...], parts[2]))
                term = rows[row] if row in rows else self._row(cast(int, parts[1]), row)
            else:
                term = self._row(term, row)
        return term

    def _row(self, term: int, row: int) -> int:
        return term if term in (self.undefined, self.lost) else self.of("row", term, row)

    def write(self, term: int, path: Path, value: int) -> int:
        """What a buffer holds once a part of it is replaced."""
        if not path:
            return value
        row, inner = path[0], path[1:]
        value = self.write(self.read(term, (row,)), inner, value)
        parts = self._parts[term]
        rows: dict[int, int] = {}
        if parts[0] == _ROWS:
            term = cast(int, parts[1])
            rows = dict(cast(tuple[tuple[int, int], ...], parts[2]))
        rows[row] = value
        return self.of(_ROWS, term, tuple(sorted(rows.items())))

    def either(self, condition: int, first: int, second: int) -> int:
        """What memory holds behind a branch."""
        if first == second:
            return first
        if self.lost in (first, second):
            return self.lost
        return self.of("either", condition, first, second)
