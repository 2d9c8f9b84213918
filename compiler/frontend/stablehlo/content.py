"""Whether a file or bytes are StableHLO: weft's own graph files have the same suffix."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final, cast

BYTECODE: Final = b"ML\xefR"
"""What MLIR's bytecode begins with."""

_STARTS: Final = (
    b"module",
    b"builtin.module",
    b'"builtin.module"',
    b"func.func",
    b"//",
    b"#",
    b"!",
)
_SUFFIXES: Final = (".mlir", ".stablehlo", ".mlirbc", ".bc")


def is_stablehlo(source: object) -> bool:
    """Whether a model is text or portable bytecode of StableHLO."""
    if isinstance(source, bytes):
        return _is_stablehlo(source)
    if not isinstance(source, str | os.PathLike):
        return False
    path = Path(cast("str | os.PathLike[str]", source))
    if path.suffix not in _SUFFIXES:
        return False
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _is_stablehlo(data)


def _is_stablehlo(data: bytes | mmap.mmap) -> bool:
    if data[:4] == BYTECODE:
        return True
    if not data[:256].lstrip().startswith(_STARTS):
        return False
    return data.find(b"stablehlo.") >= 0 or data.find(b"chlo.") >= 0
