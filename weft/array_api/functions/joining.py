"""NumPy's functions that put arrays together, take them apart, and put elements elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from weft.array import rearrangements
from weft.array.elementwise import where
from weft.array.operators import axes_of, axis_of, listed
from weft.array.rearrangements import concat, extents, flip, moveaxis
from weft.array.selections import take
from weft.array_api.operands import (
    array_operand,
    constant,
    is_integer,
    known,
    operand,
    operands,
    refuse,
)


def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Arrays one behind the other along an axis; flat without one.

    >>> np.concatenate([x, x[:1]], axis=0), np.concatenate((x, i), axis=None)
    """
    found = concat(arrays if hasattr(arrays, "ndim") else operands(arrays), axis)
    return found if dtype is None else found.astype(dtype, casting=casting)


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Arrays of one shape along a new axis.

    >>> np.stack([x, x], axis=-1)
    """
    found = rearrangements.stack(arrays if hasattr(arrays, "ndim") else operands(arrays), axis)
    return found if dtype is None else found.astype(dtype, casting=casting)


def atleast_1d(*arys: Any) -> Any:
    """Arrays with one axis at least.

    >>> np.atleast_1d(v[0]), np.atleast_1d(x)
    """
    return _of_each(arys, lambda x: x if x.ndim else x.reshape(1))


def atleast_2d(*arys: Any) -> Any:
    """Arrays with two axes at least; a vector is a row.

    >>> np.atleast_2d(v)
    """
    return _of_each(arys, lambda x: x if x.ndim > 1 else x.reshape(1, -1))


def atleast_3d(*arys: Any) -> Any:
    """Arrays with three axes at least.

    >>> np.atleast_3d(x), np.atleast_3d(v)
    """

    def wide(x: Any) -> Any:
        if x.ndim > 2:
            return x
        return x[:, :, None] if x.ndim == 2 else x.reshape(1, -1, 1)

    return _of_each(arys, wide)


def _of_each(arrays: Sequence[Any], function: Callable[[Any], Any]) -> Any:
    found = tuple(function(operand(each, *arrays)) for each in arrays)
    return found[0] if len(found) == 1 else found


def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Arrays below each other, vectors as rows.

    >>> np.vstack([v, x])
    """
    rows = [each if each.ndim > 1 else each.reshape(1, -1) for each in operands(tup)]
    return concatenate(rows, 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Arrays beside each other, vectors one behind the other.

    >>> np.hstack([v, v[:2]]), np.hstack((x, x))
    """
    parts = [each if each.ndim else each.reshape(1) for each in operands(tup)]
    axis = 0 if parts[0].ndim == 1 else 1
    return concatenate(parts, axis, dtype=dtype, casting=casting)


def dstack(tup: Any) -> Any:
    """Arrays along a third axis.

    >>> np.dstack((x, x))
    """
    return concatenate([atleast_3d(each) for each in operands(tup)], 2)


def column_stack(tup: Any) -> Any:
    """Vectors as columns, beside the columns of matrices.

    >>> np.column_stack((v, x))
    """
    parts = [each if each.ndim > 1 else each.reshape(-1, 1) for each in operands(tup)]
    return concatenate(parts, 1)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Values behind an array; both flat without an axis.

    >>> np.append(v, 3.0), np.append(x, [v], axis=0)
    """
    return concatenate((operand(arr, *listed(values)), array_operand(values, arr)), axis)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Values in front of a known index, or of several, along an axis.

    >>> np.insert(v, 1, 9.0), np.insert(x, [0, 2], v[:2, None], axis=0)
    """
    arr = operand(arr, *listed(values))
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    position = axis_of(axis, arr.ndim)
    size = known(arr.shape[position], "insert")
    if isinstance(obj, slice):
        obj = np.arange(size)[obj]
    where_ = constant(obj, "insert")
    values = operand(values, arr).astype(arr.dtype)
    if where_.ndim == 0 and values.ndim and arr.ndim > 1:
        values = moveaxis(values if values.ndim == arr.ndim else values[None], 0, position)
    at = np.where(where_ < 0, where_ + size, where_).reshape(-1)
    count = at.size
    if where_.ndim == 0:
        count = values.shape[position] if values.ndim == arr.ndim else 1
        at = np.repeat(at, count)
    shape = list(arr.shape)
    shape[position] = count
    order = np.argsort(np.concatenate([np.arange(size), at - 0.5]), kind="stable")
    return take(concat([arr, values.broadcast_to(shape)], position), order, position)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without known indices along an axis.

    >>> np.delete(v, 1), np.delete(x, [0, -1], axis=1)
    """
    arr = operand(arr)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    size = known(arr.shape[axis], "delete")
    gone: Any = cast("Any", obj) if isinstance(obj, slice) else constant(obj, "delete")
    if isinstance(obj, list) and not gone.size:  # NumPy has [] as floats
        gone = gone.astype(np.int64)
    return take(arr, np.delete(np.arange(size), gone), axis)


# Taking apart ---------------------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """So many equal parts along an axis, or parts that begin at known indices.

    >>> np.split(x, 3), np.split(v, [1, 2])
    """
    ary = operand(ary)
    size = ary.shape[axis_of(axis, ary.ndim)]
    sections = indices_or_sections
    if is_integer(sections) and known(size, "split") % int(sections):
        raise refuse("split requires equal parts", f"{sections} of {size}", "np.array_split")
    return array_split(ary, sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """So many parts along an axis, the first of which may be longer by one.

    >>> np.array_split(v, 2), np.array_split(x, [1], axis=1)
    """
    ary = operand(ary)
    position = axis_of(axis, ary.ndim)
    front, size = (slice(None),) * position, ary.shape[position]
    if is_integer(indices_or_sections):
        parts = int(indices_or_sections)
        whole, rest = divmod(known(size, "array_split"), parts)
        ends = np.cumsum([0] + rest * [whole + 1] + (parts - rest) * [whole]).tolist()
    else:
        ends = [0, *(int(each) for each in indices_or_sections), None]
    return [ary[(*front, slice(*pair))] for pair in zip(ends[:-1], ends[1:], strict=True)]


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis.

    >>> np.vsplit(x, 3)
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis, of a vector along the first.

    >>> np.hsplit(x, 3), np.hsplit(v, 3)
    """
    return split(ary, indices_or_sections, 0 if operand(ary).ndim == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis.

    >>> np.dsplit(np.dstack((x, x)), 2)
    """
    return split(ary, indices_or_sections, 2)


# Moving elements ------------------------------------------------------------------------------


def flipud(m: Any) -> Any:
    """The rows from the last to the first.

    >>> np.flipud(x)
    """
    return flip(operand(m), 0)


def fliplr(m: Any) -> Any:
    """The columns from the last to the first.

    >>> np.fliplr(x)
    """
    return flip(operand(m), 1)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """A quarter of a full rotation from the first axis to the second, so many times.

    >>> np.rot90(x), np.rot90(x[:2], 3)
    """
    m = operand(m)
    first, second = axes_of(axes, m.ndim)
    if k % 2 == 0:
        return flip(m, [first, second]) if k % 4 else m[...]
    return (
        flip(m, second).swapaxes(first, second)
        if k % 4 == 1
        else flip(m.swapaxes(first, second), second)
    )


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved in front of another.

    >>> np.rollaxis(x, 1)
    """
    a = operand(a)
    axis, start = axis_of(axis, a.ndim), start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - (axis < start))


def resize(a: Any, new_shape: Any) -> Any:
    """Another shape, with the elements again and again.

    >>> np.resize(v, (2, 4))
    """
    flat = operand(a).reshape(-1)
    shape = tuple(extents(new_shape))
    count = int(np.prod(shape))
    return take(flat, np.arange(count) % known(flat.shape[0], "resize"), 0).reshape(shape)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """A vector of known elements without zeros at its ends.

    >>> np.trim_zeros(v)
    """
    if not filt.ndim:
        return filt
    kept = np.flatnonzero(constant(filt, "trim_zeros"))
    size = known(filt.shape[0], "trim_zeros")
    low = (kept[0] if kept.size else size) if "f" in trim.lower() else 0
    high = (kept[-1] + 1 if kept.size else 0) if "b" in trim.lower() else size
    return filt[int(low) : int(max(high, low))]


def tile(A: Any, reps: Any) -> Any:  # noqa: N803  NumPy's name
    """The array so many times along each axis.

    >>> np.tile(v, 2), np.tile(x, (2, 1))
    """
    return rearrangements.tile(operand(A), extents(reps))


def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """Arrays with the shape that all are broadcast to.

    >>> np.broadcast_arrays(x, v)
    """
    return tuple(rearrangements.broadcast_arrays(*(operand(each, *args) for each in args)))


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """The elements repeated along new axes and along those of size 1.

    >>> np.broadcast_to(v, (2, 3))
    """
    return rearrangements.broadcast_to(operand(array), extents(shape))


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinates of a grid out of those along its axes.

    >>> np.meshgrid(v, v[:2]), np.meshgrid(v, v[:2], indexing="ij", sparse=True)
    """
    arrays = [operand(each, *xi).reshape(-1) for each in xi]
    if not sparse:
        found = rearrangements.meshgrid(*arrays, indexing=indexing)
        return tuple(each.copy() if copy else each for each in found)
    rank = len(arrays)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else [*range(rank)]
    wide = [[-1 if axis == position else 1 for axis in order] for position in range(rank)]
    found = [each.reshape(tuple(shape)) for each, shape in zip(arrays, wide, strict=True)]
    return tuple(each.copy() if copy else each for each in found)


def block(arrays: Any) -> Any:
    """Nested lists of arrays joined along the last axes.

    >>> np.block([[x, x], [x[:1], x[1:2]]])
    """
    depth = _depth(arrays)

    def joined(each: Any, level: int) -> Any:
        if not isinstance(each, list):
            found = operand(each)
            return found.reshape((1,) * max(depth - found.ndim, 0) + tuple(found.shape))
        parts = [joined(part, level + 1) for part in cast("list[Any]", each)]
        return concat(parts, level - depth)

    return joined(arrays, 0) if depth else operand(arrays).copy()


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def ix_(*args: Any) -> Any:
    """Vectors as indices of an open grid.

    >>> x[np.ix_(i[:, 0] - i[:, 0], i[0] - i[0])]
    """
    found: list[Any] = []
    for position, each in enumerate(args):
        vector = operand(each)
        if vector.dtype == np.bool_:
            (vector,) = vector.nonzero()
        found.append(vector.reshape((1,) * position + (-1,) + (1,) * (len(args) - position - 1)))
    return tuple(found)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """For each index the element of the array of that number.

    >>> np.choose(abs(i) % 2, [x, -x])
    """
    a = operand(a, *choices)
    parts = operands(choices, a)
    count = len(parts)
    at = a % count if mode == "wrap" else a
    found = parts[-1]
    for position in range(count - 2, -1, -1):
        found = where(at == position if position else at <= 0, parts[position], found)
    return found


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element the choice of the first condition that holds.

    >>> np.select([x > 0.5, i > 0], [x, x * 2], default=-1.0)
    """
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(operand(condition), choice, found)
    return found
