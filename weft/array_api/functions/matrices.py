"""NumPy's `linalg` beyond the array API standard: norms, chains of products, orthogonal factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.elementwise import matmul
from weft.array.operators import axes_of, listed
from weft.array.products import matrix_norm, vector_norm
from weft.array.rearrangements import moveaxis
from weft.array_api.functions.decompositions import svdvals
from weft.array_api.linalg import inv, solve
from weft.array_api.operands import known, of_stacks, operand, operands, refuse


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norms of vectors along one axis, of matrices of two, or of all elements.

    >>> np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(v, 1), np.linalg.norm(x, 1)
    >>> np.linalg.norm(x, "fro", axis=(0, 1), keepdims=True), np.linalg.norm(v, np.inf)
    >>> np.linalg.norm(x, 2), np.linalg.norm(x, "nuc")
    """
    x = operand(x).as_float()
    if axis is None and ord is None:
        found = vector_norm(x.reshape(-1))
        return found.reshape((1,) * x.ndim) if keepdims else found
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise refuse("norm requires one axis or two", len(axes))
    if ord in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (0, 1)))
        found = values.sum() if ord == "nuc" else values[0 if ord == 2 else -1]
    else:
        found = matrix_norm(moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    if not keepdims:
        return found
    return found.reshape(tuple(1 if each in axes else x.shape[each] for each in range(x.ndim)))


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of several matrices in the order of least work.

    >>> np.linalg.multi_dot([v, x, x, v])
    """
    parts = operands(arrays)
    vectors = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0].reshape(1, -1) if vectors[0] else parts[0]
    parts[-1] = parts[-1].reshape(-1, 1) if vectors[1] else parts[-1]
    sizes = [known(each.shape[0], "multi_dot") for each in parts]
    sizes.append(known(parts[-1].shape[1], "multi_dot"))
    best: dict[tuple[int, int], tuple[float, int]] = {}

    def cost(i: int, j: int) -> tuple[float, int]:
        if i == j:
            return 0.0, i
        if (i, j) not in best:
            best[i, j] = min(
                (cost(i, k)[0] + cost(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
        return best[i, j]

    def product(i: int, j: int) -> Any:
        k = cost(i, j)[1]
        return parts[i] if i == j else matmul(product(i, k), product(k + 1, j))

    found = product(0, len(parts) - 1)
    if vectors[0]:
        found = found[0]
    return found[..., 0] if vectors[1] else found


@of_stacks
def cond(x: Any, p: Any = None) -> Any:
    """The norm of a matrix times that of its inverse; by singular values without `p`.

    >>> np.linalg.cond(x), np.linalg.cond(s, 1), np.linalg.cond(x, -2)
    """
    x = operand(x).as_float()
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[-1] / s[0] if p == -2 else s[0] / s[-1]
    return norm(x, p) * norm(inv(x), p)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of an array, its first axes as rows.

    >>> np.linalg.tensorinv(s.reshape(3, 1, 1, 3), ind=2)
    """
    a = operand(a)
    heads, tails = tuple(a.shape[:ind]), tuple(a.shape[ind:])
    count = int(np.prod([known(each, "tensorinv") for each in heads]))
    return inv(a.reshape(count, -1)).reshape((*tails, *heads))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The array whose product over its axes with `a` is `b`.

    >>> np.linalg.tensorsolve(s.reshape(3, 3, 1), v)
    """
    a, b = operand(a, b), operand(b, a)
    if axes is not None:
        last = axes_of(tuple(listed(axes)), a.ndim)
        a = a.transpose(*(each for each in range(a.ndim) if each not in last), *last)
    tails = tuple(a.shape[b.ndim :])
    count = int(np.prod([known(each, "tensorsolve") for each in tails]))
    return solve(a.reshape(count, count), b.reshape(-1)).reshape(tails)
