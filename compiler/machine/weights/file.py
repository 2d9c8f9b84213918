"""Weights beside an artifact: a file in the format of safetensors, which holds them in the layouts
that kernels read, and which is mapped.

    size of the header (8 bytes), header (JSON, spaces), each weight on a cache line

The header says where each weight lies, and in `__metadata__` the SHA-256 of all that follows it.
Tensors of that format touch, so what lies between two weights is one as well.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.compiler.machine.weights.prepare import ALIGNMENT
from weft.compiler.machine.weights.safetensors import CODES, encoded_header, tensor_entry
from weft.dialects.errors import ArtifactError
from weft.dialects.weights import Array

SUFFIX: Final = ".safetensors"
EMBEDDED, FILE, CALLER = "embedded", "file", "caller"
WEIGHT_LOCATIONS: Final = (EMBEDDED, FILE, CALLER)
"""Where the weights of an artifact are: inside, in a file beside it, or with whoever calls it."""

_BLOCK: Final = 1 << 20
_BYTES: Final = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4} | dict.fromkeys(
    ("F16", "BF16", "I16", "U16"), 2
)


def data_bytes(weights: Sequence[Mapping[str, Any]]) -> int:
    """The bytes that follow the header, of weights as the metadata of an artifact list them."""
    end = max((each["offset"] + each["bytes"] for each in weights), default=0)
    return -(-end // ALIGNMENT) * ALIGNMENT


def file_header(metadata: Mapping[str, Any]) -> bytes:
    """The header, whose size is a multiple of a cache line, of an artifact with that metadata."""
    tensors: dict[str, Any] = {"__metadata__": {"sha256": metadata["weights_sha256"]}}
    weights = list({each["name"]: each for each in metadata["weights"]}.values())
    ends = [*(each["offset"] for each in weights[1:]), data_bytes(weights)]
    for number, (each, end) in enumerate(zip(weights, ends, strict=False)):  # there may be none
        dtype = CODES.get(each["dtype"], "U8")
        start, stop = each["offset"], each["offset"] + each["bytes"]
        elements = each["bytes"] // _BYTES.get(dtype, 1)
        tensors[_free(each["name"], tensors)] = tensor_entry(dtype, (elements,), start, stop)
        if stop < end:
            padding = _free(f"weft.padding.{number}", tensors)
            tensors[padding] = tensor_entry("U8", (end - stop,), stop, end)
    return encoded_header(tensors, ALIGNMENT)


def _free(name: str, taken: Container[str]) -> str:
    """The name, with quotes behind it as long as it is taken, as `__metadata__` is."""
    return _free(f"{name}'", taken) if name in taken else name


def map_weights(path: Path, metadata: Mapping[str, Any]) -> list[Array]:
    """The bytes of each weight where they are stored in the file, none of which is read.

    Raises ArtifactError unless size and header are those of the artifact's own weights.
    """
    header, size = file_header(metadata), data_bytes(metadata["weights"])
    try:
        with path.open("rb") as file:
            got = file.seek(0, 2)
            file.seek(0)
            same = file.read(len(header)) == header
            if got != len(header) + size:
                expected = f"{len(header) + size} bytes of weights"
                raise ArtifactError(f"{path} requires {expected}, got {got}")
            if not same:
                rule = "the weights that the artifact was compiled with"
                raise ArtifactError(f"{path} requires {rule}, got a header of others")
            data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        rule = "requires a readable file of weights"
        raise ArtifactError(f"{path} {rule}, got {error.strerror}") from error
    starts = [len(header) + each["offset"] for each in metadata["weights"]]
    sizes = [each["bytes"] for each in metadata["weights"]]
    return [data[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def check_weights_file(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raises ArtifactError unless the file holds the artifact's weights, to the last byte."""
    map_weights(path, metadata)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(len(file_header(metadata)))
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != metadata["weights_sha256"]:
        rule = "the weights that the artifact was compiled with"
        raise ArtifactError(f"{path} requires {rule}, got others than their digest tells")
