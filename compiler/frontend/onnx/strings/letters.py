"""Lower and upper case: of each code point the one that Unicode's simple mappings give.

A mapping to several code points, such as that of `ß` to `SS`, is none of these.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.dialects.weights import Array

PAGE = 256
"""Code points that are looked up together."""

LAST = 0x10FFFF
_LAST_MAPPED = 0x1FFFF


def simple(character: str, action: str) -> str:
    """A character in the case of the action, LOWER or UPPER."""
    if action == "LOWER":
        return (
            character.lower()[0] if character == "\u0130" else _single(character.lower(), character)
        )
    return _single(character.upper(), _single(character.title(), character))


def _single(mapped: str, otherwise: str) -> str:
    return mapped if len(mapped) == 1 else otherwise


def changed(text: str, action: str) -> str:
    """A text in the case of the action; as it is for others, such as NONE."""
    if action not in ("LOWER", "UPPER"):
        return text
    return "".join(simple(character, action) for character in text)


@cache
def tables(action: str) -> tuple[Array, Array]:
    """For each page of code points where its differences start, and these; the last page is that of
    all others, which stay as they are.
    """
    points = range(_LAST_MAPPED + 1)
    differences = np.array(
        [ord(simple(chr(point), action)) - point for point in points], np.int32
    ).reshape(-1, PAGE)
    changes = differences.any(1)
    pages = np.where(changes, np.cumsum(changes) - 1, changes.sum())
    kept = np.concatenate([differences[changes], np.zeros((1, PAGE), np.int32)])
    return (np.append(pages, changes.sum()) * PAGE).astype(np.int32), kept.reshape(-1)
