"""NumPy's functions that make arrays, or give them other shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dialects.expr import Expr
from dialects.graph.dtypes import element_type
from dialects.graph.types import ShapeAttr
from weft.source.iteration import elements, range_of, rounds_of
from weft.source.numpy_arguments import Axis, axes_of, part, sizes, tensor_of
from weft.source.operators import as_tensor, promoted
from weft.source.run import Run
from weft.source.syntax import Place
from weft.source.values import Array
from weft.traced import Traced

# Shapes ---------------------------------------------------------------------------------------


def _reshape(run: Run, place: Place, x: Any, shape: Any) -> Any:
    x = tensor_of(run, x, place)
    given = shape if isinstance(shape, tuple | list) else (shape,)
    dims: list[Any] = [each if _is_rest(each) else sizes(run, each)[0] for each in given]  # pyright: ignore
    result = run.recording.array(x.reshape(tuple(dims)).value)
    return result.viewing(x, None) if isinstance(x, Array) and result.ndim else result


def _is_rest(dim: Any) -> bool:
    return isinstance(dim, int | np.integer) and dim == -1


def _transpose(run: Run, place: Place, x: Any, axes: Any = None) -> Any:
    x = tensor_of(run, x, place)
    result = run.recording.array((x.transpose(*axes) if axes is not None else x.transpose()).value)
    return result.viewing(x, None) if isinstance(x, Array) and result.ndim else result


def _swapaxes(run: Run, place: Place, x: Any, first: int, second: int) -> Any:
    x = tensor_of(run, x, place)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return _transpose(run, place, x, order)


def _expand_dims(run: Run, place: Place, x: Any, axis: int) -> Any:
    x = tensor_of(run, x, place)
    dims = list(x.type.shape)
    dims.insert(axis % (x.ndim + 1), Expr.of(1))
    return _reshape(run, place, x, [run.recording.number(dim) for dim in dims])


def _squeeze(run: Run, place: Place, x: Any, axis: Axis = None) -> Any:
    x = tensor_of(run, x, place)
    ones = (
        [n for n, dim in enumerate(x.type.shape) if dim == 1] if axis is None else axes_of(x, axis)
    )
    dims = [dim for n, dim in enumerate(x.type.shape) if n not in ones]
    return _reshape(run, place, x, [run.recording.number(dim) for dim in dims])


def _ravel(run: Run, place: Place, x: Any) -> Any:
    return _reshape(run, place, x, -1)


def _broadcast_to(run: Run, place: Place, x: Any, shape: Any) -> Any:
    x = tensor_of(run, x, place)
    return run.recording.apply("expand", x, shape=ShapeAttr(sizes(run, shape)))


def _concatenate(run: Run, place: Place, arrays: Any, axis: int = 0) -> Any:
    parts = promoted(*(tensor_of(run, each, place) for each in elements(run, arrays, place)))
    return run.recording.apply("concat", *parts, axis=axis % parts[0].ndim)


def _stack(run: Run, place: Place, arrays: Any, axis: int = 0) -> Any:
    result = tensor_of(run, arrays if isinstance(arrays, list) else list(arrays), place)
    if axis % result.ndim == 0:
        return result
    order = list(range(1, result.ndim))
    order.insert(axis % result.ndim, 0)
    return result.transpose(*order)


def _repeat(run: Run, place: Place, x: Any, repeats: Any, axis: int | None = None) -> Any:
    x = tensor_of(run, x, place)
    if axis is None:
        x = x.reshape((x.type.size,))
    at = 0 if axis is None else axis % x.ndim
    (count,) = sizes(run, repeats)
    before, extent, after = x.type.shape[:at], x.type.shape[at], x.type.shape[at + 1 :]
    wide = x.reshape((*before, extent, 1, *after))
    shape = ShapeAttr((*before, extent, count, *after))
    expanded = run.recording.apply("expand", wide, shape=shape)
    return expanded.reshape((*before, extent * count, *after))


def _flip(run: Run, place: Place, x: Any, axis: int = 0) -> Any:
    x = tensor_of(run, x, place)
    index = (*[slice(None)] * (axis % x.ndim), slice(None, None, -1))
    return run.recording.array(part(run, x, index).value)


def _roll(run: Run, place: Place, x: Any, shift: int, axis: int | None = None) -> Any:
    x = tensor_of(run, x, place)
    if axis is None:
        flat = x.reshape((x.type.size,))
        return _roll(run, place, flat, shift, 0).reshape(x.type.shape)
    lead = (slice(None),) * (axis % x.ndim)
    if shift == 0:
        return x
    first, second = part(run, x, (*lead, slice(-shift, None))), part(run, x, (*lead, slice(-shift)))
    return run.recording.apply("concat", first, second, axis=axis % x.ndim)


# Creation -------------------------------------------------------------------------------------


def filled(run: Run, shape: Any, value: Any, dtype: Any = None) -> Any:
    """A tensor of one value."""
    scalar = value if isinstance(value, Traced) else None
    if scalar is None:
        b = run.recording.builder()
        array = np.asarray(value, dtype)
        scalar = run.recording.array(b.constant_of(array, element_type(array.dtype)))
    elif dtype is not None:
        scalar = scalar.astype(dtype)
    return run.recording.apply("expand", scalar, shape=ShapeAttr(sizes(run, shape)))


def _zeros(run: Run, place: Place, shape: Any, dtype: Any = np.float64) -> Any:
    return filled(run, shape, 0, dtype)


def _ones(run: Run, place: Place, shape: Any, dtype: Any = np.float64) -> Any:
    return filled(run, shape, 1, dtype)


def _full(run: Run, place: Place, shape: Any, value: Any, dtype: Any = None) -> Any:
    return filled(run, shape, value, dtype)


def _like(value: float) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, dtype: Any = None) -> Any:
        x = tensor_of(run, x, place)
        dims = [run.recording.number(dim) for dim in x.type.shape]
        return filled(run, dims, value, dtype or x.dtype)

    return function


def _full_like(run: Run, place: Place, x: Any, value: Any, dtype: Any = None) -> Any:
    x = tensor_of(run, x, place)
    dims = [run.recording.number(dim) for dim in x.type.shape]
    return filled(run, dims, value, dtype or x.dtype)


def _arange(
    run: Run, place: Place, start: Any, stop: Any = None, step: int = 1, dtype: Any = None
) -> Any:
    r = run.recording
    low, high = (0, start) if stop is None else (start, stop)
    count = rounds_of(run, range_of(run, [low, high, step], place), place).count
    first, by = (as_tensor(r, each).astype(np.int64) for each in (low, step))
    result = r.apply("range", r.array(first.value), r.array(by.value), size=ShapeAttr((count,)))
    return result if dtype is None else result.astype(dtype)


def eye(run: Run, place: Place, rows: Any, columns: Any = None, dtype: Any = np.float64) -> Any:
    """Ones on the diagonal."""
    row = _arange(run, place, rows)
    column = row if columns is None else _arange(run, place, columns)
    return row.reshape((row.type.size, 1)).apply("equal", column).astype(dtype)


def _triangle(upper: bool) -> Callable[..., Any]:
    def function(run: Run, place: Place, x: Any, k: int = 0) -> Any:
        return run.recording.apply("trilu", tensor_of(run, x, place), upper=upper, k=k)

    return function


def _array(run: Run, place: Place, value: Any, dtype: Any = None) -> Any:
    x = tensor_of(run, value, place)
    return run.recording.array((x if dtype is None else x.astype(dtype)).value)


SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "reshape": _reshape, "transpose": _transpose, "permute_dims": _transpose,
    "swapaxes": _swapaxes, "expand_dims": _expand_dims, "squeeze": _squeeze, "ravel": _ravel,
    "broadcast_to": _broadcast_to, "concatenate": _concatenate, "concat": _concatenate,
    "stack": _stack, "repeat": _repeat, "flip": _flip, "roll": _roll,
    "zeros": _zeros, "ones": _ones, "empty": _zeros, "full": _full, "zeros_like": _like(0),
    "ones_like": _like(1), "empty_like": _like(0), "full_like": _full_like, "arange": _arange,
    "eye": eye, "tril": _triangle(False), "triu": _triangle(True), "array": _array,
    "asarray": _array, "copy": _array,
}  # fmt: skip
"""By NumPy's names."""
