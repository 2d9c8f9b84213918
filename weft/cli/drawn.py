"""Tables and trees as rich draws them, as text: `show` has the one way to a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from weft.dialects.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_FULL: Final = 8
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_WIDE: Final = 240
"""Columns where nobody says how many there are, as in a file."""


def drawn(content: RenderableType) -> str:
    """What rich draws, without colours: as wide as the terminal, or as it needs to be."""
    from rich.console import Console

    width = get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    lines = Console(width=width, highlight=False).render_lines(content, pad=False)
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def drawn_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: the first column is text, the others are numbers or what is drawn."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(head):
        if number == 0:
            made.add_column(name, overflow="ellipsis", no_wrap=True, min_width=20)
        else:
            made.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return drawn(made)


def shown_share(share: float, columns: int = 10) -> str:
    """A bar of so many columns for 1."""
    eighths = round(min(max(share, 0.0), 1.0) * columns * _FULL)
    whole, rest = divmod(eighths, _FULL)
    return _BLOCKS[-1] * whole + (_BLOCKS[rest] if rest else "")
