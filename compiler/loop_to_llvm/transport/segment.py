"""The memory that ranks share: what each shows to the others, and where it puts its values.

head               the rank that is lost
a line per rank    whom it waits for, the tag of its collective
a line per pair    what a rank has done of what it does together with another
areas per rank     one for its part, one for what it has reduced
a mailbox per pair slots, in which messages lie that one has sent to the other
a heap per rank    of processes: buffers that others read and write in place
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I32, I64, POINTER, Code, i64
from weft.compiler.loop_to_llvm.runtime.layout import Field, Struct

LINE: Final = 128
"""Bytes of a rank's line, and of the head: what two ranks write is in different cache lines."""

PAGE: Final = 4096

HEAD: Final = Struct(LINE, lost=Field(I32, 0))
"""`lost` is 1 + the rank that does not take part any more, which ends all calls; or 0."""

UNDER_WAY: Final = 4096
"""Collectives that may be under way on a wire that is slower than memory."""

RANK: Final = Struct(
    LINE + 8 * UNDER_WAY,
    left=Field(I32, 0),
    waits=Field(I32, 4),
    tag=Field(I64, 8),
    free=Field(I64, 16),
    source=Field(I64, 24),
    target=Field(I64, 32),
    ends=Field(I64, LINE, UNDER_WAY),
)
"""`left` says that a rank has ended, `waits` is 1 + the rank that it waits for. `ends` is when its
wire is done with collectives, by their tags, and `free` with all, in nanoseconds. `source` and
`target` say where its buffers are.
"""

PAIR: Final = Struct(
    LINE,
    arrived=Field(I32, 0),
    filled=Field(I32, 4),
    freed=Field(I32, 8),
    sleepers=Field(I32, 12),
    first=Field(I32, 16),
    free=Field(I64, 24),
)
"""Of one rank towards another: how often it has come to meet it, how many slots it has filled for
it, and how many of the other's it has read; the other sleeps on one of these. `first` is the slot
that was filled when the mailbox was empty, and `free` when the wire is, in nanoseconds.
"""

SLOT: Final = 1 << 18
"""Bytes of a mailbox's slot with its head."""

SLOT_HEAD: Final = Struct(64, ready=Field(I64, 0), bytes=Field(I64, 8), tag=Field(I64, 16))
"""When what is in a slot has arrived, how many bytes it is of, and the tag of the message."""

ENDPOINT: Final = Struct(
    80,
    segment=Field(POINTER, 0),
    rank=Field(I32, 8),
    ranks=Field(I32, 12),
    area=Field(I64, 16),
    limit=Field(I64, 24),
    spins=Field(I64, 32),
    slots=Field(I64, 40),
    latency=Field(I64, 48),
    byte=Field(I64, 56),
    base=Field(POINTER, 64),
    ranges=Field(POINTER, 72),
)
"""A rank's own: the segment, bytes of an area, nanoseconds that it waits for another, slots of a
mailbox; of a wire that is slower than memory the nanoseconds of each message, and the femtoseconds
of a byte; and what the positions of others' buffers count from, and its ranges.
"""

RANGES: Final = 64
"""Those of a rank, of which the unused ones begin at the last address."""

RANGE: Final = Struct(24, begin=Field(I64, 0), end=Field(I64, 8), start=Field(I64, 16))
"""Addresses that others reach, and the position of the first."""

_MAILBOXES: Final = 1 << 34
_MOST_SLOTS: Final = 1 << 10
_LEAST_SLOTS: Final = 4
_HEAPS: Final = 1 << 38


def mailbox_slots(ranks: int) -> int:
    """Of each mailbox. Memory that no message was in is none."""
    return max(_LEAST_SLOTS, min(_MOST_SLOTS, _MAILBOXES // (ranks * ranks * SLOT)))


def heaps_start(ranks: int, area: int) -> int:
    """Where heaps begin, and what ranks of one process share ends."""
    lines = LINE * (1 + ranks * ranks) + RANK.size * ranks
    slots = ranks * ranks * mailbox_slots(ranks) * SLOT
    return -(-lines // PAGE) * PAGE + 2 * ranks * area + slots


def heap_bytes(ranks: int) -> int:
    """Of each rank. Memory that was never used is none."""
    return _HEAPS // ranks // PAGE * PAGE


def segment_bytes(ranks: int, area: int) -> int:
    """The bytes of a segment that processes share."""
    return heaps_start(ranks, area) + ranks * heap_bytes(ranks)


class Endpoint:
    """A rank's view of the segment, in the code of a function."""

    def __init__(self, code: Code, address: ir.Value):
        self.code, self.address = code, address
        self.segment = ENDPOINT.load(code, address, "segment")
        self.rank = ENDPOINT.load(code, address, "rank")

    def line(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's line."""
        code = self.code
        offset = code.add(code.mul(code.zext(rank, I64), i64(RANK.size)), i64(LINE))
        return code.at(self.segment, offset)

    def pair(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """The address of the line of one rank towards another."""
        code = self.code
        start = code.add(code.mul(self._ranks(), i64(RANK.size)), i64(LINE))
        return code.at(self.segment, code.add(start, code.mul(self._pair(one, other), i64(LINE))))

    def part(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's area for its part."""
        return self._area(_number(self.code, rank, 0))

    def reduced(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's area for what it has reduced."""
        return self._area(_number(self.code, rank, 1))

    def slot(self, one: ir.Value, other: ir.Value, number: ir.Value) -> ir.Value:
        """The address of a slot of the mailbox from one rank to another."""
        code = self.code
        slots = ENDPOINT.load(code, self.address, "slots")
        position = code.add(code.mul(self._pair(one, other), slots), code.urem(number, slots))
        behind = self._area(code.mul(self._ranks(), i64(2)))
        return code.at(behind, code.mul(position, i64(SLOT)))

    def _ranks(self) -> ir.Value:
        return self.code.zext(ENDPOINT.load(self.code, self.address, "ranks"), I64)

    def _pair(self, one: ir.Value, other: ir.Value) -> ir.Value:
        code = self.code
        row = code.mul(code.zext(one, I64), self._ranks())
        return code.add(row, code.zext(other, I64))

    def _area(self, number: ir.Value) -> ir.Value:
        code, ranks = self.code, self._ranks()
        pairs = code.mul(code.add(code.mul(ranks, ranks), i64(1)), i64(LINE))
        lines = code.add(pairs, code.mul(ranks, i64(RANK.size)))
        start = code.and_(code.add(lines, i64(PAGE - 1)), i64(-PAGE))
        area = ENDPOINT.load(code, self.address, "area")
        return code.at(self.segment, code.add(start, code.mul(number, area)))


def _number(code: Code, rank: ir.Value, which: int) -> ir.Value:
    """The number of a rank's first or second area."""
    return code.add(code.mul(code.zext(rank, I64), i64(2)), i64(which))
