"""NumPy's complex numbers as artifacts have them: pairs of reals along a last axis."""

from __future__ import annotations

from typing import Any

import numpy as np


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of complex numbers."""
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def interleaved(array: Any) -> Any:
    """Complex numbers as pairs along a new last axis, as they are in memory."""
    found: Any = np.asarray(array, order="C")
    return found.reshape(-1).view(part_dtype(found.dtype)).reshape((*found.shape, 2))


def from_interleaved(pairs: Any) -> Any:
    """The opposite."""
    dtype = np.complex64 if pairs.dtype == np.float32 else np.complex128
    return np.asarray(pairs, order="C").view(dtype).reshape(pairs.shape[:-1])
