"""Element types as NumPy knows them, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute

from dialects.errors import UnsupportedError
from dialects.graph.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, UI8, UI16, UI32, UI64

_NUMPY: dict[Attribute, np.dtype[Any]] = {
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    F16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    BOOL: np.dtype(np.bool_),
    I8: np.dtype(np.int8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    UI8: np.dtype(np.uint8),
    UI16: np.dtype(np.uint16),
    UI32: np.dtype(np.uint32),
    UI64: np.dtype(np.uint64),
}
_ELEMENTS = {dtype: element for element, dtype in _NUMPY.items()}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype (ml_dtypes' for bf16) of an element type."""
    return _NUMPY[element]


def element_type(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a NumPy dtype."""
    if dtype not in _ELEMENTS:
        raise UnsupportedError(f"a tensor requires a numeric or bool element type, got {dtype}")
    return _ELEMENTS[dtype]
