"""Functions of NumPy that are made of others, for tensors: source mode reads them as a user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy

np: Any = numpy  # whose overloads ask for more than arrays
Values = Any


def _vstack(arrays: Sequence[Values]) -> Values:
    return np.concatenate([x[None] if x.ndim == 1 else x for x in arrays], axis=0)


def _hstack(arrays: Sequence[Values]) -> Values:
    return np.concatenate(arrays, axis=0 if arrays[0].ndim == 1 else 1)


def _column_stack(arrays: Sequence[Values]) -> Values:
    return np.concatenate([x[:, None] if x.ndim == 1 else x for x in arrays], axis=1)


def _shape(x: Values) -> Any:
    return x.shape


def _ndim(x: Values) -> int:
    return x.ndim


def _size(x: Values, axis: int | None = None) -> Any:
    return x.size if axis is None else x.shape[axis]


def _divmod(x: Values, y: Values) -> tuple[Values, Values]:
    return np.floor_divide(x, y), np.remainder(x, y)


def _outer(x: Values, y: Values) -> Values:
    return np.reshape(x, (-1, 1)) * np.reshape(y, (1, -1))


def _norm(x: Values, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Values:
    if ord is None or ord == 2:
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    if ord == 1:
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    assert ord == np.inf, "norm requires ord 1, 2 or infinity"
    return np.max(np.abs(x), axis=axis, keepdims=keepdims)


def _diag(x: Values) -> Values:
    if x.ndim == 1:
        return np.where(np.eye(len(x), dtype=bool), x, np.zeros_like(x))
    n = min(x.shape[0], x.shape[1])
    return x[np.arange(n), np.arange(n)]


def _average(x: Values, axis: Any = None, weights: Values = None) -> Values:
    if weights is None:
        return np.mean(x, axis=axis)
    if np.ndim(weights) < x.ndim:
        along = [-1 if position == axis % x.ndim else 1 for position in range(x.ndim)]
        weights = np.reshape(weights, along)
    return np.sum(x * weights, axis=axis) / np.sum(weights, axis=axis)


def _exp2(x: Values) -> Values:
    return np.exp(x * np.log(2.0))


def _isclose(x: Values, y: Values, rtol: float = 1e-5, atol: float = 1e-8) -> Values:
    return (np.abs(x - y) <= atol + rtol * np.abs(y)) | (x == y)


def _allclose(x: Values, y: Values, rtol: float = 1e-5, atol: float = 1e-8) -> Values:
    return np.all(_isclose(x, y, rtol, atol))


def _array_equal(x: Values, y: Values) -> Values:
    return x.shape == y.shape and np.all(x == y)


def _ptp(x: Values, axis: Any = None) -> Values:
    return np.max(x, axis=axis) - np.min(x, axis=axis)


def _median(x: Values, axis: int | None = None) -> Values:
    ordered = np.sort(x.reshape(-1) if axis is None else np.swapaxes(x, axis, -1), axis=-1)
    n = ordered.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2


def _atleast_1d(x: Values) -> Values:
    return x if x.ndim else x.reshape(1)


def _interp(x: Values, positions: Values, values: Values) -> Values:
    after = np.clip(np.searchsorted(positions, x), 1, len(positions) - 1)
    low, high = positions[after - 1], positions[after]
    part = np.clip((x - low) / (high - low), 0.0, 1.0)
    return values[after - 1] + part * (values[after] - values[after - 1])


def _cross(x: Values, y: Values) -> Values:
    x0, x1, x2 = x[..., 0], x[..., 1], x[..., 2]
    y0, y1, y2 = y[..., 0], y[..., 1], y[..., 2]
    return np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1)


COMPOSITES: Final[Mapping[Any, Callable[..., Any]]] = {
    np.vstack: _vstack,
    np.hstack: _hstack,
    np.column_stack: _column_stack,
    np.linalg.norm: _norm,
    np.diag: _diag,
    np.average: _average,
    np.exp2: _exp2,
    np.isclose: _isclose,
    np.allclose: _allclose,
    np.array_equal: _array_equal,
    np.ptp: _ptp,
    np.median: _median,
    np.atleast_1d: _atleast_1d,
    np.interp: _interp,
    np.cross: _cross,
    np.outer: _outer,
    np.shape: _shape,
    np.ndim: _ndim,
    np.size: _size,
    np.divmod: _divmod,
}
"""By NumPy's own functions."""
