"""Numbers and rows for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.dialects.errors import printable

_PREFIXES: Final = ("", "k", "M", "G", "T")


def table(rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Rows as lines of aligned columns: numbers to the right, text to the left."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for row, shown in zip(rows, cells, strict=True):
        padded = (
            text.rjust(width) if isinstance(cell, (int, float)) else text.ljust(width)
            for cell, text, width in zip(row, shown, widths, strict=True)
        )
        lines.append(f"{indent}{'  '.join(padded)}".rstrip())
    return "\n".join(lines)


def shown_bytes(size: int | str) -> str:
    """`4.9 MB`; a size that depends on symbols stays the expression that it is."""
    return f"{size} B" if isinstance(size, str) else _scaled(size, "B")


def shown_flops(count: int | str) -> str:
    """`1.2 Gflop`, or the expression."""
    return f"{count} flop" if isinstance(count, str) else _scaled(count, "flop")


def _scaled(number: float, unit: str) -> str:
    power = 0
    while number >= 1000 and power < len(_PREFIXES) - 1:
        number /= 1000
        power += 1
    digits = f"{number:.3g}" if number < 1000 else f"{number:.0f}"
    return f"{digits} {_PREFIXES[power]}{unit}"
