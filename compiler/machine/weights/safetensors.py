"""Headers of files in the format of safetensors: their size in 8 bytes, JSON, and spaces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

CODES: Final = {
    "bool": "BOOL", "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip
"""What the format calls a dtype."""


def tensor_entry(code: str, shape: Sequence[int], start: int, end: int) -> dict[str, Any]:
    """What a header says of one tensor, whose bytes are from `start` to `end` behind it."""
    return {"dtype": code, "shape": [*shape], "data_offsets": [start, end]}


def encoded_header(entries: Mapping[str, Any], alignment: int) -> bytes:
    """A header with these entries by the names of tensors, of a multiple of `alignment` bytes."""
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % alignment)
    return len(text).to_bytes(8, "little") + text
