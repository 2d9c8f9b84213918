"""Linear algebra of the array API standard that has a fixed number of steps: products, norms, and
elimination, which is a loop of the graph where tensors are traced. Eigenvalues and singular values
are not here, nor what is made of them.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dialects.errors import WeftError
from weft.array.composites import composite
from weft.array.elementwise import abs, leader, log, matmul, sign, sqrt, where
from weft.array.operators import ArrayOperators, Axes, axes_of, users_line
from weft.array.rearrangements import broadcast_to, concat, matrix_transpose, moveaxis, permute_dims
from weft.array.reductions import max, min, prod, sum
from weft.array.selections import argmax, take, take_along_axis

_numpy: Any = np  # whose overloads ask for more than arrays

__all__ = [
    "cholesky", "cross", "det", "diagonal", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_transpose", "outer", "slogdet", "solve", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def _pair(x1: Any, x2: Any) -> Sequence[Any]:
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
    return _kept(sum(first * second, -1), first)


def _kept(total: Any, x: Any) -> Any:
    """A sum in the dtype of the elements: products of vectors are no wide sums."""
    return total.astype(x.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """The sums over pairs of axes, or over the last ones with the first, of all products."""
    pair = _pair(x1, x2)
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
    inner: Any = 1
    for axis in left:
        inner = x.shape[axis] * inner
    heads = (*(x.shape[axis] for axis in rows), *(y.shape[axis] for axis in columns))
    flat = permute_dims(x, [*rows, *left]).reshape((_size(x, rows), inner))
    other = permute_dims(y, [*right, *columns]).reshape((inner, _size(y, columns)))
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
    pair = _pair(x1, x2)
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


def matrix_power(x: Any, n: int, /) -> Any:
    """Products of so many times the same square matrix; of its inverse for a negative number."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.matrix_power(x, n)
    base, left = (inv(x), -n) if n < 0 else (x, n)
    found: Any = broadcast_to(_identity(x), x.shape)
    while left:
        found, base, left = (found @ base if left & 1 else found), base @ base, left >> 1
    return found


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
        return sqrt(sum(size * size, axis, keepdims))
    return sum(size ** float(ord), axis, keepdims) ** (1.0 / ord)


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


# Elimination ----------------------------------------------------------------------------------


class SignAndLog(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def solve(x1: Any, x2: Any, /) -> Any:
    """`x` of `x1 @ x = x2`, for square matrices and vectors or matrices."""
    pair = _pair(x1, x2)
    if not pair:
        return _numpy.linalg.solve(x1, x2)
    matrix, right = (each.as_float() for each in pair)
    if right.ndim == 1:
        return _eliminated(matrix, right.reshape(-1, 1))[0][..., 0]
    return _eliminated(matrix, right)[0]


def inv(x: Any, /) -> Any:
    """The inverses of square matrices."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.inv(x)
    return _eliminated(x.as_float(), _identity(x.as_float()))[0]


def det(x: Any, /) -> Any:
    """The determinants of square matrices."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.det(x)
    return prod(_pivots(x), -1)


def slogdet(x: Any, /) -> SignAndLog:
    """The signs of determinants, and the logarithms of what they are without."""
    if not isinstance(x, ArrayOperators):
        return SignAndLog(*_numpy.linalg.slogdet(x))
    pivots = _pivots(x)
    return SignAndLog(prod(sign(pivots), -1), sum(log(abs(pivots)), -1))


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower triangles whose products with their transposes are symmetric positive matrices."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.cholesky(x, upper=upper)
    from weft.tracing.control import scan

    x = x.as_float()
    places = _places(x)

    def round_(rest: Any, k: Any) -> Any:
        column = take(rest, k, -1)
        root = sqrt(take(column, k, -1))
        found = where(places >= k, column / root.reshape((*root.shape, 1)), 0.0)
        return rest - _column(found) * _row(found), found

    _, columns = scan(round_, x, places)
    lower = moveaxis(columns, 0, -1)
    return matrix_transpose(lower) if upper else lower


def _eliminated(matrix: Any, right: Any) -> tuple[Any, Any]:
    """`right` after what makes `matrix` the identity, by partial pivoting; and the pivots along a
    new first axis, negated where rows were exchanged.
    """
    from weft.tracing.control import scan

    _require_square(matrix)
    heads = _heads(matrix, right)
    matrix = broadcast_to(matrix, (*heads, *matrix.shape[-2:]))
    whole = concat([matrix, broadcast_to(right, (*heads, *right.shape[-2:]))], -1)
    places, size = _places(matrix), matrix.shape[-1]

    def round_(rows: Any, k: Any) -> Any:
        column = take(rows, k, -1)
        best = argmax(where(places < k, -1.0, abs(column)), -1, True)
        order = where(places == k, best, where(places == best, k, places))
        rows = take_along_axis(rows, broadcast_to(_column(order), rows.shape), -2)
        column = take(rows, k, -1)
        pivot = take(column, k, -1)
        chosen = take(rows, k, -2) / pivot.reshape((*pivot.shape, 1))
        others = where(places == k, 0.0, column)
        cleared = rows - _column(others) * _row(chosen)
        rows = where(_column(places == k), _row(chosen), cleared)
        exchanged = best.reshape(best.shape[:-1]) != k
        return rows, where(exchanged, -pivot, pivot)

    found, pivots = scan(round_, whole, places)
    return found[..., size:], pivots


def _pivots(x: Any) -> Any:
    """The pivots of square matrices, whose product the determinant is, along the last axis."""
    x = x.as_float()
    return moveaxis(_eliminated(x, x[..., :0])[1], 0, -1)


def _heads(matrix: Any, right: Any) -> tuple[Any, ...]:
    """The axes in front of two stacks of matrices, broadcast to each other."""
    first, second = matrix.shape[:-2], right.shape[:-2]
    rank = len(first) if len(first) > len(second) else len(second)
    first, second = ((*[1] * (rank - len(each)), *each) for each in (first, second))
    return tuple(b if a == 1 else a for a, b in zip(first, second, strict=True))


def _require_square(x: Any) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        got = list(x.shape)
        raise WeftError(f"{users_line()}: elimination requires square matrices, got {got}")


def _places(x: Any) -> Any:
    """0, 1, ... along the last axis of a tensor of any size."""
    _require_square(x)
    ones = x.constant(np.asarray(1, np.int64)).broadcast_to(x.shape[-1:])
    return ones.op("cumsum", ones, axis=0, exclusive=True, reverse=False)


def _identity(x: Any) -> Any:
    """Ones on the diagonal of a square matrix."""
    places = _places(x)
    return (_column(places) == _row(places)).astype(x.dtype)


def _column(x: Any) -> Any:
    return x.reshape((*x.shape, 1))


def _row(x: Any) -> Any:
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))
