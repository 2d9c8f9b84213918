"""NumPy's functions that sort, choose, number and change elements."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import elementwise, reductions, selections
from weft.array.operators import ArrayOperators, axis_of, listed
from weft.array.rearrangements import concat, moveaxis
from weft.array.selections import take as slices_at
from weft.array_api.operands import known, leaves, operand, operands, refuse


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Elements of `x` where the condition holds, else of `y`; without both, where it holds.

    >>> np.where(x > 0.5, x, 0), np.where(i > 0, 1.0, 2.0)
    """
    if x is None and y is None:
        return operand(condition).nonzero()
    parts = [
        operand(each, *leaves(condition), *leaves(x), *leaves(y))
        if isinstance(each, list | tuple) else each for each in (condition, x, y)
    ]  # fmt: skip
    return elementwise.where(*parts)


def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The elements along an axis in sorted order.

    >>> np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)
    """
    a = operand(a)
    flat = a.ravel() if axis is None else a
    return selections.sort(flat, -1 if axis is None else axis, descending)


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The indices of the elements along an axis in sorted order.

    >>> np.argsort(x), np.argsort(x, axis=None)
    """
    a = operand(a)
    flat = a.ravel() if axis is None or not a.ndim else a
    return selections.argsort(flat, -1 if axis is None else axis, descending)


def sort_complex(a: Any) -> Any:
    """The elements as complex numbers, sorted by their real parts, then by the imaginary ones.

    >>> np.sort_complex(v), np.sort_complex(v * (1 - 2j))
    """
    a = operand(a)
    small = a.dtype.kind in "biu" and a.dtype.itemsize < 4 and a.dtype != np.bool_
    return sort(a if a.dtype.kind == "c" else a.astype(np.complex64 if small else np.complex128))


def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The elements along an axis, sorted, which puts those at `kth` where a partition has them.

    >>> np.partition(x, 1)[..., 1]
    """
    return sort(a, axis)


def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The indices of the elements along an axis in sorted order, which is a partition.

    >>> np.argpartition(x, 1)[..., 1]
    """
    return argsort(a, axis)


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The order by several keys, the last one first.

    >>> np.lexsort((v, i[0] - i[0]))
    """
    rows = operands(keys)
    order = selections.argsort(rows[0], axis)
    for key in rows[1:]:
        moved = selections.take_along_axis(key, order, axis)
        order = selections.take_along_axis(order, selections.argsort(moved, axis), axis)
    return order


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The indices of the sorted vector in front of which elements go.

    >>> np.searchsorted(np.sort(v), x, side="right")
    """
    return selections.searchsorted(operand(a, v), operand(v, a), side=side, sorter=sorter)


def flatnonzero(a: Any) -> Any:
    """The indices of the flat elements that are not zero.

    >>> np.flatnonzero(i)
    """
    return operand(a).reshape(-1).nonzero()[0]


def argwhere(a: Any) -> Any:
    """The indices of the elements that are not zero, a row each.

    >>> np.argwhere(i > 1)
    """
    a = operand(a)
    if not a.ndim:
        return argwhere(a.reshape(1))[:, :0]
    return concat([each.reshape(-1, 1) for each in a.nonzero()], 1)


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """The slices along an axis, or flat elements, for which a condition holds.

    >>> np.compress(v > 0.4, x, axis=0), np.compress([True, False, True], v)
    """
    a = operand(a, condition)
    condition = operand(condition, a) != 0
    flat, position = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))
    moved = moveaxis(flat, position, 0)
    count = known(condition.shape[0], "compress")
    moved = moved[:count] if count != moved.shape[0] else moved
    return moveaxis(moved[condition], 0, position)


