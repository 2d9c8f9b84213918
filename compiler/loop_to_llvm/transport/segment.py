"""The memory that ranks share: what each shows to the others, and where it puts its values.

head              the rank that is lost
a line per rank   how often it has arrived, whom it waits for, the tag of its collective
areas per rank    one for its part, one for what it has reduced
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

RANK: Final = Struct(
    LINE,
    arrived=Field(I32, 0),
    sleepers=Field(I32, 4),
    left=Field(I32, 8),
    waits=Field(I32, 12),
    tag=Field(I64, 16),
)
"""`left` says that a rank has ended, `waits` is 1 + the rank that it waits for."""

ENDPOINT: Final = Struct(
    40,
    segment=Field(POINTER, 0),
    rank=Field(I32, 8),
    ranks=Field(I32, 12),
    area=Field(I64, 16),
    limit=Field(I64, 24),
    spins=Field(I64, 32),
)
"""A rank's own: the segment, bytes of an area, and nanoseconds that it waits for another."""


def areas_start(ranks: int) -> int:
    """The bytes in front of the areas."""
    return -(-(LINE * (1 + ranks)) // PAGE) * PAGE


def segment_bytes(ranks: int, area: int) -> int:
    """The bytes of a segment."""
    return areas_start(ranks) + 2 * ranks * area


class Endpoint:
    """A rank's view of the segment, in the code of a function."""

    def __init__(self, code: Code, address: ir.Value):
        self.code, self.address = code, address
        self.segment = ENDPOINT.load(code, address, "segment")
        self.rank = ENDPOINT.load(code, address, "rank")

    def line(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's line."""
        code = self.code
        offset = code.add(code.mul(code.zext(rank, I64), i64(LINE)), i64(LINE))
        return code.at(self.segment, offset)

    def part(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's area for its part."""
        return self._area(rank, 0)

    def reduced(self, rank: ir.Value) -> ir.Value:
        """The address of a rank's area for what it has reduced."""
        return self._area(rank, 1)

    def _area(self, rank: ir.Value, which: int) -> ir.Value:
        code = self.code
        ranks = code.zext(ENDPOINT.load(code, self.address, "ranks"), I64)
        lines = code.mul(code.add(ranks, i64(1)), i64(LINE))
        start = code.and_(code.add(lines, i64(PAGE - 1)), i64(-PAGE))
        number = code.add(code.mul(code.zext(rank, I64), i64(2)), i64(which))
        area = ENDPOINT.load(code, self.address, "area")
        return code.at(self.segment, code.add(start, code.mul(number, area)))
