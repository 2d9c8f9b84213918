"""NumPy's `linalg` of matrices whose eigenvalues are complex.

Eigenvalues of any matrix are those of its triangle, which shifted QR steps find.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.elementwise import abs, matmul, sign, sqrt, where
from weft.array.products import diagonal
from weft.array.rearrangements import concat
from weft.array.selections import take, take_along_axis
from weft.array_api.functions import decompositions
from weft.array_api.linalg import solve
from weft.array_api.operands import as_double, known, of_stacks, operand, refuse
from weft.autodiff.custom import custom_jvp
from weft.autodiff.one_kernel import one_kernel
from weft.tracing.control import fori_loop, while_loop

_MOST_STEPS = 40
"""QR steps for each eigenvalue; three are usual."""


def _step(state: Any) -> Any:
    """A shifted QR step of `a`, which `q` brings to a triangle: the shift is the eigenvalue of the
    last two by two rows that are none yet that is nearer to their corner.
    """
    number, a, q = state
    size = a.shape[0]
    steps = a.real.constant(np.arange(size))
    last = _active(a).astype(np.int64).cumsum(0)[-1]
    before = where(last > 0, last - 1, 0)
    entry = [
        take(take(a, row, 0), column, 0) for row in (before, last) for column in (before, last)
    ]
    middle, half = (entry[0] + entry[3]) * 0.5, (entry[0] - entry[3]) * 0.5
    root = sqrt(half * half + entry[1] * entry[2])
    up = abs(middle + root - entry[3]) < abs(middle - root - entry[3])
    shift = where(up, middle + root, middle - root)
    odd = entry[3] + abs(a).max() * (0.75 + 0.5j)  # where the others repeat each other
    shift = where(number % 11 == 10, odd, shift)
    eye = (steps.reshape(-1, 1) == steps).astype(a.dtype)
    left, right = decompositions.qr(a - shift * eye)
    return number + 1, matmul(right, left) + shift * eye, matmul(q, left)


def _active(a: Any) -> Any:
    """Whether row k + 1 or one behind has something below the diagonal that counts, for each k."""
    size = a.shape[0]
    below = where(np.tril(np.ones((size, size), bool), -1), abs(a), 0.0).sum(1)
    least = abs(a).max() * float(np.finfo(a.real.dtype).eps)
    return (below > least)[1:][::-1].astype(np.int64).cumsum(0)[::-1] > 0


@one_kernel
def _eig(a: Any) -> Any:
    size = known(a.shape[0], "eig")
    eye = a.constant(np.eye(size, dtype=a.dtype))
    if size > 1:
        start = a.real.constant(np.asarray(0, np.int64)), a, eye

        def goes_on(state: Any) -> Any:
            return _active(state[1])[0] & (state[0] < _MOST_STEPS * size)

        _, a, q = while_loop(goes_on, _step, start)
        a = where(_active(a)[0], np.nan, a)  # steps without end are no result
    else:
        q = eye
    values = diagonal(a)
    return values, _unit(matmul(q, _triangles_vectors(a, values)))


def _triangles_vectors(t: Any, values: Any) -> Any:
    """Eigenvectors of an upper triangle as columns, by substitution from below."""
    size = t.shape[0]
    steps = t.real.constant(np.arange(size))
    least = abs(t).max() * float(np.finfo(t.real.dtype).eps)
    upper = where(np.triu(np.ones((size, size), bool), 1), t, 0.0)

    def row_(k: Any, x: Any) -> Any:
        row = size - 1 - k
        gap = values - take(values, row, 0)
        gap = where(abs(gap) < least, least + 0.0 * gap, gap)
        found = matmul(take(upper, row, 0), x) / gap
        own = where(steps == row, 1.0, where(steps > row, found, 0.0))
        return where((steps == row).reshape(-1, 1), own.reshape(1, -1), x)

    return fori_loop(0, size, row_, t * 0.0)


def _unit(v: Any) -> Any:
    """Columns of length 1 whose greatest elements are positive reals."""
    sizes = abs(v)
    most = take_along_axis(v, sizes.argmax(0).reshape(1, -1), 0)
    turned = v / sign(most)
    return turned / sqrt((sizes * sizes).sum(0))


def _eig_rule(primals: Any, directions: Any) -> Any:
    values, vectors = _eig(*primals)
    change = solve(vectors, matmul(directions[0], vectors))
    gaps = values - values.reshape(-1, 1)
    equal = gaps == 0
    moved = matmul(vectors, change * where(equal, 0.0, 1.0 / where(equal, 1.0, gaps)))
    along = (vectors.conj() * moved).sum(0).real
    return (values, vectors), (diagonal(change), moved - vectors * along)


def _square(a: Any, who: str) -> Any:
    a = operand(a).as_float()
    if a.ndim != 2 or known(a.shape[0], who) != known(a.shape[1], who):
        raise refuse(f"{who} requires a square matrix", list(a.shape), "weft.vmap takes stacks")
    wide = np.complex64 if a.real.dtype == np.float32 else np.complex128
    return a.astype(wide, copy=False)


@of_stacks
def eig(a: Any) -> Any:
    """Eigenvalues of a square matrix and its eigenvectors, of length 1, as complex numbers, in the
    order in which QR steps leave them.

    >>> np.sort(abs(np.linalg.eig(x)[0]))
    """
    found = custom_jvp(_eig, _eig_rule)(_square(a, "eig"))
    return np.linalg._linalg.EigResult(*found)  # pyright: ignore


@of_stacks
def eigvals(a: Any) -> Any:
    """Eigenvalues of a square matrix as complex numbers; see eig.

    >>> np.sort(abs(np.linalg.eigvals(x)))
    """
    return eig(a)[0]


def roots(p: Any) -> Any:
    """The roots of the polynomial with these coefficients, the highest power first, of which the
    first is not zero; as complex numbers.

    >>> np.sort(abs(np.roots(v)))
    """
    p = operand(p).as_float()
    degree = known(p.shape[0], "roots") - 1
    if degree < 1:
        return p[:0].astype(np.complex128)
    row = (-p[1:] / p[:1]).reshape(1, -1)
    return eigvals(concat([row, row.constant(np.eye(degree - 1, degree, dtype=row.dtype))], 0))


def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these roots, or of a matrix with its eigenvalues; the
    highest power first.

    >>> np.poly(v), np.poly(v * 1j)
    """
    zeros = operand(seq_of_zeros).as_float()
    zeros = as_double(zeros) if zeros.dtype == np.float16 else zeros
    zeros = eigvals(zeros) if zeros.ndim == 2 else zeros.reshape(-1)
    found = zeros.constant(np.ones(1, zeros.dtype))
    for position in range(known(zeros.shape[0], "poly")):
        nothing = found[:1] * 0
        found = concat([found, nothing]) - concat([nothing, found * zeros[position]])
    return found
