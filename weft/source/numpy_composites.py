"""Functions of NumPy that are made of others: source mode reads them as it reads a user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

Values = Any


def _vstack(arrays: Sequence[Values]) -> Values:
    return np.concatenate([x[None] if x.ndim == 1 else x for x in arrays], axis=0)


def _hstack(arrays: Sequence[Values]) -> Values:
    return np.concatenate(arrays, axis=0 if arrays[0].ndim == 1 else 1)


def _column_stack(arrays: Sequence[Values]) -> Values:
    return np.concatenate([x[:, None] if x.ndim == 1 else x for x in arrays], axis=1)


def _diff(x: Values, n: int = 1, axis: int = -1) -> Values:
    x = np.swapaxes(x, axis, -1)
    for _ in range(n):
        x = x[..., 1:] - x[..., :-1]
    return np.swapaxes(x, axis, -1)


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
    return np.sum(x * weights, axis=axis) / np.sum(weights, axis=axis)


def _hypot(x: Values, y: Values) -> Values:
    large = np.maximum(np.abs(x), np.abs(y))
    small = np.minimum(np.abs(x), np.abs(y))
    safe = np.where(large == 0, 1.0, large)
    return large * np.sqrt(1.0 + (small / safe) ** 2)


def _log2(x: Values) -> Values:
    return np.log(x) / np.log(2.0)


def _log10(x: Values) -> Values:
    return np.log(x) / np.log(10.0)


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


def _tile(x: Values, count: int) -> Values:
    assert x.ndim == 1, "tile requires an array of one axis"
    return np.broadcast_to(x[None], (count, len(x))).reshape(-1)


def _atleast_1d(x: Values) -> Values:
    return x if x.ndim else x.reshape(1)


def _moveaxis(x: Values, source: int, destination: int) -> Values:
    order = [axis for axis in range(x.ndim) if axis != source % x.ndim]
    order.insert(destination % x.ndim, source % x.ndim)
    return np.transpose(x, order)


def _searchsorted(table: Values, wanted: Values, side: str = "left") -> Values:
    column = np.expand_dims(wanted, -1)
    before = table < column if side == "left" else table <= column
    return np.sum(before, axis=-1)


def _interp(x: Values, places: Values, values: Values) -> Values:
    after = np.clip(_searchsorted(places, x), 1, len(places) - 1)
    low, high = places[after - 1], places[after]
    part = np.clip((x - low) / (high - low), 0.0, 1.0)
    return values[after - 1] + part * (values[after] - values[after - 1])


def _cross(x: Values, y: Values) -> Values:
    x0, x1, x2 = x[..., 0], x[..., 1], x[..., 2]
    y0, y1, y2 = y[..., 0], y[..., 1], y[..., 2]
    return np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1)


COMPOSITES: Final[Mapping[str, Callable[..., Any]]] = {
    "vstack": _vstack,
    "hstack": _hstack,
    "column_stack": _column_stack,
    "diff": _diff,
    "norm": _norm,
    "diag": _diag,
    "average": _average,
    "hypot": _hypot,
    "log2": _log2,
    "log10": _log10,
    "exp2": _exp2,
    "isclose": _isclose,
    "allclose": _allclose,
    "array_equal": _array_equal,
    "ptp": _ptp,
    "median": _median,
    "tile": _tile,
    "atleast_1d": _atleast_1d,
    "moveaxis": _moveaxis,
    "searchsorted": _searchsorted,
    "interp": _interp,
    "cross": _cross,
}
"""By NumPy's names."""
