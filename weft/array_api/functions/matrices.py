"""NumPy's `linalg` beyond the array API standard: norms, chains of products, orthogonal factors."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from weft.array.elementwise import abs, matmul, sqrt, where
from weft.array.operators import axes_of, listed
from weft.array.products import matrix_norm, vector_norm
from weft.array.rearrangements import moveaxis
from weft.array_api.linalg import inv, solve
from weft.array_api.operands import known, operand, operands, refuse


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norms of vectors along one axis, of matrices of two, or of all elements.

    >>> np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(v, 1), np.linalg.norm(x, 1)
    >>> np.linalg.norm(x, "fro", axis=(0, 1), keepdims=True), np.linalg.norm(v, np.inf)
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
        raise refuse("norm of matrices requires fro, 1, -1, inf or -inf", repr(ord))
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


def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal columns and an upper triangle, by Householder's reflections.

    >>> np.linalg.qr(x), np.linalg.qr(x[:, :2]), np.linalg.qr(x, "r")
    """
    a = operand(a).as_float()
    if mode not in ("reduced", "complete", "r") or a.ndim != 2:
        raise refuse("qr requires a matrix, and the mode reduced, complete or r", repr(mode))
    rows, columns = known(a.shape[0], "qr"), known(a.shape[1], "qr")
    identity = a.constant(np.eye(rows, dtype=a.dtype))
    q, r, count = identity, a, min(rows, columns)
    for k in range(min(rows - 1, columns)):
        below = np.arange(rows) >= k
        column = where(below, r[:, k], 0.0)
        size = vector_norm(column)
        pivot = r[k, k]
        head = where(pivot >= 0, size, -size)
        direction = column + where(np.arange(rows) == k, head, 0.0)
        scale = (direction * direction).sum()
        weight = where(scale == 0, 0.0, 2.0 / where(scale == 0, 1.0, scale))
        r = r - weight * direction.reshape(-1, 1) * matmul(direction, r)
        q = q - weight * matmul(q, direction).reshape(-1, 1) * direction
    r = where(np.tril(np.ones((rows, columns), bool), -1), 0.0, r)
    if mode == "r":
        return r[:count]
    found = (q, r) if mode == "complete" else (q[:, :count], r[:count])
    return np.linalg._linalg.QRResult(*found)  # pyright: ignore


def eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803  NumPy's name
    """Eigenvalues of a symmetric matrix in rising order, and its eigenvectors, by Jacobi's
    rotations; vectors are defined but for their signs.

    >>> np.linalg.eigh(s)[0]
    """
    a = operand(a).as_float()
    size = known(a.shape[-1], "eigh")
    if a.ndim != 2 or a.shape[0] != size:
        raise refuse("eigh requires a square matrix", list(a.shape))
    low = np.tril(np.ones((size, size), bool), -1)
    low = low if UPLO == "L" else low.T
    half = where(low, a, 0.0)
    a = half + half.T + where(np.eye(size, dtype=bool), a, 0.0)
    vectors = a.constant(np.eye(size, dtype=a.dtype))
    for _ in range(_sweeps(size)):
        for p, q in combinations(range(size), 2):
            a, vectors = _rotated(a, vectors, p, q)
    values = a.reshape(-1)[:: size + 1]
    order = values.argsort()
    found = values[order], vectors[:, order]
    return np.linalg._linalg.EighResult(*found)  # pyright: ignore


def _sweeps(size: int) -> int:
    """How many times over all pairs are rotated, which is more than enough for float64."""
    if size > 8:
        raise refuse("eigh requires matrices of 8 rows at most", size, "np.linalg.eigh outside")
    return 1 if size < 3 else 7


def _rotated(a: Any, vectors: Any, p: int, q: int) -> tuple[Any, Any]:
    """The matrix after the rotation that makes an element off its diagonal zero."""
    size = a.shape[0]
    off = a[p, q]
    flat = off == 0
    theta = (a[q, q] - a[p, p]) / where(flat, 1.0, 2.0 * off)
    tangent = where(theta >= 0, 1.0, -1.0) / (abs(theta) + sqrt(theta * theta + 1.0))
    tangent = where(flat, 0.0, tangent)
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    rows, columns = np.indices((size, size))
    at = {each: (rows == r) & (columns == c) for each, (r, c) in
          {"pp": (p, p), "qq": (q, q), "pq": (p, q), "qp": (q, p)}.items()}  # fmt: skip
    rotation = a.constant(np.eye(size, dtype=a.dtype))
    rotation = where(at["pp"] | at["qq"], cosine, rotation)
    rotation = where(at["pq"], sine, where(at["qp"], -sine, rotation))
    return matmul(matmul(rotation.T, a), rotation), matmul(vectors, rotation)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803  NumPy's name
    """Eigenvalues of a symmetric matrix in rising order.

    >>> np.linalg.eigvalsh(s)
    """
    return eigh(a, UPLO)[0]


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


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Least squares of full column rank: the solution, residuals and rank; the singular values are
    the roots of the eigenvalues of `a.T @ a`.

    >>> np.linalg.lstsq(x[:, :2], v)[:2], np.linalg.lstsq(x[:, :2], x)[0]
    """
    a, b = operand(a, b).as_float(), operand(b, a).as_float()
    rows, columns = (known(each, "lstsq") for each in a.shape)
    if rows < columns:
        raise refuse("lstsq requires as many rows as columns", f"{rows} of {columns}")
    q, r = qr(a)
    x = solve(r, matmul(q.T, b))
    rest = b - matmul(a, x)
    squares = (rest * rest).sum(0)
    residuals = squares.reshape(-1) if rows > columns else squares.reshape(-1)[:0]
    values = eigvalsh(matmul(r.T, r))[::-1]
    sizes = sqrt(where(values > 0, values, 0.0))
    limit = (np.finfo(a.dtype).eps * max(rows, columns) if rcond is None else rcond) * sizes[0]
    return x, residuals, (sizes > limit).astype(np.int32).sum(), sizes
