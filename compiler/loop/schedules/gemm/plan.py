"""How a contraction or a window is to be scheduled, as data: what plans are made of, compared by,
stored as and applied from.

    column=1 row=0 panel=1 rows=8 vectors=2 lanes=16 packing=tile per_tile=true
"""

from __future__ import annotations

from typing import Final, Literal, cast

from msgspec import Struct, ValidationError, convert

from weft.dialects.errors import IllegalSchedule

Packing = Literal["none", "stored", "whole", "flat", "tile", "strided"]
"""What becomes of the operand that the columns index: it stays as it is; is a weight, `stored` in
panels before all calls; is packed as a `whole` in front of the product, or so with two of its dims
as one, `flat`; or a panel at a time by the thread that reads it, where it is contiguous, by each
`tile` of columns, or where it is `strided`.
"""

LONGEST_SUM: Final = 160
"""Terms that are added one after the other: 16 channels of 3 x 3 taps, for one. Adding a block's
accumulators to those of the others takes as long as about four more terms; longer sums lose more
digits than the best peers do.
"""


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The register tile, its place in the problem, and what happens around it.

    `column` is the position of the loop that becomes the vector, `row` that of the one that is
    tiled beside it, None where each tile has one row; `batch` those of loops that index both
    operands, which stay around all others. `panel` is the factor that the columns index, if it may
    be packed. A tile has `rows` by `vectors` of so many `lanes`; the rows of a `narrow` one load no
    vector in common. Sums of more than `sum_block` terms are added in blocks of so many; of a
    factor that no cache holds a panel is packed `k_block` terms at a time.
    """

    column: int
    row: int | None = None
    batch: tuple[int, ...] = ()
    panel: int | None = None
    rows: int = 1
    vectors: int = 1
    lanes: int = 1
    narrow: bool = False
    packing: Packing = "none"
    group: int | None = None
    """Columns of a group, in each of which panels start anew; None where all are one group."""
    per_tile: bool = False
    """Whether a thread computes all rows with a panel, of which it fetches the next ones."""
    k_block: int | None = None
    column_block: int | None = None
    """Packed panels that a block of rows is computed with k_block terms at a time, one after
    another.
    """
    row_block: int | None = None
    """Iterations of the outermost loop over rows in such a block; None for all of them."""
    sum_block: int = LONGEST_SUM
    widened_panel: bool = False
    """Whether the copy of the panel has the type of the accumulators; of a weight, whose panels are
    stored, whether a thread that multiplies one makes such a copy.
    """
    widened_rows: bool = False
    """Whether the rows are copied in the type of the accumulators."""
    packed_rows: bool = False
    """Whether transposed rows are packed a tile at a time, for all columns at once."""
    streamed: bool = False
    """Whether one row reads a matrix of long rows a few of its rows at a time."""
    prefetched: bool = False
    """Whether the next panel of a weight, or what the next one is packed of, is prefetched."""
    terms: int = 1
    """Terms of a sum that one instruction adds up: those of the innermost reduction."""
    matrix: int | None = None
    """Words along a sum of which registers hold tiles that one instruction multiplies, where it
    does that with matrices; those of a tile of few rows are multiplied in each lane all the same.
    """
    shared: bool = False
    """Whether tiles of rows of all sizes are computed with a panel before the next one."""

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def copies_panels(self) -> bool:
        """Whether a thread copies each panel that it multiplies, contiguous there, to its stack."""
        return self.packing == "tile" or (self.packing == "stored" and self.widened_panel)

    @property
    def has_rows(self) -> bool:
        """Whether a tile has a loop over rows, be it of one."""
        return self.row is not None

    def __str__(self) -> str:
        """The fields that are not as by default: `column=1 row=0 panel=1 rows=6 vectors=2`."""
        default = Plan(column=-1)
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return " ".join(
            f"{name}={_shown(value)}" for name, value in fields if value != getattr(default, name)
        )


def parse_plan(text: str) -> Plan:
    """The plan that a text is of. Raises IllegalSchedule."""
    fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
    values = {name: each.split(",") if name == "batch" else each for name, each in fields.items()}
    try:
        return convert(values, Plan, strict=False)
    except ValidationError as problem:
        raise IllegalSchedule(f"a plan requires NAME=VALUE ..., got {text}: {problem}") from problem


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, cast(tuple[int, ...], value)))
    return str(value).lower()
