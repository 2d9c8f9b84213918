"""What compiled programs print, in Python: texts with the values of tensors in their places."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np

from weft.dialects.printed import filled, placeholders
from weft.dialects.weights import Array

_NUMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {"int": int, "float": float, "bool": bool}
_PRINT: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
)


@cache
def printer() -> int:
    """The address of a function that prints for contexts, as `weft_options` takes it."""
    return kept_address(_PRINT(_print))


_KEPT: Final[list[object]] = []


def kept_address(function: Any) -> int:
    """The address of a function for native code, which is there from now on."""
    _KEPT.append(function)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None, "a function has an address"
    return address


def _print(user: object, text: bytes, values: int, dims: int) -> None:
    sys.stdout.write(printed(text.decode(), values, dims))


def printed(text: str, values: int, dims: int) -> str:
    """The text with values in its places, out of a table of addresses and one of dims."""
    parts = [content.split(",", 2) for content in placeholders(text)]
    arrays = arrays_at([(name, int(rank)) for name, rank, _ in parts], values, dims)
    return filled(text, lambda number, _: _shown(arrays[number], parts[number][2]))


def arrays_at(parameters: Iterable[tuple[str, int]], values: int, dims: int) -> list[Array]:
    """Arrays of these dtypes and ranks, in place, out of a table of addresses and one of dims."""
    sizes = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
    addresses = ctypes.cast(values, ctypes.POINTER(ctypes.c_void_p))
    arrays: list[Array] = []
    read = 0
    for number, (name, rank) in enumerate(parameters):
        shape = [sizes[read + axis] for axis in range(rank)]
        read += rank
        arrays.append(array_at(addresses[number], dtype_named(name), shape))
    return arrays


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype that programs call by a name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def array_at(address: int | None, dtype: np.dtype[Any], shape: list[int]) -> Any:
    """The elements that lie there, in place."""
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    data: Any = (ctypes.c_char * size).from_address(address) if address and size else b""
    return np.frombuffer(data, dtype).reshape(shape)


def _shown(array: Any, form: str) -> str:
    """An array as Python shows it; one element is a number."""
    conversion, _, spec = form.partition(":")
    value = array if array.ndim else array[()]
    number = _NUMBERS.get(conversion)
    value = value if number is None else number(value)
    return format(value, spec) if spec else repr(value) if conversion == "r" else str(value)
