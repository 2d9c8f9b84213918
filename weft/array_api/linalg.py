"""Linear algebra of the array API standard that has a fixed number of steps: products, norms, and
elimination, which is a loop of the graph where tensors are traced. Eigenvalues and singular values
are not here, nor what is made of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.array.elementwise import abs, log, matmul, sign, sqrt, where
from weft.array.operators import ArrayOperators, users_line
from weft.array.products import (
    cross,
    diagonal,
    matrix_norm,
    outer,
    pair_of,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from weft.array.rearrangements import broadcast_to, concat, matrix_transpose, moveaxis
from weft.array.reductions import prod, sum
from weft.array.selections import argmax, take, take_along_axis
from weft.dialects.errors import WeftError
from weft.tracing.control import scan

_numpy: Any = np  # whose overloads ask for more than arrays

__all__ = [
    "cholesky", "cross", "det", "diagonal", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_transpose", "outer", "slogdet", "solve", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def matrix_power(x: Any, n: int, /) -> Any:
    """Products of so many times the same square matrix; of its inverse for a negative number."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.matrix_power(x, n)
    if n == 1:
        return x
    base, left = (inv(x), -n) if n < 0 else (x, n)
    found: Any = broadcast_to(_identity(x), x.shape)
    while left:
        found, base, left = (found @ base if left & 1 else found), base @ base, left >> 1
    return found


# Elimination ----------------------------------------------------------------------------------


class SignAndLog(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def solve(x1: Any, x2: Any, /) -> Any:
    """`x` of `x1 @ x = x2`, for square matrices and vectors or matrices."""
    pair = pair_of(x1, x2)
    if not pair:
        return _numpy.linalg.solve(x1, x2)
    matrix, right = (each.as_float() for each in pair)
    if right.ndim == 1:
        return _solved(matrix, right.reshape(-1, 1))[..., 0]
    return _solved(matrix, right)


def inv(x: Any, /) -> Any:
    """The inverses of square matrices."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.inv(x)
    return _solved(x.as_float(), _identity(x.as_float()))


def det(x: Any, /) -> Any:
    """The determinants of square matrices."""
    if not isinstance(x, ArrayOperators):
        return _numpy.linalg.det(x)
    x = x.as_float()
    return x.op("det", x) if _has_kernels(x) else prod(_pivots(x), -1)


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
    x = x.as_float()
    if _has_kernels(x):
        lower = x.op("cholesky", x)
        return matrix_transpose(lower) if upper else lower
    positions = _positions(x)

    def round_(rest: Any, k: Any) -> Any:
        column = take(rest, k, -1)
        root = sqrt(take(column, k, -1))
        found = where(positions >= k, column / root.reshape((*root.shape, 1)), 0.0)
        across = found.conj() if x.dtype.kind == "c" else found
        return rest - _column(found) * _row(across), found

    _, columns = scan(round_, x, positions)
    lower = moveaxis(columns, 0, -1)
    if not upper:
        return lower
    return matrix_transpose(lower.conj() if x.dtype.kind == "c" else lower)


def _has_kernels(x: Any) -> bool:
    """Whether operators factor matrices of these numbers, and no loops over their columns."""
    _require_square(x)
    return x.dtype.kind == "f" and x.dtype.itemsize >= 4


def _solved(matrix: Any, right: Any) -> Any:
    """`x` of `matrix @ x = right`."""
    if not _has_kernels(matrix) or matrix.dtype != right.dtype:
        return _eliminated(matrix, right)[0]
    heads = _heads(matrix, right)
    operands = [broadcast_to(each, (*heads, *each.shape[-2:])) for each in (matrix, right)]
    return matrix.op("solve", *operands)


def _eliminated(matrix: Any, right: Any) -> tuple[Any, Any]:
    """`right` after what makes `matrix` the identity, by partial pivoting; and the pivots along a
    new first axis, negated where rows were exchanged.
    """
    _require_square(matrix)
    heads = _heads(matrix, right)
    matrix = broadcast_to(matrix, (*heads, *matrix.shape[-2:]))
    whole = concat([matrix, broadcast_to(right, (*heads, *right.shape[-2:]))], -1)
    positions, size = _positions(matrix), matrix.shape[-1]

    def round_(rows: Any, k: Any) -> Any:
        column = take(rows, k, -1)
        best = argmax(where(positions < k, -1.0, abs(column)), -1, True)
        order = where(positions == k, best, where(positions == best, k, positions))
        rows = take_along_axis(rows, broadcast_to(_column(order), rows.shape), -2)
        column = take(rows, k, -1)
        pivot = take(column, k, -1)
        chosen = take(rows, k, -2) / pivot.reshape((*pivot.shape, 1))
        others = where(positions == k, 0.0, column)
        cleared = rows - _column(others) * _row(chosen)
        rows = where(_column(positions == k), _row(chosen), cleared)
        exchanged = best.reshape(best.shape[:-1]) != k
        return rows, where(exchanged, -pivot, pivot)

    found, pivots = scan(round_, whole, positions)
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


def _positions(x: Any) -> Any:
    """0, 1, ... along the last axis of a tensor of any size."""
    _require_square(x)
    ones = x.constant(np.asarray(1, np.int64)).broadcast_to(x.shape[-1:])
    return ones.op("cumsum", ones, axis=0, exclusive=True, reverse=False)


def _identity(x: Any) -> Any:
    """Ones on the diagonal of a square matrix."""
    positions = _positions(x)
    return (_column(positions) == _row(positions)).astype(x.dtype)


def _column(x: Any) -> Any:
    return x.reshape((*x.shape, 1))


def _row(x: Any) -> Any:
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))
