"""Bytes that an artifact has inside -> LLVM IR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

ALIGNMENT: Final = 64

_BYTES: Final = np.array([f"\\{byte:02x}" for byte in range(256)], "S3")


def data_ir(triple: str, contents: Mapping[str, bytes]) -> str:
    """LLVM IR that defines read-only bytes under names that the artifact's other objects know."""
    lines = [f'target triple = "{triple}"']
    for name, content in contents.items():
        text = _BYTES[np.frombuffer(content, np.uint8)].tobytes().decode()
        array_type = f"[{len(content)} x i8]"
        lines.append(f'@"{name}" = hidden constant {array_type} c"{text}", align {ALIGNMENT}')
    return "\n".join([*lines, ""])
