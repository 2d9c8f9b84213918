"""NumPy's statistics: averages, order statistics, those that leave out NaN, and counts."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.array import products, reductions, selections
from weft.array.elementwise import isnan, root_of_sums, where
from weft.array.operators import axes_of, is_number
from weft.array.selections import take, take_along_axis
from weft.array_api.functions.joining import vstack
from weft.array_api.operands import as_double, constant, known, operand, refuse

_POSITIONS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "linear": lambda at, low, size: at,
    "lower": lambda at, low, size: np.floor(at),
    "higher": lambda at, low, size: np.ceil(at),
    "nearest": lambda at, low, size: np.rint(at),
    "midpoint": lambda at, low, size: (np.floor(at) + np.ceil(at)) / 2,
}
"""The methods of quantiles, as positions among sorted elements."""

_CHOOSING: Final = ("lower", "higher", "nearest")
"""Methods whose results are elements."""


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean over axes, by weights.

    >>> np.average(x, axis=0, weights=v), np.average(x), np.average(x, weights=x, returned=True)
    """
    a = operand(a, weights)
    if weights is None:
        found = a.mean(axis, keepdims=keepdims)
        count = found * 0 + float(a.size / builtins.max(found.size, 1)) if returned else None
        return (found, count) if returned else found
    weights = operand(weights, a)
    if weights.ndim < a.ndim:
        axes = axes_of(axis, a.ndim)
        shape = [a.shape[each] if each in axes else 1 for each in range(a.ndim)]
        weights = weights.reshape(shape)
    total = (weights + (a * 0 if returned else 0)).sum(axis, keepdims=keepdims)
    found = (a * weights).sum(axis, keepdims=keepdims) / total
    return (found, total * (found * 0 + 1)) if returned else found


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The greatest minus the least element over axes.

    >>> np.ptp(x, axis=0)
    """
    a = operand(a)
    return a.max(axis, keepdims=keepdims) - a.min(axis, keepdims=keepdims)


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The middle element over axes, the mean of two where there is none.

    >>> np.median(x), np.median(x, axis=0), np.median(i[:2], axis=0, keepdims=True)
    """
    return quantile(a, 0.5, axis, keepdims=keepdims)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Elements at parts `q`, which are known, of sorted ones over axes.

    >>> np.quantile(x, 0.3), np.quantile(x, [0.25, 0.5], axis=1)
    >>> np.quantile(v, 0.9, method="lower")
    """
    a = operand(a)
    flat, _, shape = _along_last(_with_precision(a, q), axis, keepdims)
    if weights is not None or method not in _POSITIONS:
        got = "weights" if weights is not None else repr(method)
        raise refuse(f"quantile requires the method of {', '.join(_POSITIONS)}", got)
    q = constant(q, "quantile")
    if not ((q >= 0) & (q <= 1)).all():
        raise refuse("quantile requires parts from 0 to 1", q)
    size = known(flat.shape[-1], "quantile")
    ordered = selections.sort(flat, -1)
    at = _POSITIONS[method](q * (size - 1), q, size)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    part = (at - low).astype(flat.dtype)
    below, above = (take(ordered, each.reshape(-1), -1) for each in (low, high))
    gap, weight = above - below, part.reshape(-1)
    found = where(weight >= 0.5, above - gap * (1 - weight), below + gap * weight)
    found = where(weight == 0, below, found)
    if flat.dtype.kind == "f":
        found = where(isnan(ordered[..., -1:]), np.nan, found)
    moved = found.transpose(found.ndim - 1, *range(found.ndim - 1)).reshape((*q.shape, *shape))
    return moved.astype(a.dtype) if method in _CHOOSING and a.dtype.kind in "iu" else moved


def _with_precision(a: Any, q: Any) -> Any:
    """The elements as floats, in the precision of parts that are no number of Python's."""
    a = a.as_float()
    return a if is_number(q) else a.astype(np.result_type(a.dtype, constant(q, "quantile").dtype))


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Elements at percents `q`, which are known, of sorted ones over axes.

    >>> np.percentile(x, 30), np.percentile(x, [25, 75], axis=0)
    """
    parts = q / 100 if is_number(q) else constant(q, "percentile") / 100
    return quantile(a, parts, axis, None, False, method, keepdims, weights=weights)


def _along_last(x: Any, axis: Any, keepdims: bool) -> tuple[Any, list[int], tuple[Any, ...]]:
    """The axes that are reduced as one last axis, them, and the shape of what is left."""
    axes = axes_of(axis, x.ndim)
    rest = [each for each in range(x.ndim) if each not in axes]
    whole: Any = 1
    for each in axes:
        whole = whole * x.shape[each]
    left = tuple(x.shape[each] for each in rest)
    flat = (x.transpose(*rest, *axes) if x.ndim else x).reshape((*left, whole))
    kept = tuple(1 if each in axes else x.shape[each] for each in range(x.ndim))
    return flat, axes, kept if keepdims else left


# Without NaN ----------------------------------------------------------------------------------


def _floats(a: Any) -> tuple[Any, Any]:
    """The array, and where it is a number."""
    a = operand(a)
    return a, ~isnan(a) if a.dtype.kind == "f" else (a == a)


def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Any:  # fmt: skip
    """The sum over axes, of numbers alone.

    >>> np.nansum(n, axis=0)
    """
    a, held = _floats(a)
    return a.sum(axis, dtype, keepdims=keepdims, initial=initial, where=held & where)


def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Any:  # fmt: skip
    """The product over axes, of numbers alone.

    >>> np.nanprod(n, axis=1)
    """
    a, held = _floats(a)
    return a.prod(axis, dtype, keepdims=keepdims, initial=initial, where=held & where)


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *,
    where: Any = True,
) -> Any:  # fmt: skip
    """The mean over axes, of numbers alone.

    >>> np.nanmean(n, axis=0)
    """
    a, held = _floats(a)
    return a.mean(axis, dtype, keepdims=keepdims, where=held & where)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Any = None,
    correction: float | None = None,
) -> Any:  # fmt: skip
    """The variance over axes, of numbers alone.

    >>> np.nanvar(n, axis=0), np.nanvar(n, ddof=1)
    """
    a, held = _floats(a)
    less = ddof if correction is None else correction
    return a.var(axis, dtype, None, less, keepdims, where=held & where, mean=mean)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Any = None,
    correction: float | None = None,
) -> Any:  # fmt: skip
    """The standard deviation over axes, of numbers alone.

    >>> np.nanstd(n, axis=1)
    """
    less = ddof if correction is None else correction
    return root_of_sums(nanvar(a, axis, dtype, None, less, keepdims, where=where, mean=mean))


def _extremum(name: str, worst: float) -> Callable[..., Any]:
    def function(a: Any, axis: Any, keepdims: bool, initial: Any, held: Any) -> Any:
        a, numbers = _floats(a)
        if a.dtype.kind != "f" and held is True:
            return getattr(a, name)(axis, keepdims=keepdims, initial=initial)
        chosen = numbers & held
        start = worst if initial is None else initial
        found = getattr(where(chosen, a, start), name)(axis, keepdims=keepdims)
        if initial is not None:
            return found
        return where(reductions.any(chosen, axis, keepdims), found, np.nan)

    return function


_max, _min = _extremum("max", -np.inf), _extremum("min", np.inf)


def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """The greatest number over axes.

    >>> np.nanmax(n), np.nanmax(n, axis=0)
    """
    return _max(a, axis, keepdims, initial, where)


def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """The least number over axes.

    >>> np.nanmin(n), np.nanmin(n, axis=0)
    """
    return _min(a, axis, keepdims, initial, where)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the greatest number along an axis.

    >>> np.nanargmax(n, axis=0)
    """
    a, held = _floats(a)
    found = a if a.dtype.kind != "f" else where(held, a, -np.inf)
    found = found if found.ndim else found.reshape(1)
    return found.argmax(axis, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the least number along an axis.

    >>> np.nanargmin(n, axis=1)
    """
    a, held = _floats(a)
    found = a if a.dtype.kind != "f" else where(held, a, np.inf)
    found = found if found.ndim else found.reshape(1)
    return found.argmin(axis, keepdims=keepdims)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums up to each element, of numbers alone.

    >>> np.nancumsum(n, axis=1)
    """
    a, held = _floats(a)
    return where(held, a, 0).cumsum(axis, dtype)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The products up to each element, of numbers alone.

    >>> np.nancumprod(n)
    """
    a, held = _floats(a)
    return where(held, a, 1).cumprod(axis, dtype)


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The middle number over axes.

    >>> np.nanmedian(n, axis=0)
    """
    return nanquantile(a, 0.5, axis, keepdims=keepdims)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Numbers at one part `q` of sorted ones over axes.

    >>> np.nanquantile(n, 0.3, axis=0)
    """
    if weights is not None or method != "linear" or np.ndim(constant(q, "nanquantile")):
        raise refuse("nanquantile requires one part and the linear method", f"{q}, {method}")
    flat, _, shape = _along_last(operand(a).as_float(), axis, keepdims)
    ordered = selections.sort(flat, -1)  # NaN comes last
    count = (~isnan(flat)).astype(np.int64).sum(-1, keepdims=True)
    at = (count - 1).astype(flat.dtype) * float(q)
    low = where(count > 0, at.astype(np.int64), 0)
    high = where(low + 1 < count, low + 1, low)
    below, above = (take_along_axis(ordered, each, -1) for each in (low, high))
    part = at - low.astype(flat.dtype)
    return (below + where(part == 0, 0.0, above - below) * part).reshape(shape)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Numbers at one percent `q` of sorted ones over axes.

    >>> np.nanpercentile(n, 30)
    """
    part = constant(q, "nanpercentile") / 100
    return nanquantile(a, part, axis, None, False, method, keepdims, weights=weights)


# Correlations ----------------------------------------------------------------------


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariances of rows, or of columns.

    >>> np.cov(x), np.cov(x, rowvar=False), np.cov(v, v[::-1], ddof=0), np.cov(v)
    >>> np.cov(x, aweights=v)
    """
    if fweights is not None:
        raise refuse("cov requires aweights or none", "fweights")
    rows = as_double(operand(m)) if dtype is None else operand(m).astype(dtype)
    rows = rows.reshape(1, -1) if rows.ndim < 2 else rows if rowvar else rows.T
    if y is not None:
        other = operand(y, rows).astype(rows.dtype)
        other = other.reshape(1, -1) if other.ndim < 2 else other if rowvar else other.T
        rows = vstack([rows, other])
    less = ddof if ddof is not None else (0 if bias else 1)
    if aweights is None:
        centred = rows - rows.mean(1, keepdims=True)
        found = centred @ centred.T.conj()
        degrees = known(rows.shape[1], "cov") - less
        found = found * (1.0 / degrees if degrees > 0 else np.inf)
    else:
        weights = operand(aweights, rows).astype(np.float64)
        total = weights.sum()
        centred = rows - ((rows * weights).sum(1) / total).reshape(-1, 1)
        factor = total - less * (weights * weights).sum() / total
        found = (centred * weights) @ centred.T.conj() / factor
    return found.reshape(()) if found.shape[0] == 1 else found


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlations of rows, or of columns.

    >>> np.corrcoef(x), np.corrcoef(v, v[::-1])
    """
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    deviation = products.diagonal(found).real ** 0.5
    found = found / deviation.reshape(-1, 1) / deviation
    if found.dtype.kind == "c":
        return found.real.clip(-1.0, 1.0) + 1j * found.imag.clip(-1.0, 1.0)
    return found.clip(-1.0, 1.0)
