"""What a user fixes an input to -> the array that the model has in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dialects.errors import OptionError
from weft.dialects.weights import Array


def fixed_value(name: str, given: Array, dtype: np.dtype[Any], dims: Sequence[int | None]) -> Array:
    """The value with the element type of its input, where that holds it; a single number fills the
    dims of an input that has no others. None is a dim of any size. Raises OptionError for a value
    that does not fit.
    """
    known = [dim for dim in dims if dim is not None]
    if given.ndim == 0 and len(known) == len(dims):
        given = np.full(known, given)
    with np.errstate(invalid="ignore"):
        array = given.astype(dtype)
    fits = len(given.shape) == len(dims) and all(
        dim in (None, size) for dim, size in zip(dims, given.shape, strict=True)
    )
    inexact = dtype.kind in "iub" and not np.array_equal(array, given)
    if not fits or inexact or given.dtype.kind not in "biufV":
        wanted = f"{dtype.name}[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
        got = f"{given.dtype.name}{list(given.shape)} {np.array2string(given, threshold=8)}"
        raise OptionError(f"values require {wanted} for the input '{name}', got {got}")
    return array
