"""The one way from a command to standard output and standard error: nothing that a name or a file
holds reaches a terminal as a code that it obeys.
"""

from __future__ import annotations

import sys
from typing import TextIO

from weft.dialects.errors import printable_lines


def show(text: object, end: str = "\n") -> None:
    """Writes to standard output."""
    _write(text, end, sys.stdout)


def tell(text: object) -> None:
    """Writes to standard error."""
    _write(text, "\n", sys.stderr)


def _write(text: object, end: str, stream: TextIO) -> None:
    """Characters that the stream cannot encode are escaped too."""
    encoding = stream.encoding or "utf-8"
    shown = f"{printable_lines(text)}{end}"
    stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
