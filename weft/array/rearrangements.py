"""Functions of the array API standard that put elements elsewhere: by graph operators on weft's
tensors, NumPy's own on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from weft.array.composites import composite, leader
from weft.array.elementwise import alike
from weft.array.operators import ArrayOperators, axes_of, axis_of, common_dtype, listed, users_line

_numpy: Any = np  # whose overloads ask for more than arrays


def concat(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """Arrays one behind the other along an axis; flat without one. The slices of one array along
    its first axis are taken for arrays, too.
    """
    if isinstance(arrays, ArrayOperators):
        return _joined(arrays, axis)
    if axis is not None and arrays and alike(*arrays):
        return arrays[0].op("concat", *arrays, axis=axis_of(axis, arrays[0].ndim))
    first = leader(*arrays)
    if first is None:
        return _numpy.concatenate(arrays, axis)
    parts = [first.lifted(each) for each in arrays]
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    dtypes = {part.dtype for part in parts}
    if len(dtypes) > 1:
        common = common_dtype(*[part.dtype for part in parts])
        parts = [part.astype(common) for part in parts]
    return first.op("concat", *parts, axis=axis_of(axis, parts[0].ndim))


def _joined(x: Any, axis: int | None) -> Any:
    """`concat` of the slices of an array, of which there may be any number."""
    if axis is None:
        return x.reshape(-1)
    position = axis_of(axis, x.ndim - 1)
    moved = moveaxis(x, 0, position)
    count, size, *after = moved.shape[position:]
    return moved.reshape((*moved.shape[:position], count * size, *after))


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis, which an array that holds them has as its first."""
    if isinstance(arrays, ArrayOperators):
        return moveaxis(arrays, 0, axis)
    if arrays and alike(*arrays) and len({each.ndim for each in arrays}) == 1:
        return composite(_stacked, *arrays, axis=axis)
    first = leader(*arrays)
    if first is None:
        return _numpy.stack(arrays, axis)
    return _stacked(*[first.lifted(each) for each in arrays], axis=axis)


def _stacked(*parts: Any, axis: int) -> Any:
    return concat([expand_dims(each, axis) for each in parts], axis_of(axis, parts[0].ndim + 1))


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, as many as it has places."""
    front = (slice(None),) * axis_of(axis, x.ndim)
    return tuple(x[(*front, position)] for position in range(x.shape[axis]))


def reshape(x: Any, shape: Any, *, copy: bool | None = None) -> Any:
    """Other dims for the same elements in the same order; one may be -1."""
    return x.reshape(shape)


def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """The axes in another order."""
    return x.transpose(*axes) if axes else x


def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    return x.mT


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other places; the others keep their order."""
    if not isinstance(x, ArrayOperators):
        return _numpy.moveaxis(x, source, destination)
    rank = x.ndim
    order = [*range(rank)]
    if isinstance(source, int) and isinstance(destination, int):
        order.insert(axis_of(destination, rank), order.pop(axis_of(source, rank)))
    else:
        given, wanted = ([e] if isinstance(e, int) else e for e in (source, destination))
        moved = dict(zip(axes_of(wanted, rank), axes_of(given, rank), strict=True))
        rest = iter([axis for axis in order if axis not in moved.values()])
        order = [moved[to] if to in moved else next(rest) for to in order]
    return x if order == sorted(order) else permute_dims(x, order)


def expand_dims(x: Any, axis: int | Sequence[int] = 0) -> Any:
    """A new axis of size 1 in that place of the result, or in several."""
    rank = x.ndim + len(listed(axis))
    new, old = axes_of(axis, rank), iter(x.shape)
    found = tuple(1 if position in new else next(old) for position in range(rank))
    return x.regrouped(found) if isinstance(x, ArrayOperators) else x.reshape(found)


def squeeze(x: Any, axis: int | Sequence[int]) -> Any:
    """The tensor without these axes of size 1."""
    axes = axes_of(axis, x.ndim)
    for each in axes:
        if x.shape[each] != 1:
            got = f"one of {x.shape[each]}"
            raise ValueError(f"{users_line()}: squeeze requires axes of size 1, got {got}")
    found = tuple(size for position, size in enumerate(x.shape) if position not in axes)
    return x.regrouped(found) if isinstance(x, ArrayOperators) else x.reshape(found)


def broadcast_to(x: Any, shape: Sequence[Any]) -> Any:
    """The elements repeated along new axes in front and along those of size 1."""
    if isinstance(x, ArrayOperators):
        return x.broadcast_to(shape)
    return _numpy.broadcast_to(x, tuple(shape))


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays, each with the shape that all are broadcast to."""
    if leader(*arrays) is None:
        return [*_numpy.broadcast_arrays(*arrays)]
    rank = max(len(each.shape) for each in arrays)
    shape: list[Any] = [1] * rank
    for each in arrays:
        for position, size in enumerate(each.shape, rank - len(each.shape)):
            shape[position] = size if shape[position] == 1 else shape[position]
    return [broadcast_to(each, shape) for each in arrays]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Coordinates of a grid out of those along its axes; "xy" has the second axis in front."""
    rank = len(arrays)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else [*range(rank)]
    wide = [
        each.reshape(tuple(-1 if axis == position else 1 for axis in order))
        for position, each in enumerate(arrays)
    ]
    return broadcast_arrays(*wide)


