"""Random numbers as functions of a key: the same key gives the same numbers, eager or compiled, for
any number of threads. The generator is Philox, which is counter-based (`graph.random_bits`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft.array.composites import composite
from weft.array.operators import ArrayOperators
from weft.eager.tensor import Tensor

_FOLDING: Final = 255
"""The stream of bits that new keys are made of."""


def key(seed: int) -> Tensor:
    """The key of a seed, one uint64."""
    return Tensor.of(np.asarray(seed, np.uint64))


def fold_in(key: Any, number: Any) -> Any:
    """Another key for each number, such as that of a training step."""
    step = number if isinstance(number, ArrayOperators) else Tensor(np.asarray(number))
    return composite(_folded, key, step.astype(np.uint64))


def uniform(key: Any, shape: Sequence[Any], dtype: Any = np.float32) -> Any:
    """Numbers from 0 up to but not including 1; the dtype is float32 or float64."""
    return composite(_uniform, key, shape=tuple(shape), dtype=np.dtype(dtype).name)


def normal(key: Any, shape: Sequence[Any], dtype: Any = np.float32) -> Any:
    """Normally distributed numbers, two uniform ones for each (Box and Muller)."""
    return composite(_normal, key, shape=tuple(shape), dtype=np.dtype(dtype).name)


def kept(key: Any, like: Any, rate: float) -> Any:
    """The elements of `like`, each zero with the probability `rate`, the others scaled up so that
    the mean stays.
    """
    return composite(_kept, key, like, rate=rate)


def _uniform(key: Any, shape: Sequence[Any], dtype: str, stream: int = 0) -> Any:
    digits = 24 if dtype == "float32" else 53
    bits = key.op("random_bits", key, shape=shape, seed=0, stream=stream)
    shift = key.constant(np.asarray(64 - digits, np.uint64))
    found = key.op("bit_shift", bits, shift, direction="RIGHT")
    return found.astype(dtype) * 2.0**-digits


def _normal(key: Any, shape: Sequence[Any], dtype: str) -> Any:
    first, second = (_uniform(key, shape, dtype, stream) for stream in range(2))
    radius = ((1.0 - first).apply("log") * -2.0).apply("sqrt")
    return radius * (second * (2 * math.pi)).apply("cos")


def _kept(key: Any, like: Any, rate: float) -> Any:
    keeps = _uniform(key, like.shape, "float32") >= rate
    scaled = like * (1.0 / (1.0 - rate))
    return like.op("where", keeps, scaled, like.constant(np.zeros((), like.dtype)))


def _folded(key: Any, number: Any) -> Any:
    words = key.op("bit_shift", number, key.constant(np.uint64(32)), direction="LEFT")
    return key.op("random_bits", key ^ words, shape=(), seed=0, stream=_FOLDING)
