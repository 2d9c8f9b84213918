"""Functions that make arrays, of sizes and elements that only a call knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.interleaved import part_dtype
from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.types import ShapeAttr
from weft.source.expressions.iteration import iterations_of, range_of, stacked
from weft.source.expressions.operators import as_tensor
from weft.source.run import Run
from weft.source.syntax import Location
from weft.source.values import Array, Spread
from weft.tracing.traced import Traced


def tensor_of(run: Run, value: Any, location: Location) -> Any:
    """A value as a tensor: lists are put together."""
    if isinstance(value, list | tuple):
        parts = [
            each if isinstance(each, Spread) else tensor_of(run, each, location) for each in value
        ]
        return stacked(run, parts, location)
    return as_tensor(run.recording, value)


def _filled(run: Run, shape: Any, value: Any, dtype: Any = None) -> Any:
    """A tensor of one value."""
    if isinstance(value, Complex) or np.dtype(dtype or type(value)).kind == "c":
        whole: Any = value if isinstance(value, Complex) else np.asarray(value, dtype)
        element = None if dtype is None else part_dtype(np.dtype(dtype))
        return Complex([_filled(run, shape, each, element) for each in (whole.real, whole.imag)])
    scalar = value if isinstance(value, Traced) else None
    if scalar is None:
        b = run.recording.builder()
        array = np.asarray(value, dtype)
        scalar = run.recording.array(b.constant_of(array, element_type(array.dtype)))
    elif dtype is not None:
        scalar = scalar.astype(dtype)
    return run.recording.array(scalar.broadcast_to(shape).value, rows=True)


def _zeros(run: Run, location: Location, shape: Any, dtype: Any = np.float64) -> Any:
    return _filled(run, shape, 0, dtype)


def _ones(run: Run, location: Location, shape: Any, dtype: Any = np.float64) -> Any:
    return _filled(run, shape, 1, dtype)


def _full(run: Run, location: Location, shape: Any, value: Any, dtype: Any = None) -> Any:
    return _filled(run, shape, value, dtype)


def _arange(
    run: Run, location: Location, start: Any, stop: Any = None, step: int = 1, dtype: Any = None
) -> Any:
    r = run.recording
    low, high = (0, start) if stop is None else (start, stop)
    count = iterations_of(run, range_of(run, [low, high, step], location), location).count
    first, by = (as_tensor(r, each).astype(np.int64) for each in (low, step))
    result = r.apply("range", r.array(first.value), r.array(by.value), size=ShapeAttr((count,)))
    return result if dtype is None else result.astype(dtype)


def _eye(
    run: Run, location: Location, rows: Any, columns: Any = None, dtype: Any = np.float64
) -> Any:
    row = _arange(run, location, rows)
    column = row if columns is None else _arange(run, location, columns)
    return row.reshape((row.type.size, 1)).apply("equal", column).astype(dtype)


def _asarray(
    run: Run, location: Location, value: Any, dtype: Any = None, order: str | None = None
) -> Any:
    """Order is how memory holds an array, which a program does not see."""
    if isinstance(value, Array | Complex) and (dtype is None or np.dtype(dtype) == value.dtype):
        return value
    return _array(run, location, value, dtype)


def _array(
    run: Run, location: Location, value: Any, dtype: Any = None, *, copy: bool | None = True,
    order: str | None = None, subok: bool = False, ndmin: int = 0,
) -> Any:  # fmt: skip
    if not copy:
        return _asarray(run, location, value, dtype)
    x = tensor_of(run, value, location)
    found = x if dtype is None else x.astype(dtype)
    if found.ndim < ndmin:
        found = found.reshape((1,) * (ndmin - found.ndim) + found.shape)
    return found.duplicate() if isinstance(found, Complex) else run.recording.array(found.value)


CREATION: Final[Mapping[str, Callable[..., Any]]] = {
    "zeros": _zeros, "ones": _ones, "empty": _zeros, "full": _full, "arange": _arange, "eye": _eye,
    "array": _array, "asarray": _asarray,
}  # fmt: skip
"""By NumPy's names, which are weft's too."""