def extract(condition: Any, arr: Any) -> Any:
    """The flat elements for which a condition holds.

    >>> np.extract(x > 0.5, x)
    """
    return compress(operand(condition, arr).reshape(-1), arr)


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Along an axis, for each index the element that it names.

    >>> np.take_along_axis(x, np.argsort(x, axis=0), axis=0)
    """
    arr = operand(arr, indices)
    flat = arr.ravel() if axis is None else arr
    return selections.take_along_axis(flat, indices, 0 if axis is None else axis)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """For each element what the function of the last condition that holds returns, or its number.

    >>> np.piecewise(x, [x < 0.3, x >= 0.3], [-1.0, lambda t: t * t])
    """
    x = operand(x)
    conditions = [operand(each) for each in condlist]
    found = (x * 0).astype(x.dtype)
    if len(funclist) > len(conditions):
        rest = funclist[-1]
        found = (found + (rest(x, *args, **kw) if callable(rest) else rest)).astype(x.dtype)
    for condition, function in zip(conditions, funclist, strict=False):
        value = function(x, *args, **kw) if callable(function) else function
        found = where(condition, operand(value, x).astype(x.dtype), found)
    return found


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """The slices along an axis, or the flat elements, at indices.

    >>> np.take(x, [0, 2], axis=1), np.take(v, i, mode="wrap"), np.take(x, 4)
    """
    a = operand(a, indices)
    flat, position = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))
    indices = indices if isinstance(indices, ArrayOperators) else a.constant(np.asarray(indices))
    size = flat.shape[position]
    if mode == "wrap":
        indices = indices % size
    if mode == "clip":
        indices = indices.clip(0, size - 1)
    return slices_at(flat, indices, position)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero.

    >>> np.count_nonzero(i, axis=0)
    """
    return reductions.count_nonzero(operand(a), axis=axis, keepdims=keepdims)


# Sets -----------------------------------------------------------------------------------------


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: Any = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The different elements in sorted order, and with them where each one is first, for each
    element its index among them, and how often each one is there.

    >>> np.unique(i % 3), np.unique(i % 2, return_counts=True, return_inverse=True)
    """
    ar = operand(ar)
    if axis is not None and ar.ndim != 1:
        raise refuse("unique requires axis=None", axis)
    if not (return_index or return_inverse or return_counts):
        return selections.unique_values(ar)
    found = selections.unique_all(ar)
    chosen = ((True, found.values), (return_index, found.indices),
              (return_inverse, found.inverse_indices), (return_counts, found.counts))  # fmt: skip
    return tuple(value for wanted, value in chosen if wanted)


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Which elements are among others.

    >>> np.isin(i, [1, 2]), np.isin(i, i[0], invert=True)
    """
    element, others = operand(element, test_elements), operand(test_elements, element)
    same = element[..., None] == others.reshape(-1)
    found = reductions.any(same, -1)
    return ~found if invert else found


