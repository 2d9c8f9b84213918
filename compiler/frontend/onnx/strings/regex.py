"""Regular expressions, in RE2's syntax, as automata.

There are characters, `.`, classes, `\\d \\w \\s` and their opposites (of ASCII, as in RE2), groups,
`|`, repetitions, and the conditions `^`, `$`, `\\b` and `\\B`. Flags, classes by name and Unicode's
properties are refused.
"""

from __future__ import annotations

from weft.compiler.frontend.onnx.strings.automaton import (
    LAST_CODE_POINT,
    Automaton,
    Piece,
    Pieces,
    Ranges,
)
from weft.dialects.errors import ModelError, UnsupportedError

_CLASSES: dict[str, Ranges] = {
    "d": [(48, 57)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "s": [(9, 10), (12, 13), (32, 32)],
}
_CONTROLS = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
MOST_REPEATED = 1000
"""Times that a count of a repetition may say, as in RE2."""


def automaton_of(expression: str) -> Automaton:
    """The automaton of an expression. Raises ModelError for one that is none, UnsupportedError for
    what is not here.
    """
    return _Parser(expression).automaton()


def literal(text: str) -> Automaton:
    """What matches one text."""
    pieces = Pieces()
    whole = pieces.empty()
    for character in text:
        whole = pieces.sequence(whole, pieces.characters(_only(ord(character))))
    return pieces.automaton(whole)


def one_of(ranges: Ranges) -> Automaton:
    """What matches a character of a set."""
    pieces = Pieces()
    return pieces.automaton(pieces.characters(ranges))


def run_of(ranges: Ranges) -> Automaton:
    """What matches one or more characters of a set."""
    pieces = Pieces()
    return pieces.automaton(pieces.repeated(pieces.characters(ranges)))


def complement(ranges: Ranges) -> list[tuple[int, int]]:
    """The code points outside of some ranges."""
    kept: list[tuple[int, int]] = []
    start = 0
    for first, last in sorted(ranges):
        if first > start:
            kept.append((start, first - 1))
        start = max(start, last + 1)
    return [*kept, (start, LAST_CODE_POINT)] if start <= LAST_CODE_POINT else kept


def _only(point: int) -> Ranges:
    return [(point, point)]


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.pieces = Pieces()

    def automaton(self) -> Automaton:
        whole = self._either()
        if self.at < len(self.text):
            raise self._broken()
        return self.pieces.automaton(whole)

    def _broken(self) -> ModelError:
        return ModelError(f"requires a regular expression, got {self.text!r}")

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"requires an expression without {what}, got {self.text!r}")

    def _peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def _take(self, text: str) -> bool:
        found = self._peek(len(text)) == text
        self.at += len(text) * found
        return found

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise self._broken()
        self.at += 1
        return character

    def _either(self) -> Piece:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return self.pieces.either(branches) if len(branches) > 1 else branches[0]

    def _sequence(self) -> Piece:
        whole = self.pieces.empty()
        while self._peek() not in ("", "|", ")"):
            start = self.at
            whole = self.pieces.sequence(whole, self._repeated(start, self._atom()))
        return whole

    def _repeated(self, start: int, piece: Piece) -> Piece:
        """The repetitions behind an atom, which is read again for each of a counted one."""
        end = self.at
        least, most = self._counts()
        if (least, most) == (1, 1) and self.at == end:
            return piece
        self._take("?")  # The longest match is wanted, whatever an expression prefers.
        if self._peek() in ("*", "+", "?"):
            raise self._broken()
        behind = self.at

        def again() -> Piece:
            self.at = start
            copy = self._atom()
            self.at = behind
            return copy

        pieces = self.pieces
        whole = pieces.empty()
        for _ in range(least):
            whole = pieces.sequence(whole, again())
        if most is None:
            return pieces.sequence(whole, pieces.optional(pieces.repeated(again())))
        rest = pieces.empty()
        for _ in range(most - least):
            rest = pieces.optional(pieces.sequence(again(), rest))
        return pieces.sequence(whole, rest)

    def _counts(self) -> tuple[int, int | None]:
        """How often at least and at most; None where nothing bounds it."""
        for sign, counts in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._take(sign):
                return counts
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : max(end, 0)].partition(",")
        if self._peek() != "{" or not least.isdecimal() or not (most or "0").isdecimal():
            return 1, 1
        self.at = end + 1
        bounds = int(least), int(most) if most else None if comma else int(least)
        if not bounds[0] <= (bounds[0] if bounds[1] is None else bounds[1]) <= MOST_REPEATED:
            raise self._broken()
        return bounds

    def _atom(self) -> Piece:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self.pieces.characters(self._class())
        if character == ".":
            return self.pieces.characters(complement([(10, 10)]))
        if character in "^$" or character + self._peek() in ("\\b", "\\B"):
            return self.pieces.condition(character if character != "\\" else self._next())
        if character == "\\":
            return self.pieces.characters(self._escaped())
        if character in "*+?":
            raise self._broken()
        return self.pieces.characters(_only(ord(character)))

    def _group(self) -> Piece:
        if self._take("?P<") or self._take("?<"):
            end = self.text.find(">", self.at)
            if not self.text[self.at : end].isidentifier():
                raise self._refused("looking around")
            self.at = end + 1
        elif not self._take("?:") and self._peek() == "?":
            raise self._refused("flags or looking around")
        inner = self._either()
        if not self._take(")"):
            raise self._broken()
        return inner

    def _class(self) -> Ranges:
        """What stands behind `[`."""
        negated, ranges = self._take("^"), list[tuple[int, int]]()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._peek(2) in ("[:", "[.", "[="):
                raise self._refused("classes by name")
            some = self._member()
            if self._peek() == "-" and self._peek(2) not in ("-]", "-"):
                self.at += 1
                (low, end), *others = some
                (high, last), *more = self._member()
                if others or more or low != end or high != last or high < low:
                    raise self._broken()
                some = [(low, high)]
            ranges += some
        self.at += 1
        return complement(ranges) if negated else ranges

    def _member(self) -> Ranges:
        character = self._next()
        return self._escaped() if character == "\\" else _only(ord(character))

    def _escaped(self) -> Ranges:
        """What stands behind a backslash."""
        character = self._next()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return ranges if character.islower() else complement(ranges)
        if character in _CONTROLS:
            return _only(_CONTROLS[character])
        if character == "x":
            digits = self.text[self.at + 1 : self.text.find("}", self.at)]
            self.at += len(digits) + 2
            if self.text[self.at - len(digits) - 2] != "{":
                self.at -= len(digits) + 2
                digits = self._next() + self._next()
            try:
                return _only(ord(chr(int(digits, 16))))
            except (ValueError, OverflowError):
                raise self._broken() from None
        if character.isalnum():
            raise self._refused(f"\\{character}")
        return _only(ord(character))
