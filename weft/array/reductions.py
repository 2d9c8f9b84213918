"""Functions of the array API standard that reduce axes, or add up along one: by graph operators on
weft's tensors, NumPy's own on arrays.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array.composites import composite
from weft.array.elementwise import lifted, maximum, root_of_sums
from weft.array.operators import ArrayOperators, Axes, axes_of, axis_of
from weft.array.rearrangements import concat


def _reduction(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if isinstance(x, ArrayOperators):
            return getattr(x, name)(axis, keepdims=keepdims)
        chosen = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return getattr(np, name)(x, chosen, keepdims=keepdims)

    function.__name__ = name
    function.__doc__ = f"The {name} over one axis, several, or all."
    return function


def _total(name: str) -> Callable[..., Any]:
    reduced = _reduction(name)

    def function(x: Any, axis: Axes = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
        if dtype is None:
            return reduced(x, axis, keepdims)
        return reduced(x.astype(dtype), axis, keepdims).astype(dtype)

    function.__name__ = name
    function.__doc__ = f"The {name} over one axis, several, or all, in a dtype of its own if given."
    return function


mean, max, min = map(_reduction, ("mean", "max", "min"))
sum, prod = map(_total, ("sum", "prod"))


def var(x: Any, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean square distance from the mean; the count is lessened by `correction`."""
    if not isinstance(x, ArrayOperators):
        chosen = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return np.var(x, chosen, ddof=correction, keepdims=keepdims)
    if not correction:
        return composite(_variance, x, axis=axis, keepdims=keepdims)
    factor = _correcting(x, axis, correction)
    return composite(_corrected_variance, x, factor, axis=axis, keepdims=keepdims)


def _variance(x: Any, axis: Axes, keepdims: bool) -> Any:
    centred = x - mean(x, axis, True)
    return mean(centred * centred, axis, keepdims)


def _correcting(x: Any, axis: Axes, correction: float) -> Any:
    """By what a mean is multiplied whose count is lessened."""
    count: Any = 1
    for each in axes_of(axis, x.ndim):
        count = count * x.shape[each]
    like = x.as_float()
    if isinstance(count, int):
        left = builtins.max(count - correction, 0)
        return lifted(like, count / left if left else np.inf if count else np.nan)
    total = x.recording.dims(count).astype(like.dtype)
    return total / maximum(total - correction, 0)


def _corrected_variance(x: Any, factor: Any, axis: Axes, keepdims: bool) -> Any:
    return _variance(x, axis, keepdims) * factor


def std(x: Any, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance."""
    if correction or not isinstance(x, ArrayOperators):
        return root_of_sums(var(x, axis, correction, keepdims))
    return composite(_deviation, x, axis=axis, keepdims=keepdims)


def _deviation(x: Any, axis: Axes, keepdims: bool) -> Any:
    return root_of_sums(_variance(x, axis, keepdims))


_any: Any = np.any
_all: Any = np.all


def any(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether an element over axes is not zero."""
    if not isinstance(x, ArrayOperators):
        return _any(x, axis, keepdims=keepdims)
    return composite(_any_over, x, axis=axis, keepdims=keepdims)


def _any_over(x: Any, axis: Axes, keepdims: bool) -> Any:
    return (x != 0).astype(np.int32).reduced("reduce_max", axis, keepdims) > 0


def all(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether no element over axes is zero."""
    if not isinstance(x, ArrayOperators):
        return _all(x, axis, keepdims=keepdims)
    return composite(_all_over, x, axis=axis, keepdims=keepdims)


def _all_over(x: Any, axis: Axes, keepdims: bool) -> Any:
    return (x != 0).astype(np.int32).reduced("reduce_min", axis, keepdims) > 0


def _cumulative(name: str, of_numpy: Callable[..., Any], start: int) -> Callable[..., Any]:
    def function(
        x: Any, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        if axis is None and x.ndim > 1:
            raise ValueError(f"{name} requires an axis, got {x.ndim} axes and none")
        position = axis_of(axis or 0, x.ndim or 1)
        if not isinstance(x, ArrayOperators):
            found = of_numpy(x, position, dtype=dtype)
        else:
            wide = x.as_wide() if dtype is None else x.astype(dtype)
            found = wide.op(name, wide, axis=position, exclusive=False, reverse=False)
        if not include_initial:
            return found
        before = list(found.shape)
        before[position] = 1
        first = np.asarray(start, found.dtype)
        if isinstance(found, ArrayOperators):
            return concat([found.constant(first).broadcast_to(before), found], position)
        return concat([np.broadcast_to(first, before), found], position)

    function.__name__ = f"cumulative_{name.removeprefix('cum')}"
    function.__doc__ = "Sums or products of the elements up to each, along an axis."
    return function


cumulative_sum = _cumulative("cumsum", np.cumsum, 0)
cumulative_prod = _cumulative("cumprod", np.cumprod, 1)


def count_nonzero(x: Any, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero."""
    if not isinstance(x, ArrayOperators):
        return np.count_nonzero(x, axis, keepdims=keepdims)
    return composite(_count_over, x, axis=axis, keepdims=keepdims)


def _count_over(x: Any, axis: Axes, keepdims: bool) -> Any:
    return (x != 0).astype(np.int64).sum(axis, keepdims=keepdims)
