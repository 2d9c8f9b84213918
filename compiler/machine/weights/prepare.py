"""Weights in the layouts that kernels read them in:
prepared by running the transforms' own kernels on this machine.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.machine.codegen.jit import LoadedCode
from weft.dialects.weights import BLOCK_BYTES, Array, byte_blocks

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
    dimension `axis` make a row of so many `elements`. The array that is stored may have another
    shape than the tensor's, `shape`: equal bytes are stored once.
    """

    shape: tuple[int, ...]
    axis: int
    step: int
    elements: int


class WeightTransform(Struct, frozen=True):
    """The symbol of `void transform(context, const source, target)`, which writes to zeroed
    storage; with a slicing, how many indices the source has comes behind the context.
    """

    symbol: str
    slicing: Slicing | None


class WeightTransforms(Struct, frozen=True):
    """Transforms in this process, by the names that weights have for them."""

    code: LoadedCode | None
    each: Mapping[str, WeightTransform]

    def apply(self, name: str, source: Array, target: Array) -> None:
        """Brings a tensor, or with a slicing some of it, into zeroed storage."""
        assert self.code is not None, "a derived weight has a compiled transform"
        transform = self.each[name]
        dense = np.ascontiguousarray(source)
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        positions = dense.ctypes.data, target.ctypes.data
        address = self.code.address(transform.symbol)
        if transform.slicing is None:
            ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(address)(None, *positions)
            return
        function = ctypes.CFUNCTYPE(None, pointer, size, pointer, pointer)(address)
        function(None, source.shape[transform.slicing.axis], *positions)


class Weights(Struct, frozen=True):
    """All weights of a compiled model, made on demand."""

    sources: Sequence[WeightSource]
    arrays: Mapping[str, Array]
    transforms: WeightTransforms

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
        slicing = self.transforms.each[source.transform].slicing
        shaped = array if slicing is None else array.reshape(slicing.shape)
        target = _aligned_zeros(source.elements, array.dtype)
        self.transforms.apply(source.transform, shaped, target)
        return target

    def pieces(self, source: WeightSource) -> Iterator[Array]:
        """The bytes of one weight, some at a time."""
        array, name = self.arrays[source.key], source.transform
        slicing = None if name is None else self.transforms.each[name].slicing
        if name is None or slicing is None:
            yield from byte_blocks(array if name is None else self.prepare(source))
            return
        array = array.reshape(slicing.shape)
        rows = max(1, BLOCK_BYTES // (slicing.elements * array.dtype.itemsize))
        indices = rows * slicing.step
        for start in range(0, array.shape[slicing.axis], indices):
            leading = (slice(None),) * slicing.axis
            part = array[(*leading, slice(start, start + indices))]
            filled = -(-part.shape[slicing.axis] // slicing.step)
            target = np.zeros(filled * slicing.elements, array.dtype)
            self.transforms.apply(name, part, target)
            yield target.view(np.uint8)

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
