"""Functions of the array API standard that make tensors out of nothing, or out of other arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.array.rearrangements import extents
from weft.array.views import Views
from weft.dialects.errors import WeftError
from weft.eager.tensor import Tensor, tensor_of

Size = int | Sequence[int]

_range: Any = np.arange  # whose overloads ask for one type of bounds

_NUMBERS: Final = frozenset((bool, int, float))
"""Types of Python's numbers."""


def asarray(value: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor of numbers, nested lists or an array, which is copied; a tensor stays one."""
    _require_cpu(device)
    if isinstance(value, ArrayOperators):
        found = value if dtype is None else value.astype(dtype, copy=False)
        return found.duplicate() if copy and found is value else found
    if copy is False:
        got = "copy=False (Tensor.of takes an array that nothing changes any more)"
        raise ValueError(f"{users_line()}: a tensor of other values requires a copy, got {got}")
    return Tensor(value, dtype)


def from_dlpack(other: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares the memory of another library's, which must not change it any more."""
    _require_cpu(device)
    found = np.from_dlpack(other)
    return tensor_of(found.copy() if copy else found)


def zeros(shape: Size, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Zeros."""
    return _made(np.zeros(shape, _dtype(dtype, device)))


def ones(shape: Size, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones."""
    return _made(np.ones(shape, _dtype(dtype, device)))


def empty(shape: Size, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Elements of any value."""
    return _made(np.empty(shape, _dtype(dtype, device)))


def full(shape: Size, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Elements of one value."""
    _require_cpu(device)
    if isinstance(fill_value, ArrayOperators):
        filled = fill_value if dtype is None else fill_value.astype(dtype)
        return filled.broadcast_to(extents(shape)).duplicate()
    return _made(np.full(shape, fill_value, dtype))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Numbers from `start`, or 0 where one bound alone is given, up to but not including `stop`."""
    _require_cpu(device)
    low, high = (0, start) if stop is None else (start, stop)
    return _made(_range(low, high, step, dtype))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Ones on a diagonal."""
    return _made(np.eye(n_rows, n_cols, k, dtype=_dtype(dtype, device)))


def full_like(x: Any, fill_value: float, *, dtype: Any = None, device: Any = None) -> Any:
    """Elements of one value, of the dtype, unless another is given, and sizes of a tensor."""
    _require_cpu(device)
    if not isinstance(x, ArrayOperators):
        return np.full_like(x, fill_value, dtype)
    if type(x) is Tensor and type(fill_value) in _NUMBERS:
        array = np.empty(x.shape, dtype or x.dtype)
        array.fill(fill_value)
        return tensor_of(array)
    return x.lifted(fill_value).astype(dtype or x.dtype).broadcast_to(x.shape).duplicate()


def zeros_like(x: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the dtype, unless another is given, and sizes of a tensor."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of the dtype, unless another is given, and sizes of a tensor."""
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def _made(array: Any) -> Any:
    """A tensor of an array that is made here, whose elements NumPy has row by row."""
    found = tensor_of(array)
    for part in getattr(found, "parts", (found,)):
        part.views = Views(rows=True)
    return found


def _dtype(dtype: Any, device: Any) -> Any:
    """The dtype that is asked for, or NumPy's of floats."""
    _require_cpu(device)
    return np.float64 if dtype is None else dtype


def _require_cpu(device: Any) -> None:
    if device not in (None, "cpu"):
        raise WeftError(f"{users_line()}: a tensor requires the device 'cpu', got {device!r}")
