"""Decompositions of matrices as functions of JAX, made of operators that weft compiles: Householder
reflections as LAPACK has them, and Jacobi's rotations of disjoint pairs, many at once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
MOST_SWEEPS = 40
"""Over all pairs; a dozen are enough for matrices of common sizes."""


def batched(function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """A function of matrices, on arrays with more dims in front of so many of the first operand."""

    def call(first: Array, *others: Array) -> Any:
        mapped = function
        for _ in range(first.ndim - rank):
            mapped = jax.vmap(mapped)
        return mapped(first, *others)

    return call


def geqrf(a: Array) -> tuple[Array, Array]:
    """R over the vectors of reflections, and their factors: the QR decomposition of LAPACK."""
    m, n = a.shape
    rows = jnp.arange(m)

    def reflect(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, taus = state
        column = jax.lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        alpha = column[j]
        below = jnp.where(rows > j, column, 0)
        scale = jnp.maximum(jnp.max(jnp.abs(jnp.where(rows >= j, column, 0))), _tiny(a.dtype))
        length = scale * jnp.sqrt(jnp.sum(jnp.abs(jnp.where(rows >= j, column, 0) / scale) ** 2))
        beta = jnp.where(alpha.real >= 0, -length, length).astype(a.dtype)
        idle = jnp.all(below == 0) & (alpha.imag == 0)
        tau = jnp.where(idle, 0, (beta - alpha) / jnp.where(idle, 1, beta))
        vector = jnp.where(rows == j, 1, below / jnp.where(idle, 1, alpha - beta))
        others = jnp.where(jnp.arange(n) > j, vector.conj() @ a, 0)
        a = a - tau.conj() * vector[:, None] * others[None, :]
        kept = jnp.where(rows < j, column, jnp.where(rows == j, beta, vector))
        kept = jnp.where(idle, column, kept)
        return jax.lax.dynamic_update_index_in_dim(a, kept, j, 1), taus.at[j].set(tau)

    count = min(m, n)
    return jax.lax.fori_loop(0, count, reflect, (a, jnp.zeros(count, a.dtype)))


def householder_product(a: Array, taus: Array) -> Array:
    """The first columns of the product of reflections."""
    m, n = a.shape
    rows, count = jnp.arange(m), taus.shape[0]

    def reflect(step: Array, q: Array) -> Array:
        j = count - 1 - step
        column = jax.lax.dynamic_index_in_dim(a, j, 1, keepdims=False)
        vector = jnp.where(rows == j, 1, jnp.where(rows > j, column, 0)).astype(a.dtype)
        return q - taus[j] * vector[:, None] * (vector.conj() @ q)[None, :]

    return jax.lax.fori_loop(0, count, reflect, jnp.eye(m, n, dtype=a.dtype))


def eigh(a: Array, *, lower: bool, sort: bool, subset: tuple[int, int] | None) -> Any:
    """Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read."""
    n = a.shape[0]
    half = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    diagonal = jnp.diagonal(a).real.astype(a.dtype)
    whole = half + half.conj().T + jnp.diag(diagonal)
    if n < 2:
        values, vectors = diagonal.real, jnp.ones_like(a)
    else:
        values, vectors = _jacobi(whole)
    if sort:
        order = jnp.argsort(values)
        values, vectors = values[order], vectors[:, order]
    if subset is not None:
        values, vectors = values[subset[0] : subset[1]], vectors[:, subset[0] : subset[1]]
    return vectors, values


def _jacobi(a: Array) -> tuple[Array, Array]:
    """The eigenvalues and eigenvectors in no order."""
    n = a.shape[0]
    even = n + n % 2
    a = jnp.pad(a, (0, even - n))
    pairs, inverses = (jnp.asarray(each) for each in _schedule(even))
    floor = jnp.linalg.norm(a) * jnp.finfo(a.dtype).eps * even**0.5

    def turn(step: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, vectors = state
        p, q = pairs[step, 0], pairs[step, 1]
        diagonal = jnp.diagonal(a).real
        c, s = _rotation(diagonal[p], diagonal[q], a[p, q])
        inverse = inverses[step]
        a = _rotate(a, p, q, c, s, inverse)
        a = _rotate(a.conj().T, p, q, c, s, inverse).conj().T
        return a, _rotate(vectors, p, q, c, s, inverse)

    def sweep(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, a, vectors = state
        a, vectors = jax.lax.fori_loop(0, even - 1, turn, (a, vectors))
        return count + 1, a, vectors

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        count, a, _ = state
        rest = jnp.linalg.norm(a - jnp.diag(jnp.diagonal(a)))
        return (count < MOST_SWEEPS) & (rest > floor)

    first = (jnp.int32(0), a, jnp.eye(even, dtype=a.dtype))
    _, a, vectors = jax.lax.while_loop(goes_on, sweep, first)
    return jnp.diagonal(a).real[:n], vectors[:n, :n]


def svd(a: Array, *, full: bool, vectors: bool, subset: tuple[int, int] | None) -> Any:
    """Singular values, and where wanted the vectors: columns are rotated until they are orthogonal,
    and a QR decomposition of them has the left vectors, those without a singular value too.
    """
    m, n = a.shape
    if m < n:
        found = svd(a.conj().T, full=full, vectors=vectors, subset=subset)
        if not vectors:
            return found
        values, left, right = found
        return values, right.conj().T, left.conj().T
    columns, right = _orthogonal_columns(a)
    values = jnp.linalg.norm(columns, axis=0)
    order = jnp.argsort(-values)
    values = values[order]
    part = slice(*subset) if subset is not None else slice(None)
    if not vectors:
        return (values[part],)
    packed, taus = geqrf(columns[:, order])
    wide = jnp.pad(packed, ((0, 0), (0, m - n))) if full else packed
    left = householder_product(wide, taus)
    diagonal = jnp.diagonal(packed)
    size = jnp.abs(diagonal)
    phase = jnp.where(size > 0, diagonal / jnp.where(size > 0, size, 1), 1)
    left = left * jnp.concatenate([phase, jnp.ones(left.shape[1] - n, a.dtype)])[None, :]
    kept = right[:, order].conj().T
    if subset is not None:
        left, kept = left[:, part], kept[part]
    return values[part], left, kept


def _orthogonal_columns(a: Array) -> tuple[Array, Array]:
    """`a @ v` with orthogonal columns, and the unitary `v`."""
    m, n = a.shape
    if n < 2:
        return a, jnp.eye(n, dtype=a.dtype)
    even = n + n % 2
    a = jnp.pad(a, ((0, 0), (0, even - n)))
    pairs, inverses = (jnp.asarray(each) for each in _schedule(even))
    epsilon = jnp.finfo(a.dtype).eps

    def turn(step: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, right, worst = state
        p, q = pairs[step, 0], pairs[step, 1]
        lefts, rights = a[:, p], a[:, q]
        alpha, beta = jnp.sum(jnp.abs(lefts) ** 2, 0), jnp.sum(jnp.abs(rights) ** 2, 0)
        gamma = jnp.sum(lefts.conj() * rights, 0)
        scale = jnp.sqrt(alpha) * jnp.sqrt(beta)
        cosine = jnp.where(scale > 0, jnp.abs(gamma) / jnp.where(scale > 0, scale, 1), 0)
        c, s = _rotation(alpha, beta, jnp.where(cosine > epsilon, gamma, 0))
        inverse = inverses[step]
        a, right = (_rotate(each, p, q, c, s, inverse) for each in (a, right))
        return a, right, jnp.maximum(worst, jnp.max(cosine))

    def sweep(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        count, a, right, _ = state
        none = jnp.zeros((), a.real.dtype)
        a, right, worst = jax.lax.fori_loop(0, even - 1, turn, (a, right, none))
        return count + 1, a, right, worst

    def goes_on(state: tuple[Array, Array, Array, Array]) -> Array:
        return (state[0] < MOST_SWEEPS) & (state[3] > epsilon * m)

    most = jnp.asarray(np.inf, a.real.dtype)
    first = (jnp.int32(0), a, jnp.eye(even, dtype=a.dtype), most)
    _, a, right, _ = jax.lax.while_loop(goes_on, sweep, first)
    return a[:, :n], right[:n, :n]


def _rotation(first: Array, second: Array, product: Array) -> tuple[Array, Array]:
    """The cosines, and the sines with their phases, that make the products zero."""
    size = jnp.abs(product)
    idle = size == 0
    safe = jnp.where(idle, 1, size)
    ratio = (second - first) / (2 * safe)
    tangent = jnp.where(ratio >= 0, 1, -1) / (jnp.abs(ratio) + jnp.sqrt(1 + ratio * ratio))
    tangent = jnp.where(idle, 0, tangent)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine.astype(product.dtype), tangent * cosine * (product / safe)


def _rotate(a: Array, p: Array, q: Array, c: Array, s: Array, inverse: Array) -> Array:
    """Rotates pairs of columns, each column in one pair."""
    first, second = a[:, p], a[:, q]
    c, s = c[None], s[None]
    both = jnp.concatenate([c * first - s.conj() * second, s * first + c * second], 1)
    return both[:, inverse]


def eig(a: Array, *, left: bool, right: bool) -> list[Any]:
    """The eigenvalues of a stack of matrices, and as asked for the left and the right eigenvectors,
    by SciPy, which JAX requires: no operators, but a function of the host.
    """
    linalg: Any = import_module("scipy.linalg")
    given = np.asarray(a)
    dtype = np.promote_types(given.dtype, np.complex64)
    shapes = [given.shape[:-1], *[given.shape] * (left + right)]
    found = [np.empty(shape, dtype) for shape in shapes]
    for at in np.ndindex(given.shape[:-2]) if given.size else ():
        values = linalg.eig(given[at], left=left, right=right)
        for each, value in zip(found, values if left or right else [values], strict=True):
            each[at] = value
    return found


def _schedule(count: int) -> tuple[Any, Any]:
    """Steps of disjoint pairs in which all meet, as in a tournament, and for each step where the
    columns are once the first and then the second ones of all pairs stand behind each other.
    """
    players, pairs = list(range(count)), []
    for _ in range(count - 1):
        pairs.append([players[: count // 2], players[: count // 2 - 1 : -1]])
        players = [players[0], players[-1], *players[1:-1]]
    table = np.array(pairs, np.int32)
    return table, np.argsort(table.reshape(count - 1, count), axis=1).astype(np.int32)


def _tiny(dtype: Any) -> Any:
    return jnp.finfo(dtype).tiny
