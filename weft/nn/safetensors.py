"""Files of tensors in the format safetensors: the size of a head, the head in JSON, the bytes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.artifact.signature import DTYPES
from weft.compiler.machine.weights.safetensors import CODES, encoded_header, tensor_entry
from weft.dialects.errors import ModelError
from weft.dialects.weights import Array

_DTYPES: Final = {code: DTYPES[name] for name, code in CODES.items()}
_SIZE: Final = struct.Struct("<Q")


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Writes arrays by name; a failure leaves no file."""
    entries: dict[str, Any] = {}
    position = 0
    for name, array in tensors.items():
        end = position + array.nbytes
        entries[name] = tensor_entry(CODES[array.dtype.name], array.shape, position, end)
        position = end
    with replacing(Path(path)) as out:
        out.write(encoded_header(entries, alignment=8))
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
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(data) - start:
        raise ValueError(f"bytes {begin} to {end} of {len(data) - start}")
    return np.frombuffer(data[start + begin : start + end], dtype).reshape(shape).copy()
