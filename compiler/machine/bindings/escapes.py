"""Text of any characters -> the languages of generated files: one function for each language, whose
result is safe as a literal and within a comment.

All of them give printable ASCII: no control character, no line end, no trigraph and no character
that changes the direction of text reaches a compiler, an editor or a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def c_literal(text: str) -> str:
    """A string literal of C99 and C++, of the text's UTF-8 bytes. No trigraph is in it, and no
    comment begins or ends in it.
    """
    escaped = (
        chr(byte) if _is_plain(chr(byte), '"\\?') else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{"".join(escaped)}"'.replace("/*", "/\\052").replace("*/", "*\\057")


def python_literal(text: str) -> str:
    """A string literal of Python, with no quote of either kind inside."""
    return _quoted(text, "\"'\\", _code_point)


def rust_literal(text: str) -> str:
    """A string literal of Rust."""
    return _quoted(text, '"\\', lambda each: f"\\u{{{ord(each):x}}}")


def go_literal(text: str) -> str:
    """An interpreted string literal of Go."""
    return _quoted(text, '"\\', _code_point)


def cmake_literal(text: str) -> str:
    """A quoted argument of CMake. It has no escapes for what is no printable ASCII, so the text of
    Python's escapes stands for it.
    """
    return _quoted(
        text, '"\\$@', lambda each: f"\\{each}" if " " <= each <= "~" else f"\\{ascii(each)[1:-1]}"
    )


def pkg_config_text(text: str) -> str:
    """The rest of a line of a pkg-config file. What means something there has no escape that all
    readers of such files know, so `_` stands for it.
    """
    return re.sub(r"[^A-Za-z0-9_.+,:() -]", "_", text)


def _is_plain(character: str, special: str) -> bool:
    return " " <= character <= "~" and character not in special


def _quoted(text: str, special: str, escape: Callable[[str], str]) -> str:
    """The text in double quotes, with escapes for what is special or no printable ASCII."""
    return f'"{"".join(e if _is_plain(e, special) else escape(e) for e in text)}"'


def _code_point(character: str) -> str:
    return f"\\U{ord(character):08x}"
