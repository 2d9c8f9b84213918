"""The weight store: tensors live here by key, beside the IR, which only names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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
            hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            self._digests[key] = hasher.hexdigest()
        return self._digests[key]
