"""Texts with places for values, as programs print them: `x = {}, mean {float:.3f}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

_PARTS: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def escaped(text: str) -> str:
    """A text in which braces are no places."""
    return text.replace("{", "{{").replace("}", "}}")


def placeholders(text: str) -> list[str]:
    """What stands in the places of a text."""
    return [each[1] for each in _PARTS.finditer(text) if each[1] is not None]


def filled(text: str, shown: Callable[[int, str], str], braces: str = "{}") -> str:
    """The text with each place replaced by what is shown for its number and content, and `braces`
    for those that are no places.
    """
    numbers = iter(range(len(text)))

    def part(found: re.Match[str]) -> str:
        if found[1] is None:
            return braces[found[0] == "}}"]
        return shown(next(numbers), found[1])

    return _PARTS.sub(part, text)


def annotated(text: str, argument_words: Sequence[str]) -> str:
    """The text with a word in front of what stands in each place: `{float32,2,}`."""
    words = iter(argument_words)

    def part(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else f"{{{next(words)},{found[1]}}}"

    return _PARTS.sub(part, text)
