"""Pieces of HTML that notebooks show: escaped text, tables, drawings in SVG and images, without
scripts or anything from elsewhere. Drawings have the page's own colour for text.
"""

from __future__ import annotations

import html
import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from weft.dialects.errors import printable

COLOURS: Final = ("#4477aa", "#cc6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")

_WIDTH: Final = 480
_ROW: Final = 18
_LABEL: Final = 200
_PLOT_HEIGHT: Final = 180
_MOST_POINTS: Final = 400


def escaped(text: object) -> str:
    """Text that a browser shows as it is."""
    return html.escape(printable(text))


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A table of escaped cells."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    inside = "".join(f"<{tag}>{escaped(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inside}</tr>"


def svg(width: int, height: int, content: Sequence[str]) -> str:
    """A drawing of elements."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="sans-serif" font-size="12" fill="currentColor"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(content)}</svg>'


def text_at(x: float, y: float, text: object, anchor: str = "start") -> str:
    """A text in a drawing."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escaped(text)}</text>'


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """A bar for each name and number, and what is written behind it."""
    most = max((number for _, number, _ in rows), default=0) or 1
    room = _WIDTH - _LABEL - 100
    drawn: list[str] = []
    for position, (name, number, shown) in enumerate(rows):
        top, length = position * _ROW, room * number / most
        drawn += [
            text_at(_LABEL - 6, top + 13, name if len(name) < 30 else f"{name[:28]}…", "end"),
            f'<rect x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="{_ROW - 6}" '
            f'fill="{COLOURS[0]}"><title>{escaped(name)}</title></rect>',
            text_at(_LABEL + length + 6, top + 13, shown),
        ]
    return svg(_WIDTH, len(rows) * _ROW, drawn)


def curves(series: Mapping[str, Sequence[float]], along: str) -> str:
    """A line for each series over its positions, from the least to the greatest number; numbers
    that are not finite leave a gap.
    """
    finite = [each for values in series.values() for each in values if math.isfinite(each)]
    longest = max((len(values) for values in series.values()), default=0)
    if not finite:
        return ""
    least, most = min(finite), max(finite)
    left, right, bottom = 70, _WIDTH - 10, _PLOT_HEIGHT - 24
    across = (right - left) / max(1, longest - 1)
    down = (bottom - 10) / ((most - least) or 1.0)
    drawn = [
        f'<path d="M{left} 10V{bottom}H{right}" fill="none" stroke="currentColor"/>',
        text_at(left - 6, 14, f"{most:.4g}", "end"),
        text_at(left - 6, bottom, f"{least:.4g}", "end"),
        text_at(right, bottom + 16, f"{along} {longest - 1}", "end"),
    ]
    for position, (name, values) in enumerate(series.items()):
        colour = COLOURS[position % len(COLOURS)]
        points = [(left + across * n, bottom - down * (v - least)) for n, v in _thinned(values)]
        drawn += [
            f'<path d="{_path(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            f'<g fill="{colour}">{text_at(left + 8 + 110 * position, bottom + 16, name)}</g>',
        ]
    return svg(_WIDTH, _PLOT_HEIGHT, drawn)


def _thinned(values: Sequence[float]) -> list[tuple[int, float]]:
    """At most so many values, with their positions: the first of each stretch, and the last."""
    stride = -(-len(values) // _MOST_POINTS)
    chosen = list(enumerate(values))[:: max(1, stride)]
    if values and chosen[-1][0] != len(values) - 1:
        chosen.append((len(values) - 1, values[-1]))
    return chosen


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Lines between the finite ones."""
    parts: list[str] = []
    command = "M"
    for x, y in points:
        if not math.isfinite(y):
            command = "M"
            continue
        parts.append(f"{command}{x:.1f} {y:.1f}")
        command = "L"
    return "".join(parts)


def image(pixels: bytes, width: int, height: int, channels: int, *, least_side: int = 160) -> str:
    """Bytes of an image as a PNG: 1, 3 or 4 channels, row by row. Small ones are shown larger."""
    colour_type = {1: 0, 3: 2, 4: 6}[channels]
    stride = width * channels
    rows = b"".join(b"\0" + pixels[n * stride : (n + 1) * stride] for n in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(name, content)
        for name, content in ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    )
    scale = max(1, least_side // max(width, height))
    size = f'width="{width * scale}" height="{height * scale}"'
    style = 'style="image-rendering:pixelated"'
    return f'<img {size} {style} src="data:image/png;base64,{b64encode(png).decode()}"/>'


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content)) + name + content
        + struct.pack(">I", zlib.crc32(name + content))
    )  # fmt: skip
