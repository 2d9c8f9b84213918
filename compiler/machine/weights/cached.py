"""Weights as the cache stores them: already in the layouts that kernels read, in a mapped file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.compiler.machine.artifact.signature import DTYPES
from weft.compiler.machine.weights.prepare import ALIGNMENT, WeightSource
from weft.dialects.weights import Array, byte_blocks


class StoredWeights:
    """Weights that are in `data` one after the other, each on a cache line, equal ones once;
    `digest` is the SHA-256 of that, and `whole` all of it.
    """

    def __init__(self, sources: Sequence[WeightSource], data: memoryview, digest: bytes):
        self.sources = sources
        self.digest = digest
        self._data: dict[WeightSource, memoryview] = {}
        position = 0
        for source in dict.fromkeys(sources):
            position += -position % ALIGNMENT
            self._data[source] = data[position : position + self.bytes(source)]
            position += self.bytes(source)
        self.whole = data[: position + -position % ALIGNMENT]

    def prepare(self, source: WeightSource) -> Array:
        """One weight where it is stored: read-only, and no page of it is touched."""
        return np.frombuffer(self._data[source], np.uint8).view(_dtype(source))

    def pieces(self, source: WeightSource) -> Iterator[Array]:
        """The bytes of one weight, some at a time."""
        return byte_blocks(np.frombuffer(self._data[source], np.uint8))

    def bytes(self, source: WeightSource) -> int:
        """The size of one weight in bytes."""
        return source.elements * _dtype(source).itemsize


def _dtype(source: WeightSource) -> np.dtype[Any]:
    return DTYPES[source.dtype]
