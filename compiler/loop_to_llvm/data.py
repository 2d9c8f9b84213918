"""Bytes that an artifact has inside -> LLVM IR."""

from __future__ import annotations

from typing import Final

import numpy as np

ALIGNMENT: Final = 64

_BYTES: Final = np.array([f"\\{byte:02x}" for byte in range(256)], "S3")


def data_ir(triple: str, name: str, content: bytes) -> str:
    """LLVM IR that defines read-only bytes under a name that the artifact's other objects know."""
    text = _BYTES[np.frombuffer(content, np.uint8)].tobytes().decode()
    kind = f"[{len(content)} x i8]"
    data = f'@"{name}" = hidden constant {kind} c"{text}", align {ALIGNMENT}'
    return f'target triple = "{triple}"\n{data}\n'
