"""Functions of the array API standard that choose, sort and compare elements along axes: by graph
operators on weft's tensors, NumPy's own on arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from weft.array.composites import composite, leader
from weft.array.elementwise import alike, where
from weft.array.operators import ArrayOperators, axis_of, is_number, users_line
from weft.array.rearrangements import concat
from weft.array.reductions import cumulative_sum
from weft.dialects.errors import WeftError

_numpy: Any = np  # whose overloads ask for more than arrays
_INT64: Final = np.dtype(np.int64)


def _position_of(name: str, of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        if not isinstance(x, ArrayOperators):
            return of_numpy(x, axis, keepdims=keepdims)
        return composite(_position, x, name=name, axis=axis, keepdims=keepdims)

    function.__name__ = name
    function.__doc__ = "The place of the extreme element along an axis, or in the flat tensor."
    return function


def _position(x: Any, name: str, axis: int | None, keepdims: bool) -> Any:
    whole = x.astype(np.uint8) if x.dtype == np.bool_ else x
    along = whole.reshape(-1) if axis is None else whole
    position = 0 if axis is None else axis_of(axis, x.ndim)
    kept = keepdims and axis is not None
    return along.op(name, along, axis=position, keepdims=kept, select_last_index=False)


argmax, argmin = _position_of("arg_max", _numpy.argmax), _position_of("arg_min", _numpy.argmin)


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The slices along an axis at these places."""
    return _gathered("gather", _numpy.take, x, indices, axis)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """Along an axis, for each place of `indices` the element that it names."""
    return _gathered("gather_elements", _numpy.take_along_axis, x, indices, axis)


def _gathered(name: str, on_arrays: Any, x: Any, indices: Any, axis: int) -> Any:
    """What an operator reads at places along an axis; tensors of one type go a shorter way."""
    if type(x) is type(indices) and isinstance(x, ArrayOperators) and indices.dtype == _INT64:
        position = axis_of(axis, x.ndim)
        indices.require_within(x.shape[position])
        return x.op(name, x, indices, axis=position)
    first = leader(x, indices)
    if first is None:
        return on_arrays(x, indices, axis)
    table = first.lifted(x)
    positions = first.lifted(np.asarray(indices) if is_number(indices) else indices)
    if positions.dtype.kind not in "iu":
        rule = "places along an axis require integers"
        raise WeftError(f"{users_line()}: {rule}, got {positions.dtype}")
    position = axis_of(axis, table.ndim)
    positions.require_within(table.shape[position])
    return first.op(name, table, positions.astype(np.int64), axis=position)


def argsort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The places of the elements along an axis in sorted order; equal ones keep theirs."""
    if not isinstance(x, ArrayOperators):
        if not descending:
            return _numpy.argsort(x, axis, stable=stable)
        behind = _numpy.argsort(_numpy.flip(x, axis), axis, stable=True)
        return x.shape[axis] - 1 - _numpy.flip(behind, axis)
    return composite(_argsort, x, axis=axis_of(axis, x.ndim), descending=descending)


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    whole = x.astype(np.uint8) if x.dtype == np.bool_ else x
    count = (x.shape[axis],)
    return x.op("argsort", whole, axis=axis, descending=descending, count=count)


def sort(x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements along an axis in sorted order."""
    if not isinstance(x, ArrayOperators):
        ordered = _numpy.sort(x, axis, stable=stable)
        return _numpy.flip(ordered, axis) if descending else ordered
    return composite(_sort, x, axis=axis_of(axis, x.ndim), descending=descending)


def _sort(x: Any, axis: int, descending: bool) -> Any:
    return x.op("gather_elements", x, _argsort(x, axis, descending), axis=axis)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The places in sorted `x1` in front of which, or behind with side "right", elements of `x2` go
    without disturbing the order.
    """
    right = side == "right"
    if sorter is None and alike(x1, x2):
        return composite(_positions_before, x1, x2, right=right)
    first = leader(x1, x2, sorter)
    if first is None:
        return _numpy.searchsorted(x1, x2, side, sorter)
    table, wanted = first.lifted(x1).promoted(x2)
    ordered = table if sorter is None else take(table, sorter)
    return composite(_positions_before, ordered, wanted, right=right)


def _positions_before(table: Any, wanted: Any, right: bool) -> Any:
    """How many elements of a table are less than each one, or equal."""
    wanted = wanted.reshape((*wanted.shape, 1))
    before = table <= wanted if right else table < wanted
    if table.dtype.kind == "f":  # NaN counts as the greatest
        none = table != table
        before = where(wanted != wanted, True if right else ~none, before)
    return before.astype(np.int64).sum(-1)


def nonzero(x: Any) -> tuple[Any, ...]:
    """The places of the elements that are not zero, a tensor of integers an axis."""
    return x.nonzero() if isinstance(x, ArrayOperators) else _numpy.nonzero(x)


# Sets -----------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any) -> UniqueAll:
    """The different elements in sorted order, the place where each one is first, for every element
    its place among them, and how often each one is there. Each NaN differs from others.
    """
    if not isinstance(x, ArrayOperators):
        return UniqueAll(*_numpy.unique_all(x))
    order, ordered, new = _runs(x)
    (starts,) = nonzero(new)
    number = cumulative_sum(new)
    inverse = take(number - 1, argsort(order)).reshape(x.shape)
    ends = concat([starts, (number * 0 + 1).sum().reshape(1)])
    counts = take(ends, cumulative_sum(starts * 0 + 1)) - starts
    return UniqueAll(take(ordered, starts), take(order, starts), inverse, counts)


def unique_counts(x: Any) -> UniqueCounts:
    """The different elements in sorted order, and how often each one is there."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any) -> UniqueInverse:
    """The different elements in sorted order, and for every element its place among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any) -> Any:
    """The different elements in sorted order."""
    if not isinstance(x, ArrayOperators):
        return _numpy.unique(x, equal_nan=False)
    _, ordered, new = _runs(x)
    return ordered[new]


def _runs(x: Any) -> tuple[Any, Any, Any]:
    """The flat order of the elements, these in it, and which differ from those in front of them."""
    flat = x.reshape(-1)
    order = argsort(flat)
    ordered = take(flat, order)
    return order, ordered, composite(_starts, ordered)


def _starts(ordered: Any) -> Any:
    """Which elements differ from those in front of them."""
    ones = (ordered == ordered).astype(np.int64) * 0 + 1
    positions = ordered.op("cumsum", ones, axis=0, exclusive=True, reverse=False)
    before = take(ordered, where(positions > 0, positions - 1, 0))
    return (positions == 0) | (ordered != before)


def diff(x: Any, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, so many times over."""
    whole = [each for each in (prepend, x, append) if each is not None]
    x = concat(whole, axis) if len(whole) > 1 else x
    front = (slice(None),) * axis_of(axis, x.ndim)
    later, earlier = (*front, slice(1, None)), (*front, slice(None, -1))
    for _ in range(n):
        x = x[later] != x[earlier] if x.dtype == np.bool_ else x[later] - x[earlier]
    return x
