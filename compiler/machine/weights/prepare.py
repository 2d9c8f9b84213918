"""Weights in the layouts that kernels read them in:
each is copied into place when it is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.deferred import deferred
from weft.dialects.weights import BLOCK_BYTES, Array, byte_blocks, release_pages

if TYPE_CHECKING:
    from weft.compiler.machine.weights import lay_out
    from weft.dialects.expr import Expr
else:
    lay_out = deferred("weft.compiler.machine.weights.lay_out")

ALIGNMENT = 64

_SAMPLE_BYTES = 64


class WeightSource(Struct, frozen=True):
    """A weight of the artifact: a tensor of the store,
    and the kernel that brings it into another layout, if any.

    `elements` is what the storage holds, `dtype` NumPy's name of the element type
    (bool and bf16 by their storage).
    """

    key: str
    transform: str | None
    elements: int
    dtype: str

    @property
    def name(self) -> str:
        """A name that tells the derived forms of one tensor apart."""
        return self.key if self.transform is None else f"{self.key}#{self.transform}"


class Slicing(Struct, frozen=True):
    """How a tensor is brought into its layout some rows of storage at a time: `step` indices of the
    dimension `axis` make a row of so many `elements`.
    """

    axis: int
    step: int
    elements: int


class WeightTransform(Struct, frozen=True):
    """Where in zeroed storage the elements of a tensor are: `address` is over their indices; with a
    slicing it holds for some of the tensor at a time. The array that is stored may have another
    shape than the tensor's, `shape`: equal bytes are stored once.
    """

    shape: tuple[int, ...]
    address: Expr
    slicing: Slicing | None


class Weights(Struct, frozen=True):
    """All weights of a compiled model, made on demand; `read` are what its programs read, and
    `sources` these with one for all that are equal.
    """

    read: Sequence[WeightSource]
    sources: Sequence[WeightSource]
    arrays: Mapping[str, Array]
    transforms: Mapping[str, WeightTransform]

    @property
    def digest(self) -> None:
        """Nobody knows it before they have been made."""

    @property
    def whole(self) -> None:
        """They lie nowhere before they have been made."""

    def prepare(self, source: WeightSource) -> Array:
        """The bytes of one weight, dense and in the order that its kernels read."""
        array = self.arrays[source.key]
        if source.transform is None:
            return np.ascontiguousarray(array)
        transform = self.transforms[source.transform]
        target = _aligned_zeros(source.elements, array.dtype)
        lay_out.lay_out(array.reshape(transform.shape), transform.address, target)
        return target

    def pieces(self, source: WeightSource) -> Iterator[Array]:
        """The bytes of one weight, some at a time."""
        array = self.arrays[source.key]
        transform = None if source.transform is None else self.transforms[source.transform]
        slicing = None if transform is None else transform.slicing
        if transform is None or slicing is None:
            yield from byte_blocks(array if transform is None else self.prepare(source))
            release_pages(array)
            return
        array = array.reshape(transform.shape)
        rows = max(1, BLOCK_BYTES // (slicing.elements * array.dtype.itemsize))
        indices = rows * slicing.step
        for start in range(0, array.shape[slicing.axis], indices):
            leading = (slice(None),) * slicing.axis
            part = array[(*leading, slice(start, start + indices))]
            filled = -(-part.shape[slicing.axis] // slicing.step)
            target = np.zeros(filled * slicing.elements, array.dtype)
            lay_out.lay_out(part, transform.address, target)
            yield target.view(np.uint8)
        release_pages(array)

    def bytes(self, source: WeightSource) -> int:
        """The size of one weight in bytes."""
        return source.elements * self.arrays[source.key].dtype.itemsize


def share_equal(weights: Weights) -> Weights:
    """The same weights; forms of one tensor that are equal byte for byte become one source, and so
    do tensors, whatever their element types are.
    """
    of_keys = _shared(weights, lambda source: (source.key, source.elements))
    return _shared(of_keys, lambda source: source if source.transform else _sample(weights, source))


def _shared(weights: Weights, looks: Callable[[WeightSource], Hashable]) -> Weights:
    """One source for all that are equal, of those that look alike."""
    alike: dict[Hashable, list[WeightSource]] = {}
    for source in dict.fromkeys(weights.sources):
        alike.setdefault(looks(source), []).append(source)
    first: dict[WeightSource, WeightSource] = {}
    for group in alike.values():
        same: dict[bytes, WeightSource] = {}
        for source in group:
            digest = _digest(weights, source) if len(group) > 1 else b""
            first[source] = same.setdefault(digest, source)
    return replace(weights, sources=[first[source] for source in weights.sources])


def _sample(weights: Weights, source: WeightSource) -> Hashable:
    """What tensors of equal bytes have in common: how many these are, the first and the last."""
    array = weights.arrays[source.key]
    count = _SAMPLE_BYTES // array.dtype.itemsize
    ends = array.flat[:count], array.flat[max(array.size - count, 0) :]
    return weights.bytes(source), *(end.tobytes() for end in ends)


def _digest(weights: Weights, source: WeightSource) -> bytes:
    digest = hashlib.sha256()
    for piece in weights.pieces(source):
        digest.update(piece.data)
    return digest.digest()


def _aligned_zeros(elements: int, dtype: np.dtype[Any]) -> Array:
    """Zeroed storage on a cache line, so that vector loads from it do not straddle two."""
    size = elements * dtype.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype)