def flip(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements along an axis, several or all, from the last to the first."""
    chosen = axes_of(axis, x.ndim)
    back = [slice(None, None, -1 if position in chosen else None) for position in range(x.ndim)]
    return x[tuple(back)]


def roll(x: Any, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Any:
    """The elements moved on by `shift` places along axes, or in the flat tensor; the last ones
    come first.
    """
    if not isinstance(x, ArrayOperators):
        return _numpy.roll(x, shift, axis)
    if axis is None and x.ndim != 1:
        return roll(x.reshape(-1), shift, 0).reshape(x.shape)
    axes = [axis or 0] if axis is None or isinstance(axis, int) else [*axis]
    given: Any = shift
    shifts: list[Any] = [*given] if isinstance(shift, tuple | list) else [given] * len(axes)
    for position, by in zip(axes, shifts, strict=True):
        x = _rotated(x, axis_of(position, x.ndim), by) if is_unknown(by) else x
    moves = [(position, by if isinstance(by, int) else int(by))
             for position, by in zip(axes, shifts, strict=True) if not is_unknown(by)]  # fmt: skip
    return x.rolled(moves) if moves else x


def is_unknown(value: Any) -> bool:
    """Whether it is a tensor whose elements a call finds."""
    return isinstance(value, ArrayOperators) and not value.has_values


def _rotated(x: Any, axis: int, by: Any) -> Any:
    """The elements along an axis moved on by a number of places that a call finds."""
    ones = by.constant(np.asarray(1, np.int64)).broadcast_to(x.shape[axis : axis + 1])
    places = ones.cumsum(0) - 1 - by
    return x.op("gather", x, places % ones.sum(), axis=axis)


def tile(x: Any, repetitions: Sequence[int]) -> Any:
    """The tensor so many times along each axis; where there are fewer numbers, the last axes."""
    if not isinstance(x, ArrayOperators):
        return _numpy.tile(x, repetitions)
    rank = max(x.ndim, len(repetitions))
    sizes = (*[1] * (rank - x.ndim), *x.shape)
    counts = (*[1] * (rank - len(repetitions)), *map(x.extent, repetitions))
    between = tuple(each for size in sizes for each in (1, size))
    wide = tuple(each for pair in zip(counts, sizes, strict=True) for each in pair)
    whole = tuple(count * size for count, size in zip(counts, sizes, strict=True))
    return x.reshape(between).broadcast_to(wide).reshape(whole)


def extents(shape: Any) -> list[Any]:
    """The sizes that stand in a tuple, a list or an array of one axis; anything else alone."""
    return [*shape] if getattr(shape, "ndim", 0) == 1 else listed(shape)


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each slice along an axis, or each element, so many times, one number for all or one each."""
    if not isinstance(x, ArrayOperators):
        return _numpy.repeat(x, np.asarray(repeats), axis)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, list | tuple) or getattr(repeats, "ndim", 0):
        counts = np.asarray(cast("Any", repeats))
        positions = _numpy.repeat(_numpy.arange(x.shape[axis]), counts)
        return x[(*[slice(None)] * axis_of(axis, x.ndim), positions)]
    position = axis_of(axis, x.ndim)
    repeats = x.extent(repeats)
    before, size, after = x.shape[:position], x.shape[position], x.shape[position + 1 :]
    wide = x.reshape((*before, size, 1, *after)).broadcast_to((*before, size, repeats, *after))
    return wide.reshape((*before, size * repeats, *after))


def triu(x: Any, k: int = 0) -> Any:
    """The elements on and above a diagonal, zeros below."""
    if not isinstance(x, ArrayOperators):
        return _numpy.triu(x, k)
    return x.op("trilu", x, upper=True, k=k)


def tril(x: Any, k: int = 0) -> Any:
    """The elements on and below a diagonal, zeros above."""
    if not isinstance(x, ArrayOperators):
        return _numpy.tril(x, k)
    return x.op("trilu", x, upper=False, k=k)


def holds_tensors(values: Any) -> bool:
    """Whether it is a tensor, or a list that holds one."""
    if isinstance(values, list | tuple):
        return any(map(holds_tensors, cast("Sequence[Any]", values)))
    return isinstance(values, ArrayOperators)


def of_list(x: Any, values: Any) -> Any:
    """A list of numbers and tensors as a tensor like `x`."""
    if not holds_tensors(values):
        return x.constant(np.asarray(values))
    return stack([x.lifted(each) for each in values])
