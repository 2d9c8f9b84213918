"""Products of vectors and matrices, diagonals and norms, by the names of the array API standard."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array.composites import composite, leader
from weft.array.elementwise import abs, matmul, root_of_sums
from weft.array.operators import ArrayOperators, Axes, axes_of, users_line
from weft.array.rearrangements import moveaxis, permute_dims
from weft.array.reductions import max, min, sum
from weft.array.selections import take
from weft.dialects.errors import WeftError

_numpy: Any = np  # whose overloads ask for more than arrays


def pair_of(x1: Any, x2: Any) -> Sequence[Any]:
    """Both as tensors of one dtype; None for arrays of NumPy's."""
    first = leader(x1, x2)
    return () if first is None else first.lifted(x1).promoted(x2)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sums along an axis of the products of elements."""
    if leader(x1, x2) is None:
        return _numpy.vecdot(x1, x2, axis=axis)
    return composite(_vecdot, x1, x2, axis=axis)


def _vecdot(x: Any, y: Any, axis: int) -> Any:
    first, second = (moveaxis(each, axis, -1) for each in x.promoted(y))
    return _kept(sum((first.conj() if first.dtype.kind == "c" else first) * second, -1), first)


def _kept(total: Any, x: Any) -> Any:
    """A sum in the dtype of the elements: products of vectors are no wide sums."""
    return total.astype(x.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """The sums over pairs of axes, or over the last ones with the first, of all products."""
    pair = pair_of(x1, x2)
    if not pair:
        return _numpy.tensordot(x1, x2, axes)
    x, y = pair
    if isinstance(axes, int):
        left, right = [*range(x.ndim - axes, x.ndim)], [*range(axes)]
    else:
        left, right = (axes_of(a, t.ndim) for a, t in zip(axes, pair, strict=True))
    return composite(_contracted, x, y, left=tuple(left), right=tuple(right))


def _contracted(x: Any, y: Any, left: Sequence[int], right: Sequence[int]) -> Any:
    rows = [axis for axis in range(x.ndim) if axis not in left]
    columns = [axis for axis in range(y.ndim) if axis not in right]
    heads = (*(x.shape[axis] for axis in rows), *(y.shape[axis] for axis in columns))
    flat = permute_dims(x, [*rows, *left]).reshape((_size(x, rows), _size(x, left)))
    other = permute_dims(y, [*right, *columns]).reshape((_size(y, right), _size(y, columns)))
    return matmul(flat, other).reshape(heads)


def _size(x: Any, axes: Sequence[int]) -> Any:
    count: Any = 1
    for axis in axes:
        count = x.shape[axis] * count
    return count


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of elements of two vectors."""
    return x1.reshape(-1, 1) * x2


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vectors at right angles to two of three elements, along an axis."""
    pair = pair_of(x1, x2)
    if not pair:
        return _numpy.linalg.cross(x1, x2, axis=axis)
    for each in pair:
        if each.shape[axis] != 3:
            got = each.shape[axis]
            raise WeftError(f"{users_line()}: cross requires vectors of 3 elements, got {got}")
    return composite(_cross, *pair, axis=axis)


def _cross(x: Any, y: Any, axis: int) -> Any:
    x, y = (moveaxis(each, axis, -1) for each in (x, y))
    ahead, behind = _numpy.array([1, 2, 0]), _numpy.array([2, 0, 1])
    found = take(x, ahead, -1) * take(y, behind, -1) - take(x, behind, -1) * take(y, ahead, -1)
    return moveaxis(found, -1, axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The elements of a diagonal of the last two axes, whose sizes are known."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.diagonal(x, offset=offset)
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        got = f"{rows} and {columns}"
        raise WeftError(f"{users_line()}: a diagonal requires known sizes, got {got}")
    low, right = -offset * (offset < 0), offset * (offset > 0)
    start, count = low * columns + right, builtins.min(rows - low, columns - right)
    stop = start + (count - 1) * (columns + 1) + 1
    flat = x.reshape((*x.shape[:-2], rows * columns))
    return flat[..., start : stop : columns + 1] if count > 0 else flat[..., :0]


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of diagonals of the last two axes."""
    if isinstance(x, ArrayOperators) and not all(isinstance(size, int) for size in x.shape[-2:]):
        below = x.op("trilu", x, upper=False, k=offset)
        return sum(x.op("trilu", below, upper=True, k=offset), (-2, -1), dtype=dtype)
    return sum(diagonal(x, offset=offset), -1, dtype=dtype)


# Norms ----------------------------------------------------------------------------------------


def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The norms of vectors along axes, or of all elements."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    return composite(_vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)


def _vector_norm(x: Any, axis: Axes, keepdims: bool, ord: float) -> Any:
    size = abs(x.as_float())
    if ord == math.inf:
        return max(size, axis, keepdims)
    if ord == -math.inf:
        return min(size, axis, keepdims)
    if ord == 0:
        return sum((size != 0).astype(size.dtype), axis, keepdims)
    if ord == 1:
        return sum(size, axis, keepdims)
    if ord == 2:
        return size.reduced("reduce_l2", axis, keepdims)
    total = sum(size ** float(ord), axis, keepdims)
    return root_of_sums(total, ord) if ord > 0 else total ** (1.0 / ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norms of matrices of the last two axes: "fro", or 1, -1, inf or -inf: the greatest or
    least sum of absolute values of a column or a row.
    """
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        rule = "a matrix norm requires fro, 1, -1, inf or -inf"
        raise WeftError(f"{users_line()}: {rule}, got {ord!r}")
    along = -2 if ord in (1, -1) else -1
    sums = sum(abs(x.as_float()), along, True)
    found = (max if ord > 0 else min)(sums, -3 - along, True)
    return found if keepdims else found.reshape(x.shape[:-2])
