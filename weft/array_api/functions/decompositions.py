"""NumPy's `linalg` by Jacobi's rotations: eigenvalues of symmetric matrices, singular values, and
what is made of them. The rotations are loops of the graph; derivatives have rules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array.complex_numbers import Complex
from weft.array.elementwise import abs, matmul, sign, sqrt, where
from weft.array.products import vector_norm
from weft.array.rearrangements import concat, matrix_transpose
from weft.array.selections import take, take_along_axis
from weft.array_api.operands import as_double, known, of_stacks, operand, refuse
from weft.autodiff.custom import custom_jvp
from weft.autodiff.one_kernel import one_kernel
from weft.dialects.weights import Array
from weft.tracing.control import fori_loop, scan

_SWEEPS = 10
"""Over all pairs, which is more than enough for float64: convergence is quadratic."""


@of_stacks
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal columns and an upper triangle, by Householder's reflections.

    >>> np.linalg.qr(x), np.linalg.qr(x[:, :2]), np.linalg.qr(x, "r")
    """
    a = operand(a).as_float()
    if mode not in ("reduced", "complete", "r") or a.ndim != 2:
        raise refuse("qr requires a matrix, and the mode reduced, complete or r", repr(mode))
    rows, columns = known(a.shape[0], "qr"), known(a.shape[1], "qr")
    identity = a.constant(np.eye(rows, dtype=a.dtype))
    steps, count = np.arange(rows), min(rows, columns)

    def reflect(k: Any, state: Any) -> Any:
        q, r = state
        column, first = where(steps >= k, take(r, k, 1), 0.0), take(take(r, k, 1), k, 0)
        done = (where(steps > k, abs(column), 0.0).sum() == 0) & (first.imag == 0)
        size = vector_norm(column)
        head = where(first.real < 0, size, -size)  # what stays of the column, a real number
        direction = column - where(steps == k, head, 0.0)
        across, bottom = _conjugate(direction), _conjugate(first) - head
        weight = where(done, 0.0, -1.0 / where(done, 1.0, head * bottom))
        r = r - _conjugate(weight) * direction.reshape(-1, 1) * matmul(across, r)
        return q - weight * matmul(q, direction).reshape(-1, 1) * across, r

    steps_needed = rows if a.dtype.kind == "c" else rows - 1  # the last element, to a real number
    q, r = fori_loop(0, min(steps_needed, columns), reflect, (identity, a))
    r = where(np.tril(np.ones((rows, columns), bool), -1), 0.0, r)
    if mode == "r":
        return r[:count]
    found = (q, r) if mode == "complete" else (q[:, :count], r[:count])
    return np.linalg._linalg.QRResult(*found)  # pyright: ignore


@of_stacks
def eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803  NumPy's name
    """Eigenvalues of a symmetric matrix in rising order, and its eigenvectors, by Jacobi's
    rotations; vectors are defined but for their signs.

    >>> np.linalg.eigh(s)[0]
    """
    a = operand(a).as_float()
    size = _square(a, "eigh")
    low = np.tril(np.ones((size, size), bool), -1)
    half = where(low if UPLO == "L" else low.T, a, 0.0)
    whole = half + adjoint(half) + where(np.eye(size, dtype=bool), a.real, 0.0)
    found = custom_jvp(_eigh, _eigh_rule)(whole)
    return np.linalg._linalg.EighResult(*found)  # pyright: ignore


def adjoint(a: Any) -> Any:
    """The transpose of a matrix, with the other imaginary parts."""
    return _conjugate(a.T)


def _conjugate(a: Any) -> Any:
    return a.conj() if isinstance(a, Complex) else a


@of_stacks
def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803  NumPy's name
    """Eigenvalues of a symmetric matrix in rising order.

    >>> np.linalg.eigvalsh(s)
    """
    return eigh(a, UPLO)[0]


