"""Element types as NumPy knows them, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute

from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.types import (
    BF16,
    BOOL,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    UI2,
    UI4,
    UI8,
    UI16,
    UI32,
    UI64,
)

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
    F8E3M4: np.dtype(ml_dtypes.float8_e3m4),
    F8E4M3: np.dtype(ml_dtypes.float8_e4m3),
    F8E4M3B11FNUZ: np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    F8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    F6E2M3FN: np.dtype(ml_dtypes.float6_e2m3fn),
    F6E3M2FN: np.dtype(ml_dtypes.float6_e3m2fn),
    F4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
    I4: np.dtype(ml_dtypes.int4),
    UI4: np.dtype(ml_dtypes.uint4),
    I2: np.dtype(ml_dtypes.int2),
    UI2: np.dtype(ml_dtypes.uint2),
}
_ELEMENTS = {dtype: element for element, dtype in _NUMPY.items()}


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype of an element type; ml_dtypes' for bf16 and what is only stored."""
    return _NUMPY[element]


def element_type(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a NumPy dtype."""
    if dtype not in _ELEMENTS:
        raise UnsupportedError(f"a tensor requires a numeric or bool element type, got {dtype}")
    return _ELEMENTS[dtype]
