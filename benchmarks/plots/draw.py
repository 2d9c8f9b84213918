"""Points and lines -> SVG: a dot plot of ratios, a scatter plot, and groups of bars. Logarithmic
axes, text in the colour of the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from weft.compiler import html

ROW: Final = 14
_LABEL: Final = 220
_PLOT: Final = 460
_TOP: Final = 58
_LETTER: Final = 7
_LINE: Final = 12
"""Pixels of a letter and of a line of text."""

_STYLE: Final = "<style>@media (prefers-color-scheme: dark){svg{color:#ddd}}</style>"

Series = Mapping[str, Mapping[str, float]]
"""By name of a series, numbers by name of a case."""


class Axis:
    """A logarithmic axis of so many pixels over the numbers."""

    def __init__(self, numbers: Sequence[float], pixels: float):
        self.least, self.most = math.log10(min(numbers)) - 0.05, math.log10(max(numbers)) + 0.05
        self.pixels = pixels

    def at(self, number: float) -> float:
        """Where the number is."""
        share = (math.log10(number) - self.least) / (self.most - self.least)
        return share * self.pixels

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each power of ten, as far as the axis goes."""
        powers = range(math.floor(self.least), math.ceil(self.most) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [each for each in found if self.least <= math.log10(each) <= self.most]


def ratios(title: str, series: Series, explained: str) -> str:
    """A row for each case with a dot for each series; a line at 1. Cases are sorted by the mean of
    their logarithms.
    """
    cases = sorted(
        dict.fromkeys(case for numbers in series.values() for case in numbers),
        key=lambda case: -_mean([numbers[case] for numbers in series.values() if case in numbers]),
    )
    axis = Axis([1.0, *(each for numbers in series.values() for each in numbers.values())], _PLOT)
    bottom = _TOP + len(cases) * ROW
    drawn = [_head(title, explained), *_legend(series), *_vertical(axis, bottom)]
    one = _LABEL + axis.at(1.0)
    drawn.append(_line(one, _TOP, one, bottom, 1.0))
    for row, case in enumerate(cases):
        y = _TOP + row * ROW + ROW / 2
        drawn.append(html.text_at(_LABEL - 8, y + 4, case, "end"))
        for number, (name, numbers) in enumerate(series.items()):
            if case in numbers:
                place = _LABEL + axis.at(numbers[case])
                drawn.append(_dot(place, y, number, f"{case}, {name}: {numbers[case]:.2f}"))
    return _page(_LABEL + _PLOT + 30, bottom + 24, drawn)


def scatter(title: str, points: Mapping[str, tuple[float, float]], names: tuple[str, str]) -> str:
    """A dot for each case by two numbers, with its name beside it."""
    height = 300
    across = Axis([x for x, _ in points.values()], _PLOT)
    up = Axis([y for _, y in points.values()], height)
    bottom = _TOP + height
    drawn = [_head(title, f"{names[1]} over {names[0]}"), *_vertical(across, bottom)]
    for tick in up.ticks():
        y = bottom - up.at(tick)
        drawn.append(_line(_LABEL, y, _LABEL + _PLOT, y, 0.15))
        drawn.append(html.text_at(_LABEL - 8, y + 4, f"{tick:g}", "end"))
    taken: list[tuple[float, float, float]] = []
    for case, (x, y) in sorted(points.items(), key=lambda point: -point[1][1]):
        center, level = _LABEL + across.at(x), bottom - up.at(y)
        drawn.append(_dot(center, level, 0, f"{case}: {x:g}, {y:g}"))
        width = _LETTER * len(case)
        begin = center - 6 - width if across.at(x) > _PLOT - 110 else center + 6
        baseline = _free(taken, begin, begin + width, level + 4)
        drawn.append(html.text_at(begin, baseline, case))
    return _page(_LABEL + _PLOT + 30, bottom + 24, drawn)


def _free(
    taken: list[tuple[float, float, float]], begin: float, end: float, baseline: float
) -> float:
    """The first baseline from there downwards on which a text overlaps no other; it is taken."""
    while any(
        begin < right and left < end and abs(baseline - other) < _LINE
        for left, right, other in taken
    ):
        baseline += 1
    taken.append((begin, end, baseline))
    return baseline


def _mean(numbers: Sequence[float]) -> float:
    return sum(map(math.log, numbers)) / len(numbers)


def _head(title: str, explained: str) -> str:
    bold = f'<g font-weight="bold">{html.text_at(8, 18, title)}</g>'
    return bold + html.text_at(8, 36, explained)


def _legend(series: Series) -> list[str]:
    drawn: list[str] = []
    for number, name in enumerate(series):
        x = _LABEL + 150 * number
        drawn += [_dot(x, _TOP - 12, number, name), html.text_at(x + 8, _TOP - 8, name)]
    return drawn


def _vertical(axis: Axis, bottom: float) -> list[str]:
    drawn: list[str] = []
    for tick in axis.ticks():
        x = _LABEL + axis.at(tick)
        drawn.append(_line(x, _TOP, x, bottom, 0.15))
        drawn.append(html.text_at(x, bottom + 14, f"{tick:g}", "middle"))
    return drawn


def _line(x: float, y: float, end_x: float, end_y: float, opacity: float) -> str:
    path = f"M{x:.1f} {y:.1f}L{end_x:.1f} {end_y:.1f}"
    return f'<path d="{path}" stroke="currentColor" stroke-opacity="{opacity}"/>'


def _dot(x: float, y: float, number: int, title: str) -> str:
    colour = html.COLOURS[number % len(html.COLOURS)]
    place = f'cx="{x:.1f}" cy="{y:.1f}"'
    return f'<circle {place} r="3.5" fill="{colour}"><title>{html.escaped(title)}</title></circle>'


def _page(width: int, height: float, drawn: Sequence[str]) -> str:
    return html.svg(width, round(height), [_STYLE, *drawn]) + "\n"