def union1d(ar1: Any, ar2: Any) -> Any:
    """The different elements of two arrays.

    >>> np.union1d(i[0], i[1])
    """
    return selections.unique_values(concat([operand(ar1, ar2).reshape(-1),
                                            operand(ar2, ar1).reshape(-1)]))  # fmt: skip


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The different elements that both arrays have.

    >>> np.intersect1d(i % 3, i[1])
    """
    if return_indices:
        raise refuse("intersect1d requires the elements alone", "return_indices=True")
    first = selections.unique_values(operand(ar1, ar2))
    return first[isin(first, ar2)]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements of one array that another does not have.

    >>> np.setdiff1d(i, i[1])
    """
    first = selections.unique_values(operand(ar1, ar2))
    return first[isin(first, ar2, invert=True)]


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements that one of two arrays has.

    >>> np.setxor1d(i[:2], i[1:])
    """
    return union1d(setdiff1d(ar1, ar2), setdiff1d(ar2, ar1))


# Indices --------------------------------------------------------------------------------------


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the lower triangle of a matrix.

    >>> x[np.tril_indices_from(x)]
    """
    rows, columns = (known(each, "tril_indices_from") for each in arr.shape)
    return tuple(arr.constant(each) for each in np.tril_indices(rows, k, columns))


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the upper triangle of a matrix.

    >>> x[np.triu_indices_from(x, 1)]
    """
    rows, columns = (known(each, "triu_indices_from") for each in arr.shape)
    return tuple(arr.constant(each) for each in np.triu_indices(rows, k, columns))


def diag_indices_from(arr: Any) -> Any:
    """The indices of the diagonal.

    >>> x[np.diag_indices_from(x)]
    """
    count = known(arr.shape[0], "diag_indices_from")
    return tuple(arr.constant(each) for each in np.diag_indices(count, arr.ndim))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Indices of the flat array as one each axis.

    >>> np.unravel_index(np.argmax(x), (3, 3))
    """
    indices, found = operand(indices), list[Any]()
    sizes = [known(each, "unravel_index") for each in listed(shape)]
    for size in reversed(sizes) if order == "C" else sizes:
        found.append(indices % size)
        indices = indices // size
    return tuple(found[::-1] if order == "C" else found)


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    """One index each axis as those of the flat array.

    >>> np.ravel_multi_index((abs(i) % 3, abs(i) % 2), (3, 2))
    """
    if mode != "raise" or order != "C":
        raise refuse("ravel_multi_index requires mode='raise' and order='C'", f"{mode}, {order}")
    found: Any = 0
    for index, size in zip(operands(multi_index), listed(dims), strict=True):
        found = found * known(size, "ravel_multi_index") + index
    return found


# Changes --------------------------------------------------------------------------------------


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Gives the diagonal of an array other elements."""
    if wrap:
        raise refuse("fill_diagonal requires wrap=False", wrap)
    count = builtins.min(known(each, "fill_diagonal") for each in a.shape)
    at = np.arange(count)
    value = operand(val, a)
    if value.ndim:
        value = slices_at(value.reshape(-1), at % known(value.size, "fill_diagonal"))
    a[(at,) * a.ndim] = value


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Gives the flat array other elements at indices."""
    at = operand(ind, a).reshape(-1)
    size = a.size
    if mode == "wrap":
        at = at % size
    if mode == "clip":
        at = at.clip(0, size - 1)
    values = operand(v, a).reshape(-1)
    count = known(at.shape[0], "put")
    flat = a.flatten()
    flat[at] = slices_at(values, np.arange(count) % known(values.shape[0], "put"))
    a[...] = flat.reshape(a.shape)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Gives an array other elements along an axis, at an index each."""
    indices = operand(indices, arr)
    position = axis_of(axis, arr.ndim)
    at: list[Any] = []
    for each, size in enumerate(known(size, "put_along_axis") for size in arr.shape):
        shape = [1] * arr.ndim
        shape[each] = -1
        at.append(np.arange(size).reshape(shape))
    at[position] = indices
    arr[tuple(at)] = values


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Gives an array the elements of another, where a mask holds."""
    src = operand(src, dst)
    if not np.can_cast(src.dtype, dst.dtype, casting):
        raise refuse(f"copyto requires what {casting!r} converts to {dst.dtype}", src.dtype)
    dst[...] = src if where is True else elementwise.where(where, src.astype(dst.dtype), dst)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Gives an array other elements where a mask holds, those of the same index."""
    values = operand(values, a).reshape(-1)
    size = known(a.size, "putmask")
    wide = slices_at(values, np.arange(size) % known(values.shape[0], "putmask")).reshape(a.shape)
    a[...] = elementwise.where(mask, wide.astype(a.dtype), a)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Gives an array other elements where a mask holds, one after the other."""
    mask = operand(mask, arr).reshape(-1) != 0
    values = operand(vals, arr).reshape(-1)
    number = mask.astype(np.int64).cumsum() - 1
    at = number.clip(0) % known(values.shape[0], "place")
    flat = elementwise.where(mask, slices_at(values, at).astype(arr.dtype), arr.reshape(-1))
    arr[...] = flat.reshape(arr.shape)
