"""Files of tensors in the format safetensors: the size of a head, the head in JSON, the bytes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from compiler.machine.artifact.replace_file import replacing
from dialects.errors import ModelError
from dialects.weights import Array

_CODES: Final = {
    "BOOL": np.dtype(np.bool_), "I8": np.dtype(np.int8), "U8": np.dtype(np.uint8),
    "I16": np.dtype(np.int16), "U16": np.dtype(np.uint16), "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32), "I64": np.dtype(np.int64), "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32), "F64": np.dtype(np.float64),
}  # fmt: skip
_NAMES: Final = {dtype: code for code, dtype in _CODES.items()}
_SIZE: Final = struct.Struct("<Q")


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Writes arrays by name; a failure leaves no file."""
    head: dict[str, Any] = {}
    position = 0
    for name, array in tensors.items():
        end = position + array.nbytes
        code = _NAMES[array.dtype]
        head[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with replacing(Path(path)) as out:
        out.write(_SIZE.pack(len(text)) + text)
        for array in tensors.values():
            out.write(array.tobytes())


def read_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a file by name. Raises ModelError for any other file."""
    try:
        data = Path(path).read_bytes()
        (size,) = _SIZE.unpack_from(data)
        head = json.loads(data[8 : 8 + size])
        return {
            name: _tensor(data, 8 + size, entry)
            for name, entry in head.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelError(f"{path} requires tensors as safetensors has them, got {error}") from error


def _tensor(data: bytes, start: int, entry: Mapping[str, Any]) -> Array:
    dtype, shape = _CODES[entry["dtype"]], tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(data) - start:
        raise ValueError(f"bytes {begin} to {end} of {len(data) - start}")
    return np.frombuffer(data[start + begin : start + end], dtype).reshape(shape).copy()
