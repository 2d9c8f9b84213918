"""Functions of the array API standard that make tensors out of nothing, or out of other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.operators import ArrayOperators
from weft.tensor import Tensor

Size = int | Sequence[int]

_range: Any = np.arange  # whose overloads ask for one type of bounds
_spaced: Any = np.linspace


def asarray(value: Any, dtype: Any = None) -> Any:
    """A tensor of numbers, nested lists or an array, which is copied; a tensor stays one."""
    if isinstance(value, ArrayOperators):
        return value if dtype is None else value.astype(dtype)
    return Tensor(value, dtype)


def from_dlpack(other: Any) -> Tensor:
    """A tensor that shares the memory of another library's, which must not change it any more."""
    return Tensor.of(np.from_dlpack(other))


def zeros(shape: Size, dtype: Any = np.float32) -> Tensor:
    """Zeros."""
    return Tensor.of(np.zeros(shape, dtype))


def ones(shape: Size, dtype: Any = np.float32) -> Tensor:
    """Ones."""
    return Tensor.of(np.ones(shape, dtype))


def empty(shape: Size, dtype: Any = np.float32) -> Tensor:
    """Elements of any value."""
    return Tensor.of(np.empty(shape, dtype))


def full(shape: Size, value: float, dtype: Any = None) -> Tensor:
    """Elements of one value; floats are float32 unless said otherwise."""
    chosen = np.float32 if dtype is None and isinstance(value, float) else dtype
    return Tensor.of(np.full(shape, value, chosen))


def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    """Numbers from `start`, or 0 where one bound alone is given, up to but not including `stop`."""
    low, high = (0, start) if stop is None else (start, stop)
    floats = any(isinstance(each, float) for each in (low, high, step))
    chosen = np.float32 if dtype is None and floats else dtype
    return Tensor.of(_range(low, high, step, chosen))


def linspace(start: float, stop: float, count: int, dtype: Any = np.float32) -> Tensor:
    """So many numbers at equal distances, both ends among them."""
    return Tensor.of(_spaced(start, stop, count, dtype=dtype))


def eye(rows: int, columns: int | None = None, dtype: Any = np.float32) -> Tensor:
    """Ones on the diagonal."""
    return Tensor.of(np.eye(rows, columns, dtype=dtype))


def full_like(x: Any, value: float) -> Any:
    """Elements of one value, of the dtype and sizes of a tensor."""
    if not isinstance(x, ArrayOperators):
        return np.full_like(x, value)
    return x.constant(np.asarray(value, x.dtype)).broadcast_to(x.shape)


def zeros_like(x: Any) -> Any:
    """Zeros of the dtype and sizes of a tensor."""
    return full_like(x, 0)


def ones_like(x: Any) -> Any:
    """Ones of the dtype and sizes of a tensor."""
    return full_like(x, 1)
