"""The weight store: tensors live here by key, beside the IR, which only names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import permutations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BLOCK_BYTES: Final = 1 << 22
"""How much of a tensor is handled at a time: it stays in a cache from one step to the next."""

SAMPLE: Final = 64
"""Elements that are compared before all are."""


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

    def transposition(self, key: str, other: str) -> tuple[int, ...] | None:
        """The axes with which the first tensor transposed is the second, None if there are none."""
        array, wanted = self._arrays[key], self._arrays[other]
        if array.dtype != wanted.dtype or array.size != wanted.size or not array.size:
            return None
        for axes in permutations(range(array.ndim)):
            turned = array.transpose(axes)
            if turned.shape == wanted.shape and _have_same_bytes(turned, wanted):
                return axes
        return None


def _have_same_bytes(array: Array, other: Array) -> bool:
    """Whether two arrays of one shape and dtype are the same memory, or the same bytes."""
    one, two = array.__array_interface__, other.__array_interface__
    if one["data"] == two["data"] and array.strides == other.strides:
        return True
    places = np.unravel_index(np.linspace(0, array.size - 1, SAMPLE, dtype=np.int64), array.shape)
    if array[places].tobytes() != other[places].tobytes():
        return False
    rows = max(1, BLOCK_BYTES // array[0].nbytes)
    parts = (slice(start, start + rows) for start in range(0, len(array), rows))
    return all(array[part].tobytes() == other[part].tobytes() for part in parts)


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
