"""Finite automata over bytes, of UTF-8: nondeterministic ones in pieces, made deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from weft.dialects.errors import UnsupportedError
from weft.dialects.weights import Array

Ranges = Sequence[tuple[int, int]]
"""Sets of code points: the first and the last of each run."""

LAST_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, LAST_CODE_POINT)

MOST_STATES = 4096
MOST_LOOKAHEAD = 16
"""Bytes that a search may read beyond the match that it finds."""


_WORD = [(48, 57), (65, 90), (95, 95), (97, 122)]
"""Bytes of words."""

_START, _END, _IN_WORD = "start", "end", "in a word"
"""What may be before or behind a position, besides other bytes."""

_State = tuple[frozenset[int], str]


class Automaton(Struct, frozen=True):
    """`table[state, byte]` is the next state, -1 where none follows; state 0 is the first, and
    `accepts` says where what was read is a match, of an `anchored` one where the string ends then.
    `lookahead` is how many bytes may be read without coming to a match; None where nothing bounds
    them.
    """

    table: Array
    accepts: Array
    lookahead: int | None
    anchored: bool


class Piece(Struct, frozen=True):
    """A part of a nondeterministic automaton: where it begins and ends."""

    first: int
    last: int


class Pieces:
    """A nondeterministic automaton that is put together from pieces."""

    def __init__(self) -> None:
        self._edges: list[list[tuple[int, int, int]]] = []
        self._free: list[list[tuple[int, str]]] = []

    def state(self) -> int:
        """A new state."""
        if len(self._edges) == MOST_STATES:
            raise UnsupportedError(f"requires an expression of at most {MOST_STATES} states")
        self._edges.append([])
        self._free.append([])
        return len(self._edges) - 1

    def empty(self) -> Piece:
        """What matches nothing but the empty string."""
        first = self.state()
        return Piece(first, first)

    def condition(self, sign: str) -> Piece:
        """What matches the empty string at the start (`^`) or the end (`$`) of a text, at a border
        of a word (`b`), or elsewhere (`B`).
        """
        piece = Piece(self.state(), self.state())
        self._join(piece.first, piece.last, sign)
        return piece

    def _join(self, one: int, other: int, sign: str = "") -> None:
        self._free[one].append((other, sign))

    def characters(self, ranges: Ranges) -> Piece:
        """What matches one character."""
        piece = Piece(self.state(), self.state())
        for first, last in ranges:
            for sequence in byte_ranges(first, last):
                state = piece.first
                for position, (low, high) in enumerate(sequence, 1):
                    target = piece.last if position == len(sequence) else self.state()
                    self._edges[state].append((low, high, target))
                    state = target
        return piece

    def sequence(self, one: Piece, other: Piece) -> Piece:
        """One behind the other."""
        self._join(one.last, other.first)
        return Piece(one.first, other.last)

    def either(self, pieces: Sequence[Piece]) -> Piece:
        """Any of several."""
        whole = Piece(self.state(), self.state())
        for piece in pieces:
            self._join(whole.first, piece.first)
            self._join(piece.last, whole.last)
        return whole

    def optional(self, piece: Piece) -> Piece:
        """Once or not at all."""
        return self.either([piece, self.empty()])

    def repeated(self, piece: Piece) -> Piece:
        """Once or more often."""
        whole = self.either([piece])
        self._join(piece.last, piece.first)
        return whole

    def automaton(self, piece: Piece) -> Automaton:
        """The deterministic automaton of a piece; states that lead to no match are left out.

        A state is where reading may stand, before any step without a byte, and what was read last:
        the conditions of such steps hang on that, and on the byte behind.
        """
        anchored = any(sign for free in self._free for _, sign in free)
        ranges = [(low, high) for edges in self._edges for low, high, _ in edges]
        ranges += _WORD if anchored else []
        classes = sorted({0, 256, *(end for low, high in ranges for end in (low, high + 1))})
        numbers: dict[_State, int] = {(frozenset([piece.first]), _START): 0}
        rows, accepts = list[list[int]](), list[bool]()
        pending = list(numbers)
        while pending:
            states, before = pending.pop(0)
            accepts.append(piece.last in self._closure(states, before, _END))
            row = list[int]()
            for byte in classes[:-1]:
                read = _read(byte)
                reached = self._closure(states, before, read)
                following = frozenset(
                    target
                    for state in reached
                    for low, high, target in self._edges[state]
                    if low <= byte <= high
                )
                state = following, read if anchored else _START
                if following and state not in numbers:
                    numbers[state] = len(numbers)
                    pending.append(state)
                row.append(numbers[state] if following else -1)
            rows.append(row)
            if len(numbers) > MOST_STATES:
                raise UnsupportedError(f"requires an expression of at most {MOST_STATES} states")
        table = np.repeat(np.array(rows, np.int32), np.diff(classes), axis=1)
        return _pruned(table, np.array(accepts, np.bool_), anchored=anchored)

    def _closure(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """What can be reached without a byte, between what was read last and what is behind."""
        border = (before == _IN_WORD) != (after == _IN_WORD)
        holds = {"": True, "^": before == _START, "$": after == _END, "b": border, "B": not border}
        reached, pending = set(states), list(states)
        while pending:
            edges = self._free[pending.pop()]
            further = [each for each, sign in edges if holds[sign] and each not in reached]
            reached.update(further)
            pending += further
        return reached


def _read(byte: int) -> str:
    return _IN_WORD if any(low <= byte <= high for low, high in _WORD) else "other"


def _pruned(table: Array, accepts: Array, *, anchored: bool) -> Automaton:
    """Without the states from which no match follows, but the first."""
    live = accepts.copy()
    while True:
        reach = live | (live[table] & (table >= 0)).any(1)
        if (reach == live).all():
            break
        live = reach
    live[0] = True
    numbers = np.where(live, np.cumsum(live) - 1, -1)
    kept = np.where(table[live] >= 0, numbers[table[live]], -1)
    return Automaton(
        kept.astype(np.int32), accepts[live], _lookahead(kept, accepts[live]), anchored
    )


def _lookahead(table: Array, accepts: Array) -> int | None:
    """The longest way through states that are no match; None where there is a cycle."""
    depth = np.zeros(len(table), np.int64)
    for _ in range(len(table) + 1):
        behind = np.where((table >= 0) & ~accepts[table], 1 + depth[table], 0).max(1)
        if (behind == depth).all():
            return int(depth.max())
        depth = behind
    return None


def byte_ranges(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """The UTF-8 of code points from the first to the last, as sequences of ranges of bytes."""
    if first > last:
        return
    low, high = _SURROGATES
    if first <= high and last >= low:
        yield from byte_ranges(first, low - 1)
        yield from byte_ranges(high + 1, last)
        return
    length = next(n for n, most in enumerate(_LAST_OF_LENGTH, 1) if first <= most)
    ends = [min(last, _LAST_OF_LENGTH[length - 1])]
    for bits in range(6 * (length - 1), 0, -6):
        # All sequences of the last bytes behind equal first ones are a range by themselves.
        mask = (1 << bits) - 1
        if first | mask != ends[0] | mask:
            ends += [first | mask] * (first & mask != 0)
            ends += [(ends[0] + 1 & ~mask) - 1] * (ends[0] & mask != mask)
    end = min(each for each in ends if each >= first)
    yield list(zip(chr(first).encode(), chr(end).encode(), strict=True))
    yield from byte_ranges(end + 1, last)
