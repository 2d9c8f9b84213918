"""The weight store: tensors live here by key, beside the IR, which only names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BLOCK_BYTES: Final = 1 << 22
"""How much of a tensor is handled at a time: it stays in a cache from one step to the next."""


class WeightStore:
    """Logical tensors by key. Arrays are kept as they come (memory maps
    stay maps) and are never written.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._digests: dict[str, str] = {}

    def add(self, name: str, array: Array) -> str:
        """Stores an array; returns its key: the name, made unique where another array has it."""
        key, attempt = name, 0
        while key in self._arrays:
            if self._arrays[key] is array:
                return key
            attempt += 1
            key = f"{name}.{attempt}"
        self._arrays[key] = array
        return key

    def __getitem__(self, key: str) -> Array:
        return self._arrays[key]

    def __contains__(self, key: str) -> bool:
        return key in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def digest(self, key: str) -> str:
        """SHA-256 of the dtype and the bytes of a tensor, whatever its shape."""
        if key not in self._digests:
            array = self._arrays[key]
            hasher = hashlib.sha256(f"{array.dtype.str}{array.dtype.name}".encode())
            for block in byte_blocks(array):
                hasher.update(block.data)
            self._digests[key] = hasher.hexdigest()
        return self._digests[key]


def byte_blocks(array: Array) -> Iterator[Array]:
    """The bytes of an array in row-major order, at most BLOCK_BYTES at a time: views of it where it
    lies in that order, so that a large transpose is never copied whole.
    """
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, BLOCK_BYTES):
            yield flat[start : start + BLOCK_BYTES]
        return
    rows = BLOCK_BYTES // array[0].nbytes
    for start in range(0, len(array), max(rows, 1)):
        part = array[start : start + rows] if rows else array[start]
        yield from byte_blocks(np.ascontiguousarray(part) if rows else part)
