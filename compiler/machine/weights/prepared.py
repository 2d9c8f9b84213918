"""The weights of a compiled model one after the other, as an artifact stores them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

import numpy as np

from weft.compiler.deferred import deferred
from weft.compiler.machine.weights.blob import LARGE, HashingFile, WeightBlob
from weft.compiler.machine.weights.prepare import ALIGNMENT, WeightSource
from weft.dialects.weights import Array, release_pages

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = deferred("concurrent.futures")


_STORED: Final = 1 << 26
"""Bytes of stored weights that are in memory at a time."""


class PreparedWeights(Protocol):
    """The weights of a compiled model as its kernels read them: made on demand, or stored."""

    @property
    def sources(self) -> Sequence[WeightSource]:
        """What there is, in the order of the artifact's table."""
        ...

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of all weights as they lie one after the other, where that is known."""
        ...

    @property
    def whole(self) -> memoryview | None:
        """All weights one after the other, each on a cache line, if they are stored so already."""
        ...

    def prepare(self, source: WeightSource) -> Array:
        """One weight, dense and in the order that its kernels read."""
        ...

    def pieces(self, source: WeightSource) -> Iterator[Array]:
        """The bytes of one weight, some at a time."""
        ...

    def bytes(self, source: WeightSource) -> int:
        """The size of one weight in bytes."""
        ...


def prepared_blobs(weights: PreparedWeights, symbol: str) -> tuple[WeightBlob, ...]:
    """All weights as one blob, each on a cache line; nothing where there are none."""
    size = sum(_aligned(weights.bytes(source)) for source in dict.fromkeys(weights.sources))
    blob = WeightBlob(symbol, size, ALIGNMENT, partial(_write_weights, weights), weights.digest)
    return (blob,) if weights.sources else ()


def empty_blobs(weights: PreparedWeights, symbol: str) -> tuple[WeightBlob, ...]:
    """A blob that stands for the weights of code which is given them when it runs."""
    blob = WeightBlob(symbol, ALIGNMENT, ALIGNMENT, _write_nothing)
    return (blob,) if weights.sources else ()


def _write_nothing(out: BinaryIO) -> None:
    out.write(bytes(ALIGNMENT))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def weight_offsets(weights: PreparedWeights) -> list[int]:
    """Where each weight starts in the blob, in bytes; equal ones are there once."""
    offsets: dict[WeightSource, int] = {}
    position = 0
    for source in dict.fromkeys(weights.sources):
        offsets[source] = position
        position += _aligned(weights.bytes(source))
    return [offsets[source] for source in weights.sources]


def _write_weights(weights: PreparedWeights, out: BinaryIO) -> None:
    if weights.whole is not None:
        stored = np.frombuffer(weights.whole, np.uint8)
        for start in range(0, stored.size, _STORED):
            part = stored[start : start + _STORED]
            out.write(part.data)
            release_pages(part)
        return
    pieces = _all_pieces(weights)
    size = sum(weights.bytes(source) for source in weights.sources)
    for piece in _prefetched(pieces) if size >= LARGE else pieces:
        out.write(piece.data)


def _all_pieces(weights: PreparedWeights) -> Iterator[Array]:
    for source in dict.fromkeys(weights.sources):
        yield from weights.pieces(source)
        size = weights.bytes(source)
        yield np.zeros(_aligned(size) - size, np.uint8)


def _prefetched(pieces: Iterator[Array]) -> Iterator[Array]:
    """The same pieces; another thread makes the next one meanwhile."""
    with futures.ThreadPoolExecutor(1) as maker:
        coming = maker.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = maker.submit(next, pieces, None)
            yield piece


def weights_digest(weights: PreparedWeights) -> str:
    """The SHA-256 of all weights as they lie one after the other, each on a cache line."""
    with open(os.devnull, "wb") as nowhere:
        file = HashingFile(nowhere)
        _write_weights(weights, cast("BinaryIO", file))
    return file.digest().hex()
