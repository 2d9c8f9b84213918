"""One call on all ranks, beside one another: what each did when, as text."""

from __future__ import annotations

from typing import Final

from weft.cli.drawing.drawn import drawn_table
from weft.compiler.abi.constants import SpanNumber
from weft.compiler.machine.python.profile import Profile
from weft.compiler.machine.python.spans import Span
from weft.distributed.profiles import RankProfiles

_COLUMNS: Final = 72
_KERNEL, _TOGETHER, _BETWEEN, _NOTHING = "#", "=", ".", " "


def drawn_ranks(found: RankProfiles) -> str:
    """A strip of time for each rank, and what ranks did together, with the milliseconds that it
    took each: waiting for the others included.
    """
    profiles, starts = found.profiles, found.offsets
    whole = max(start + each.median.duration for start, each in zip(starts, profiles, strict=True))
    strips = [
        [
            f"rank {rank}",
            *(_milliseconds(_total(each, glyph)) for glyph in (_KERNEL, _TOGETHER, _BETWEEN)),
            _strip(each, start, whole),
        ]
        for rank, (each, start) in enumerate(zip(profiles, starts, strict=True))
    ]
    head = ["rank", f"kernels {_KERNEL}", f"together {_TOGETHER}", f"between {_BETWEEN}"]
    title = f"{profiles[0].prefix} on {len(profiles)} ranks, ms"
    tables = [drawn_table(title, [*head, f"{_milliseconds(whole)} ms"], strips)]
    names = list(dict.fromkeys(name for each in profiles for name in each.together))
    rows = [[name, *(_milliseconds(_named(each, name)) for each in profiles)] for name in names]
    if rows:
        ranks = [f"rank {rank}" for rank in range(len(profiles))]
        tables.append(drawn_table("together, ms", ["what", *ranks], rows))
    return "\n".join(tables)


def _glyph_of(span: Span) -> str:
    if span.number >= 0:
        return _KERNEL
    return _TOGETHER if span.number <= SpanNumber.RANKS else _BETWEEN


def _own(profile: Profile) -> list[Span]:
    """The spans of the thread that called: they leave no gap."""
    return [span for span in profile.median.spans if span.thread == 0]


def _total(profile: Profile, glyph: str) -> int:
    return sum(span.end - span.begin for span in _own(profile) if _glyph_of(span) == glyph)


def _named(profile: Profile, name: str) -> int:
    spans = (span for span in _own(profile) if profile.name(span) == name)
    return sum(span.end - span.begin for span in spans)


def _strip(profile: Profile, start: int, whole: int) -> str:
    """For each column of time what most of it was."""
    glyphs = (_NOTHING, _KERNEL, _TOGETHER, _BETWEEN)
    shares: list[dict[str, int]] = [dict.fromkeys(glyphs, 0) for _ in range(_COLUMNS)]
    width = max(1, -(-whole // _COLUMNS))
    for span in _own(profile):
        begin, end = span.begin + start, span.end + start
        for column in range(begin // width, min(_COLUMNS - 1, end // width) + 1):
            inside = min(end, (column + 1) * width) - max(begin, column * width)
            shares[column][_glyph_of(span)] += max(0, inside)
    for column in shares:
        column[_NOTHING] = width - sum(column.values())
    return "".join(max(column, key=lambda glyph: column[glyph]) for column in shares)


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3f}"
