"""Weights in the layouts that kernels read them in:
prepared by running the transforms' own kernels on this machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from compiler.machine.jit import LoadedCode
from dialects.weights import Array

ALIGNMENT = 64


@dataclass(frozen=True)
class WeightSource:
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


@dataclass(frozen=True)
class WeightTransforms:
    """Compiled transforms by symbol, in this process."""

    code: LoadedCode | None

    def apply(self, symbol: str, source: Array, elements: int) -> Array:
        """Runs the transform: `void transform(context, const source, target)` on zeroed storage."""
        assert self.code is not None, "a derived weight has a compiled transform"
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        target = _aligned_zeros(elements, source.dtype)
        dense = np.ascontiguousarray(source)
        function(self.code.address(symbol))(None, dense.ctypes.data, target.ctypes.data)
        return target


@dataclass(frozen=True)
class Weights:
    """All weights of a compiled model, made on demand."""

    sources: Sequence[WeightSource]
    arrays: Mapping[str, Array]
    transforms: WeightTransforms

    def prepare(self, source: WeightSource) -> Array:
        """The bytes of one weight, dense and in the order that its kernels read."""
        array = self.arrays[source.key]
        if source.transform is not None:
            return self.transforms.apply(source.transform, array, source.elements)
        return np.ascontiguousarray(array)

    def write(self, source: WeightSource, out: BinaryIO) -> None:
        """Streams one weight."""
        out.write(_bytes(self.prepare(source)).data)

    def bytes(self, source: WeightSource) -> int:
        """The size of one weight in bytes."""
        return source.elements * self.arrays[source.key].dtype.itemsize


def share_equal(weights: Weights) -> Weights:
    """The same weights; forms of one tensor that are equal byte for byte become one source."""
    alike: dict[tuple[str, int], list[WeightSource]] = {}
    for source in dict.fromkeys(weights.sources):
        alike.setdefault((source.key, source.elements), []).append(source)
    first: dict[WeightSource, WeightSource] = {}
    for group in alike.values():
        arrays = [weights.prepare(source) for source in group] if len(group) > 1 else []
        for position, source in enumerate(group):
            same = (n for n in range(position) if _equal_bytes(arrays[n], arrays[position]))
            first[source] = group[next(same, position)]
    return replace(weights, sources=[first[source] for source in weights.sources])


def _equal_bytes(one: Array, other: Array) -> bool:
    return np.array_equal(_bytes(one), _bytes(other))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _aligned_zeros(elements: int, dtype: np.dtype[Any]) -> Array:
    """Zeroed storage on a cache line, so that vector loads from it do not straddle two."""
    size = elements * dtype.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype)
