"""`print` for tensors without values: compiled programs print them when they run."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from weft.array.operators import users_line
from weft.dialects.errors import WeftError
from weft.dialects.printed import escaped
from weft.tracing.traced import Traced


class Text(Struct, frozen=True, eq=False):
    """A text with places for values that only a call knows, such as `f"{x:.3f}"`."""

    text: str
    values: tuple[Traced, ...] = ()

    @staticmethod
    def joined(parts: Sequence[Text], between: str = "") -> Text:
        """Texts one after the other."""
        text = escaped(between).join(part.text for part in parts)
        return Text(text, tuple(value for part in parts for value in part.values))

    @staticmethod
    def of(value: Any, conversion: str = "", spec: str = "") -> Text:
        """A value as `str`, `repr` (`r`) or a format shows it."""
        if isinstance(value, Text):
            return value
        if isinstance(value, Traced):
            conversion_name = value.python_type_name or conversion
            return Text(
                f"{{{conversion_name}:{spec}}}" if spec else f"{{{conversion_name}}}", (value,)
            )
        if any(True for _ in traced_in(value)):
            return Text.joined([*_shown(value)])
        shown = repr(value) if conversion == "r" else format(value, spec)
        return Text(escaped(shown))


def _shown(value: Any) -> Iterator[Text]:
    """A container that holds tensors, as `repr` shows it."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        parts = [Text.joined([Text(escaped(f"{key!r}: ")), Text.of(each, "r")])
                 for key, each in pairs]  # fmt: skip
        begin, end = "{", "}"
    else:
        values = cast("Sequence[Any]", value)
        parts = [Text.of(each, "r") for each in values]
        begin, end = ("[", "]") if isinstance(value, list) else ("(", ",)"[len(parts) > 1 :])
    yield Text(escaped(begin))
    yield Text.joined(parts, ", ")
    yield Text(escaped(end))


def traced_in(value: Any) -> Iterator[Traced]:
    """The tensors without values in a value, those inside of texts, lists, tuples and dicts too."""
    if isinstance(value, Traced):
        yield value
    elif isinstance(value, Text):
        yield from value.values
    elif isinstance(value, list | tuple):
        for each in cast("Sequence[Any]", value):
            yield from traced_in(each)
    elif type(value) is dict:
        for each in cast("dict[Any, Any]", value).values():
            yield from traced_in(each)


def print(*values: Any, sep: str = " ", end: str = "\n") -> None:
    """Prints values as Python's `print` does. Of a tensor that is being traced or compiled, every
    call prints the value when the program gets there, in the order of the program.
    """
    traced = next(traced_in(values), None)
    if traced is None:
        builtins.print(*values, sep=sep, end=end)
        return
    text = Text.joined([Text.joined([Text.of(value) for value in values], sep), Text(escaped(end))])
    if any(each.recording is not traced.recording for each in text.values):
        raise WeftError(f"{users_line()}: print requires tensors of one trace, got two")
    traced.recording.print(text.text, text.values)