@of_stacks
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Singular values of a matrix in falling order between orthonormal columns and rows, which are
    defined but for their signs, by one-sided rotations.

    >>> np.linalg.svd(x[:, :2], compute_uv=False), np.linalg.svd(x)[1]
    """
    a = operand(a).as_float()
    if a.ndim != 2:
        raise refuse("svd requires a matrix", list(a.shape))
    rows, columns = (known(each, "svd") for each in a.shape)
    if rows < columns:
        u, s, vh = svd(a.T, full_matrices)
        found = matrix_transpose(vh), s, matrix_transpose(u)
    else:
        found = custom_jvp(_svd, _svd_rule)(a)
        if full_matrices and compute_uv and rows > columns:
            found = concat([found[0], _others(found[0])], 1), *found[1:]
    return np.linalg._linalg.SVDResult(*found) if compute_uv else found[1]  # pyright: ignore


@of_stacks
def svdvals(x: Any, /) -> Any:
    """Singular values of a matrix in falling order.

    >>> np.linalg.svdvals(x)
    """
    return svd(x, compute_uv=False)


@of_stacks
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:  # noqa: N803
    """How many singular values are above `tol`, or `rtol` times the greatest.

    >>> np.linalg.matrix_rank(x), np.linalg.matrix_rank(v.reshape(3, 1) * v)
    """
    a = operand(A).as_float()
    s = svdvals(a)
    part = _epsilon(a) if rtol is None else rtol
    return (s > (s[0] * part if tol is None else tol)).astype(np.int64).sum()


@of_stacks
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The pseudo-inverse of a matrix, without singular values below `rcond` times the greatest.

    >>> np.linalg.pinv(x), np.linalg.pinv(x[:, :2]), np.linalg.pinv(x[:2])
    """
    a = operand(a).as_float()
    given = rcond if rtol is None else rtol
    part = 1e-15 if given is None else given

    def plain(a: Any) -> Any:
        u, s, vh = svd(a, False)
        kept = s > s[0] * part
        return matmul(adjoint(vh) * where(kept, 1.0 / where(kept, s, 1.0), 0.0), adjoint(u))

    def rule(primals: Any, directions: Any) -> tuple[Any, Any]:
        """Golub and Pereyra's (1973), for matrices whose rank stays."""
        (a,), (d,) = primals, directions
        p = plain(a)
        left, right = (a.constant(np.eye(n, dtype=a.dtype)) for n in a.shape)
        left, right = left - matmul(a, p), right - matmul(p, a)
        across, back = adjoint(d), adjoint(p)
        change = matmul(matmul(p, back), matmul(across, left)) - matmul(matmul(p, d), p)
        return p, change + matmul(matmul(right, across), matmul(back, p))

    return custom_jvp(plain, rule)(a)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Least squares of least length: the solution, residuals, rank and singular values. Residuals
    are there where there are more rows than columns.

    >>> np.linalg.lstsq(x[:, :2], v), np.linalg.lstsq(x[:, :2], x)[0], np.linalg.lstsq(x[:2], v[:2])
    """
    a, b = operand(a, b).as_float(), operand(b, a).as_float()
    rows, columns = (known(each, "lstsq") for each in a.shape)
    part = _epsilon(a) if rcond is None else rcond
    s = svdvals(a)
    x = matmul(pinv(a, part), b)
    rest = b - matmul(a, x)
    squares = (abs(rest) ** 2).sum(0).reshape(-1)
    residuals = squares if rows > columns else squares[:0]
    return x, residuals, (s > s[0] * part).sum().astype(np.int32), s


def _epsilon(a: Any) -> float:
    return float(np.finfo(a.dtype).eps) * max(known(each, "linalg") for each in a.shape)


def _square(a: Any, who: str) -> int:
    size = known(a.shape[-1], who)
    if a.ndim != 2 or a.shape[0] != size:
        raise refuse(f"{who} requires a square matrix", list(a.shape))
    return size


def _pairings(size: int) -> Array:
    """The partner of each column in each round of a tournament; an odd one out is its own."""
    even = size + size % 2
    rounds: list[list[int]] = []
    for number in range(max(1, even - 1)):
        seats = [0, *(1 + (seat + number) % (even - 1) for seat in range(even - 1))]
        partners = list(range(size))
        for first, second in zip(seats[: even // 2], reversed(seats), strict=False):
            if max(first, second) < size:
                partners[first], partners[second] = second, first
        rounds.append(partners)
    return np.array(rounds)


def _swept(size: int, like: Any, rotate: Any, state: Sequence[Any]) -> Any:
    """The state after rotations of all pairs of columns, sweep after sweep."""
    partners = like.constant(_pairings(size))

    def round_(state: Any, row: Any) -> Any:
        return rotate(state, row), None

    def sweep(_: Any, state: Any) -> Any:
        return scan(round_, state, partners)[0]

    return fori_loop(0, _SWEEPS, sweep, tuple(state))


def _rotation(own: Any, partner: Any, product: Any, is_first: Any) -> tuple[Any, Any]:
    """Cosines, and sines with their signs, of the rotations that make products zero."""
    flat = product == 0
    tau = (partner - own) / where(flat, 1.0, 2.0 * product)
    level = where(is_first, 1.0, -1.0).astype(tau.dtype)
    direction = where(tau == 0, level, sign(tau))
    tangent = where(flat, 0.0, direction / (abs(tau) + sqrt(tau * tau + 1.0)))
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    return cosine, tangent * cosine


def _polar(product: Any, partner: Any) -> tuple[Any, Any]:
    """Sizes of complex numbers, and the numbers of size 1 that they are times; reals stay. Those of
    a pair have one size and opposite angles, which rounding makes a little unequal.
    """
    if not isinstance(product, Complex):
        return product, 1.0
    product = (product + take(product, partner, 0).conj()) * 0.5
    size = abs(product)
    return size, where(size == 0, 1.0, product / where(size == 0, 1.0, size))


def _squares(w: Any) -> Any:
    """The squares of the lengths of columns."""
    return (w * _conjugate(w)).sum(0).real


@one_kernel
def _eigh(a: Any) -> Any:
    size = known(a.shape[0], "eigh")
    steps = np.arange(size)

    def rotate(state: Any, partner: Any) -> Any:
        a, vectors = state
        diagonal = a.reshape(-1)[:: size + 1].real
        # A pair sees one number, though rounding makes the matrix a little unsymmetric.
        off = take_along_axis(a + adjoint(a), partner.reshape(-1, 1), 1)[:, 0] * 0.5
        off, phase = _polar(where(partner == steps, 0.0, off), partner)
        cosine, sine = _rotation(diagonal, take(diagonal, partner, 0), off, partner > steps)
        rows, columns = (sine * phase).reshape(-1, 1), sine * _conjugate(phase)
        a = cosine.reshape(-1, 1) * a - rows * take(a, partner, 0)
        return tuple(cosine * each - columns * take(each, partner, 1) for each in (a, vectors))

    start = a, a.constant(np.eye(size, dtype=a.dtype))
    a, vectors = _swept(size, a.real, rotate, start)
    values = a.reshape(-1)[:: size + 1].real
    order = values.argsort()
    return take(values, order, 0), take(vectors, order, 1)


def _eigh_rule(primals: Any, directions: Any) -> Any:
    values, vectors = _eigh(*primals)
    change = matmul(matmul(adjoint(vectors), directions[0]), vectors)
    moved = matmul(vectors, change * _inverse_differences(values))
    return (values, vectors), (change.reshape(-1)[:: values.shape[0] + 1].real, moved)


def _inverse_differences(values: Any) -> Any:
    """`1 / (values[j] - values[i])`, and 0 for equal ones."""
    differences = values - values.reshape(-1, 1)
    equal = differences == 0
    return where(equal, 0.0, 1.0 / where(equal, 1.0, differences))


@one_kernel
def _svd(a: Any) -> Any:
    """Of at least as many rows as columns."""
    size = known(a.shape[1], "svd")
    steps = np.arange(size)

    def rotate(state: Any, partner: Any) -> Any:
        w, _ = state
        others, across = take(w, partner, 1), _conjugate(w)
        own, product = _squares(w), where(partner == steps, 0.0, (across * others).sum(0))
        product, phase = _polar(product, partner)
        cosine, sine = _rotation(own, take(own, partner, 0), product, partner > steps)
        sine = sine * _conjugate(phase)
        return tuple(cosine * each - sine * take(each, partner, 1) for each in state)

    w, v = _swept(size, a.real, rotate, (a, a.constant(np.eye(size, dtype=a.dtype))))
    sizes = sqrt(_squares(w))
    order = (-sizes).argsort()
    s, w, v = take(sizes, order, 0), take(w, order, 1), take(v, order, 1)
    is_zero = s <= s[0] * float(np.finfo(a.dtype).eps)
    u = where(is_zero, 0.0, w / where(is_zero, 1.0, s))
    return _completed(u), s, adjoint(v)


def _svd_rule(primals: Any, directions: Any) -> Any:
    """Of matrices whose singular values differ and are above 0; of the angles of complex vectors,
    which are free, those on the right stay.
    """
    u, s, vh = _svd(*primals)
    (d,) = directions
    along = matmul(d, adjoint(vh))
    within = matmul(adjoint(u), along)
    back, factors = adjoint(within), _inverse_differences(s * s)
    left = factors * (within * s + s.reshape(-1, 1) * back)
    right = factors * (s.reshape(-1, 1) * within + back * s)
    inverse = where(s == 0, 0.0, 1.0 / where(s == 0, 1.0, s))
    change = within.reshape(-1)[:: s.shape[0] + 1]
    moved = matmul(u, left) + (along - matmul(u, within)) * inverse
    if isinstance(change, Complex):
        moved = moved + u * (1j * change.imag * inverse)
    return (u, s, vh), (moved, change.real, matmul(adjoint(right), vh))


def _completed(u: Any) -> Any:
    """Orthonormal columns in place of those that are zero: reflections leave the others."""
    missing = _squares(u) < 0.5
    q, r = qr(u)
    signs = sign(r.reshape(-1)[:: u.shape[1] + 1])
    return where(missing, q, q * where(signs == 0, 1.0, signs))


def _others(u: Any) -> Any:
    """Columns that complete orthonormal ones."""
    return qr(u, "complete")[0][:, u.shape[1] :]


def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of the polynomial of that degree, the highest power first, whose values are
    nearest to `y`: least squares, with weights `w` of the differences.

    >>> np.polyfit(v, v * v, 1), np.polyfit(v, x, 1, w=v)
    """
    if full or cov is not False:
        raise refuse("polyfit requires full and cov to be False", (full, cov))
    x, y = as_double(operand(x, y)), operand(y, x).as_float()
    powers = concat([(x**power).reshape(-1, 1) for power in reversed(range(int(deg) + 1))], 1)
    if w is not None:
        w = operand(w, x)
        powers, y = powers * w.reshape(-1, 1), (y.T * w).T
    scale = sqrt((abs(powers) ** 2).sum(0))
    part = known(x.shape[0], "polyfit") * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    return (lstsq(powers / scale, y, part)[0].T / scale).T
