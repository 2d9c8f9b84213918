"""Keys, and uniform and normal numbers: functions of a key and of an element's index. The generator
is Philox, which is counter-based (`graph.random_bits`): any number of threads gives the same bits.
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
_SPLITTING: Final = 254
"""The stream of bits that several new keys are made of."""
Shape = Sequence[Any] | int


def key(seed: int) -> Tensor:
    """The key of a seed, one uint64."""
    return Tensor.of(np.asarray(seed, np.uint64))


def fold_in(key: Any, number: Any) -> Any:
    """Another key for each number, such as that of a training step."""
    step = number if isinstance(number, ArrayOperators) else Tensor(np.asarray(number))
    return composite(folded, key, step.astype(np.uint64))


def split(key: Any, count: int = 2) -> Any:
    """So many keys, a vector, each for numbers that do not depend on those of the others."""
    return composite(_split, key, count=int(count))


def uniform(
    key: Any, shape: Shape = (), dtype: Any = np.float32, low: Any = 0.0, high: Any = 1.0
) -> Any:
    """Numbers from `low` up to but not including `high`; the dtype is float32 or float64."""
    found = composite(uniform_of, key, **described(shape, dtype))
    return found if (low, high) == (0.0, 1.0) else found * (high - low) + low


def normal(key: Any, shape: Shape = (), dtype: Any = np.float32) -> Any:
    """Normally distributed numbers, two uniform ones for each (Box and Muller)."""
    return composite(normal_of, key, **described(shape, dtype))


def randint(key: Any, low: int, high: int, shape: Shape = (), dtype: Any = np.int64) -> Any:
    """Integers from `low` up to but not including `high`: remainders of 64 bits, whose bias is less
    than the range over 2 to the 64. Raises ValueError for an empty range.
    """
    if low >= high:
        raise ValueError(f"randint requires low < high, got {low} and {high}")
    attributes = described(shape, dtype)
    return composite(_integers, key, **attributes, low=int(low), span=int(high) - int(low))


def kept(key: Any, like: Any, rate: float) -> Any:
    """The elements of `like`, each zero with the probability `rate`, the others scaled up so that
    the mean stays.
    """
    return composite(_kept, key, like, rate=rate)


def described(shape: Shape, dtype: Any) -> dict[str, Any]:
    """Shape and dtype as attributes of composites."""
    dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    return {"shape": dims, "dtype": np.dtype(dtype).name}


def bits_of(key: Any, shape: Any, stream: int = 0) -> Any:
    """64 bits for each element; those of streams do not depend on each other."""
    return key.op("random_bits", key, shape=shape, seed=0, stream=stream)


def uniform_of(key: Any, shape: Any, dtype: str, stream: int = 0) -> Any:
    """Numbers from 0 up to but not including 1, of all digits that the dtype has there."""
    return _digits(key, shape, dtype, stream, 24 if dtype == "float32" else 53)


def open_uniform_of(key: Any, shape: Any, dtype: str, stream: int = 0) -> Any:
    """Numbers between 0 and 1, neither of which is one: the middles of equal intervals."""
    digits = 23 if dtype == "float32" else 52
    return _digits(key, shape, dtype, stream, digits) + 2.0 ** -(digits + 1)


def normal_of(key: Any, shape: Any, dtype: str, stream: int = 0) -> Any:
    """Normally distributed numbers, of two streams."""
    first, second = (uniform_of(key, shape, dtype, stream + each) for each in range(2))
    radius = ((1.0 - first).apply("log") * -2.0).apply("sqrt")
    return radius * (second * (2 * math.pi)).apply("cos")


def folded(key: Any, number: Any) -> Any:
    """A key of a key and a number, both of 64 bits."""
    words = key.op("bit_shift", number, key.constant(np.uint64(32)), direction="LEFT")
    return bits_of(key ^ words, (), _FOLDING)


def _digits(key: Any, shape: Any, dtype: str, stream: int, digits: int) -> Any:
    shift = key.constant(np.asarray(64 - digits, np.uint64))
    found = key.op("bit_shift", bits_of(key, shape, stream), shift, direction="RIGHT")
    return found.astype(dtype) * 2.0**-digits


def _split(key: Any, count: int) -> Any:
    return bits_of(key, (count,), _SPLITTING)


def _integers(key: Any, shape: Any, dtype: str, low: int, span: int) -> Any:
    rest = bits_of(key, shape) % key.constant(np.uint64(span))
    return (rest.astype(np.int64) + low).astype(dtype)


def _kept(key: Any, like: Any, rate: float) -> Any:
    keeps = uniform_of(key, like.shape, "float32") >= rate
    scaled = like * (1.0 / (1.0 - rate))
    return like.op("where", keeps, scaled, like.constant(np.zeros((), like.dtype)))
