"""Data types of the array API standard, what they hold, and what they are promoted to."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import Struct

from weft.array.operators import ArrayOperators

_numpy: Any = np  # whose overloads ask for more than arrays

int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128

NAMES: Final = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                "float32", "float64", "complex64", "complex128")  # fmt: skip
"""Those of the standard."""


class Floats(Struct, frozen=True):
    """What a dtype of floats holds."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class Integers(Struct, frozen=True):
    """What a dtype of integers holds."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def _of(type_or_array: Any) -> np.dtype[Any]:
    is_type = isinstance(type_or_array, type)  # whose attribute `dtype` is none
    return np.dtype(type_or_array if is_type else getattr(type_or_array, "dtype", type_or_array))


def finfo(type: Any, /) -> Floats:
    """What a dtype of floats, or that of an array, holds."""
    info = _numpy.finfo(_of(type))
    bounds = float(info.eps), float(info.max), float(info.min), float(info.smallest_normal)
    return Floats(info.bits, *bounds, info.dtype)


def iinfo(type: Any, /) -> Integers:
    """What a dtype of integers, or that of an array, holds."""
    info = _numpy.iinfo(_of(type))
    return Integers(info.bits, int(info.max), int(info.min), _of(type))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is that one, one of a tuple, or of a kind such as "integral"."""
    return _numpy.isdtype(np.dtype(dtype), kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """What tensors, arrays, dtypes and numbers of Python are promoted to."""
    given = [each.dtype if isinstance(each, ArrayOperators) else each for each in arrays_and_dtypes]
    return _numpy.result_type(*given)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the dtype, or an array's, is promoted to that one without loss."""
    return bool(_numpy.can_cast(_of(from_), to))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The elements converted."""
    return x.astype(dtype, copy=copy)


class Info:
    """What `__array_namespace_info__` gives: devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and sizes that values decide work; any rank does that NumPy has."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where tensors lie."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices there are."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Dtypes of numbers of Python."""
        return {
            "real floating": np.dtype("float64"),
            "complex floating": np.dtype("complex128"),
            "integral": np.dtype("int64"),
            "indexing": np.dtype("int64"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Dtypes by name, all or those of a kind."""
        found = {name: np.dtype(name) for name in NAMES}
        if kind is None:
            return found
        return {name: each for name, each in found.items() if isdtype(each, kind)}


def __array_namespace_info__() -> Info:  # noqa: N807  the standard's name
    """What the standard's programs ask a library."""
    return Info()
