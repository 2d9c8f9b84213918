"""`weft inspect --roofline`: each kernel between what the machine computes and what it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Final

from weft.bench.limits import Limits
from weft.cli.drawing.drawn import drawn_table, shown_share
from weft.compiler.machine.python.profile import Profile, Row

COLUMNS: Final = 72
LINES: Final = 18
_READ: Final = "read"


def drawn_roofline(profile: Profile, limits: Limits) -> str:
    """A plot of GFLOP/s over flops per byte, both logarithmic: the limit of memory and that of
    multiply-adds, and a letter for each kernel that takes long; then a table of them.
    """
    rows = [row for row in profile.by_kernel() if row.runs and row.flops and row.bytes and row.wall]
    if not rows:
        return "no kernel with flops of a known number"
    named = list(zip(ascii_uppercase, rows, strict=False))
    return f"{_plot(named, limits)}\n{_table(named, profile, limits)}"


def _intensity(row: Row) -> float:
    return (row.flops or 0) / (row.bytes or 1)


def _gflops(row: Row) -> float:
    return (row.flops or 0) / row.wall


class _Axis:
    """A logarithmic axis of so many cells."""

    def __init__(self, numbers: Sequence[float], cells: int):
        self.least = math.log2(min(numbers)) - 0.5
        self.most = math.log2(max(numbers)) + 0.5
        self.cells = cells

    def cell(self, number: float) -> int:
        share = (math.log2(number) - self.least) / (self.most - self.least)
        return min(self.cells - 1, max(0, round(share * (self.cells - 1))))

    def number(self, cell: int) -> float:
        return 2 ** (self.least + (self.most - self.least) * cell / (self.cells - 1))


def _plot(named: Sequence[tuple[str, Row]], limits: Limits) -> str:
    memory = limits.memory_gbs(_READ)
    ridge = limits.gflops / memory
    across = _Axis([*(_intensity(row) for _, row in named), ridge], COLUMNS)
    rates = [min(limits.gflops, across.number(cell) * memory) for cell in range(COLUMNS)]
    up = _Axis([*(_gflops(row) for _, row in named), *rates], LINES)
    cells = [[" "] * COLUMNS for _ in range(LINES)]
    for column, rate in enumerate(rates):
        cells[up.cell(rate)][column] = "─" if rate == limits.gflops else "·"
    for letter, row in reversed(named):
        cells[up.cell(_gflops(row))][across.cell(_intensity(row))] = letter
    lines = [f"{up.number(line):9.4g} │{''.join(cells[line])}".rstrip() for line in range(LINES)]
    ends = f"{across.number(0):.3g}", f"{across.number(COLUMNS - 1):.3g} flop/byte"
    middle = ends[0] + ends[1].rjust(COLUMNS - len(ends[0]))
    title = (
        f"  GFLOP/s   ─ multiply-adds {limits.gflops:.4g}, · memory {memory:.4g} GB/s, "
        f"{limits.threads} thread{'s' if limits.threads > 1 else ''} of {limits.cpu}"
    )
    return "\n".join([title, *reversed(lines), f"{'':9} └{'─' * COLUMNS}", f"{'':11}{middle}"])


def _table(named: Sequence[tuple[str, Row]], profile: Profile, limits: Limits) -> str:
    head = ["kernel", "", "ms", "%", "flop/byte", "GFLOP/s", "% of roofline", ""]
    cells: list[list[str]] = []
    for letter, row in named:
        share = 1e9 * limits.seconds(row.flops or 0, row.bytes or 0) / row.wall
        cells.append(
            [
                row.name,
                letter,
                f"{row.wall / 1e6:.4g}",
                f"{100 * row.wall / profile.median.duration:.1f}",
                f"{_intensity(row):.3g}",
                f"{_gflops(row):.4g}",
                f"{100 * share:.1f}",
                shown_share(share),
            ]
        )
    return drawn_table("", head, cells)
