"""NumPy's differences, sums of products, interpolation, polynomials and windows."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import products, selections
from weft.array.elementwise import abs, cosh, matmul, where
from weft.array.operators import axes_of, axis_of, listed
from weft.array.rearrangements import concat, flip, moveaxis
from weft.array.selections import take
from weft.array_api.operands import (
    array_operand,
    as_double,
    known,
    leaves,
    operand,
    refuse,
    size_of,
)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, so many times over.

    >>> np.diff(x), np.diff(x, 2, axis=0), np.diff(v, prepend=0.0, append=v[:1])
    """
    a = operand(a, prepend, append)
    position = axis_of(axis, a.ndim)

    def wide(end: Any) -> Any:
        if end is None:
            return None
        end = array_operand(end, a)
        if end.ndim:
            return end
        shape = list(a.shape)
        shape[position] = 1
        return end.broadcast_to(shape)

    parts = [each for each in (wide(prepend), a, wide(append)) if each is not None]
    return selections.diff(concat(parts, position) if len(parts) > 1 else a, axis=position, n=n)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours of the flat array, between other elements.

    >>> np.ediff1d(x, to_begin=0.0)
    """
    flat = operand(ary).reshape(-1)
    parts = [selections.diff(flat)]
    if to_begin is not None:
        parts = [operand(to_begin, flat).astype(flat.dtype).reshape(-1), *parts]
    if to_end is not None:
        parts = [*parts, operand(to_end, flat).astype(flat.dtype).reshape(-1)]
    return concat(parts)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes by central differences, one-sided at the ends, along axes.

    >>> np.gradient(v), np.gradient(x, 0.5), np.gradient(x, axis=1, edge_order=2)
    >>> np.gradient(v, np.cumsum(v))
    """
    f = operand(f, *varargs).as_float()
    axes = axes_of(axis, f.ndim)
    steps = [*varargs] if len(varargs) == len(axes) else [*varargs] * len(axes) or [1.0] * len(axes)
    found = [_slopes(f, each, step, edge_order) for each, step in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(f: Any, axis: int, step: Any, edge_order: int) -> Any:
    f = moveaxis(f, axis, -1)
    if np.ndim(step) if not hasattr(step, "ndim") else step.ndim:
        gaps = selections.diff(operand(step, f).as_float())
    else:
        gaps = operand(step, f).as_float().broadcast_to((f.shape[-1] - 1,))
    h0, h1 = gaps[:-1], gaps[1:]
    inner = (
        -h1 / (h0 * (h0 + h1)) * f[..., :-2]
        + (h1 - h0) / (h0 * h1) * f[..., 1:-1]
        + h0 / (h1 * (h0 + h1)) * f[..., 2:]
    )
    if edge_order == 1:
        first, last = (f[..., 1] - f[..., 0]) / gaps[0], (f[..., -1] - f[..., -2]) / gaps[-1]
    else:
        a, b = gaps[0], gaps[1]
        first = (
            -(2 * a + b) / (a * (a + b)) * f[..., 0]
            + (a + b) / (a * b) * f[..., 1]
            - a / (b * (a + b)) * f[..., 2]
        )
        a, b = gaps[-2], gaps[-1]
        last = (
            b / (a * (a + b)) * f[..., -3]
            - (a + b) / (a * b) * f[..., -2]
            + (2 * b + a) / (b * (a + b)) * f[..., -1]
        )
    whole = concat([first[..., None], inner, last[..., None]], f.ndim - 1)
    return moveaxis(whole, -1, axis)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by trapezoids.

    >>> np.trapezoid(x), np.trapezoid(v, np.cumsum(v)), np.trapezoid(x, dx=0.5, axis=0)
    """
    y = moveaxis(operand(y, x, dx), axis, -1)
    if x is None:
        gaps = dx
    else:
        x = operand(x, y)
        gaps = selections.diff(x if x.ndim == 1 else moveaxis(x, axis, -1))
    return (gaps * (y[..., 1:] + y[..., :-1]) / 2.0).sum(-1)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Values between points on straight lines, at the ends those of the ends.

    >>> np.interp(x, np.sort(v), v), np.interp(2.0 * v, [0.1, 0.5, 1.0], [1.0, 4.0, 2.0], left=-1.0)
    """
    x, xp, fp = (as_double(operand(each, x, xp, fp)) for each in (x, xp, fp))
    if period is not None:
        x, xp = x % period, xp % period
        order = xp.argsort()
        xp, fp = take(xp, order), take(fp, order)
        xp = concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = concat([fp[-1:], fp, fp[:1]])
    last = size_of(xp, 0) - 1
    after = selections.searchsorted(xp, x, side="right").clip(1, last)
    low, high = take(xp, after - 1), take(xp, after)
    start, end = take(fp, after - 1), take(fp, after)
    slope = (end - start) / where(high == low, 1.0, high - low)
    found = start + slope * (x - low)
    found = where(x < xp[0], fp[0] if left is None else left, found)
    return where(x > xp[-1], fp[-1] if right is None else right, where(x == xp[-1], fp[-1], found))


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The sums of products of a vector with another one from its last element on.

    >>> np.convolve(v, v[:2]), np.convolve(v, v[:2], "same"), np.convolve(v[:2], v, "valid")
    """
    a, v = operand(a, v).promoted(operand(v, a))
    long, short = known(a.shape[0], "convolve"), known(v.shape[0], "convolve")
    if short > long:
        a, v, long, short = v, a, short, long
    if not short:
        raise refuse("convolve requires vectors with elements", "an empty one")
    return _windowed(a, v[::-1], mode, long, short)


def _windowed(a: Any, v: Any, mode: str, long: int, short: int) -> Any:
    """The products of windows of a vector, which zeros continue, with a short one."""
    front, back = {
        "full": (short - 1, short - 1), "same": (short // 2, (short - 1) // 2), "valid": (0, 0),
    }[mode]  # fmt: skip
    zeros = [a.constant(np.zeros(count, a.dtype)) for count in (front, back)]
    wide = concat([zeros[0], a, zeros[1]])
    count = long + front + back - short + 1
    at = np.arange(count)[:, None] + np.arange(short)
    if mode == "same":
        at = np.arange(long)[:, None] + np.arange(short)
    return matmul(take(wide, at), v)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of products of a vector with another one at all shifts.

    >>> np.correlate(v, v[:2]), np.correlate(v, v[:2], "full"), np.correlate(v[:2], v, "same")
    >>> np.correlate(v + 1j, 2j * v[:2])
    """
    a, v = operand(a, v).promoted(operand(v, a))
    long, short = known(a.shape[0], "correlate"), known(v.shape[0], "correlate")
    if short <= long:
        return _windowed(a, v.conj(), mode, long, short)
    return _windowed(v.conj(), a, mode, short, long)[::-1]


def inner(a: Any, b: Any, /) -> Any:
    """The sums of products over the last axes.

    >>> np.inner(x, v), np.inner(v, v), np.inner(x, x)
    """
    a, b = operand(a, b).promoted(operand(b, a))
    return products.tensordot(a, b, axes=([-1], [-1])) if a.ndim and b.ndim else a * b


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The sums of products over the last axis and the last but one of `b`.

    >>> np.dot(x, v), np.dot(v, x), np.dot(x, 2.0), np.dot(x[None], x)
    """
    a, b = array_operand(a, b).promoted(array_operand(b, a))
    return a.dot(b)


def vdot(a: Any, b: Any, /) -> Any:
    """The sum of the products of all elements.

    >>> np.vdot(x, x), np.vdot(x * 1j, x + 2j)
    """
    a, b = operand(a, b), operand(b, a)
    return inner(a.conj().reshape(-1), b.reshape(-1))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of elements of two arrays.

    >>> np.outer(v, x)
    """
    return operand(a, b).reshape(-1, 1) * operand(b, a).reshape(1, -1)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sums of products along an axis.

    >>> np.vecdot(x, v), np.vecdot(x * 1j, v)
    """
    return products.vecdot(operand(x1, x2), operand(x2, x1), axis=axis)


def matvec(x1: Any, x2: Any, /) -> Any:
    """Products of matrices and vectors.

    >>> np.matvec(x, v)
    """
    return matmul(operand(x1, x2), operand(x2, x1)[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Products of vectors and matrices.

    >>> np.vecmat(v, x), np.vecmat(v * 1j, x)
    """
    return matmul(operand(x1, x2).conj()[..., None, :], operand(x2, x1))[..., 0, :]


def kron(a: Any, b: Any) -> Any:
    """Each element of one array times all of another, as blocks.

    >>> np.kron(x, v), np.kron(v, x)
    """
    a, b = operand(a, b), operand(b, a)
    rank = builtins.max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (rank - x.ndim) + tuple(x.shape)) for x in (a, b))
    left = a.reshape(tuple(s for size in a.shape for s in (size, 1)))
    right = b.reshape(tuple(s for size in b.shape for s in (1, size)))
    return (left * right).reshape(tuple(s * t for s, t in zip(a.shape, b.shape, strict=True)))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """The vectors at right angles to two of three elements.

    >>> np.cross(x, v), np.cross(x, x[::-1], axis=0)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(operand(a, b), axisa, -1), moveaxis(operand(b, a), axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise refuse("cross requires vectors of 3 elements", f"{a.shape[-1]} and {b.shape[-1]}")
    a0, a1, a2, b0, b1, b2 = (each[..., k : k + 1] for each in (a, b) for k in range(3))
    whole = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    found = concat(whole, whole[0].ndim - 1)
    return moveaxis(found, -1, axisc)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sums over pairs of axes of all products.

    >>> np.tensordot(x, x), np.tensordot(x, v, 1), np.tensordot(x, x, ([0], [1]))
    """
    pairs = axes if isinstance(axes, int) else [listed(each) for each in axes]
    return products.tensordot(operand(a, b), operand(b, a), axes=pairs)


# Polynomials ----------------------------------------------------------------------------------


def polyval(p: Any, x: Any) -> Any:
    """A polynomial with these coefficients, the highest one first.

    >>> np.polyval(v, x), np.polyval([1.0, -2.0], x)
    """
    p, x = operand(p, *leaves(x)), operand(x, p)
    found = x * 0
    for position in range(known(p.shape[0], "polyval")):
        found = found * x + p[position]
    return found


def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the derivative.

    >>> np.polyder(v), np.polyder(v, 2)
    """
    p = operand(p)
    for _ in range(m):
        size = known(p.shape[0], "polyder")
        p = p[:-1] * np.arange(size - 1, 0, -1)
    return p


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The coefficients of the integral.

    >>> np.polyint(v), np.polyint(v, k=2.0)
    """
    p = operand(p).as_float()
    ends = [0.0] * m if k is None else listed(k) * (m if len(listed(k)) == 1 else 1)
    for end in ends:
        size = known(p.shape[0], "polyint")
        p = concat([p / np.arange(size, 0, -1), operand(end, p).astype(p.dtype).reshape(1)])
    return p


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials.

    >>> np.polyadd(v, v[:2])
    """
    a1, a2 = operand(a1, a2).promoted(operand(a2, a1))
    size = builtins.max(known(a1.shape[0], "polyadd"), known(a2.shape[0], "polyadd"))

    def wide(x: Any) -> Any:
        return concat([x.constant(np.zeros(size - x.shape[0], x.dtype)), x])

    return wide(a1) + wide(a2)


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials.

    >>> np.polysub(v, v[:2])
    """
    return polyadd(operand(a1, a2), -operand(a2, a1))


def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials.

    >>> np.polymul(v, v[:2])
    """
    return convolve(a1, a2)


def polydiv(u: Any, v: Any) -> Any:
    """The quotient of two polynomials and what is left, without zeros in front.

    >>> np.polydiv(np.array([3.0, 5.0, 2.0]) * v[0], v[:2])
    """
    u, v = operand(u, v).as_float(), operand(v, u).as_float()
    scale = 1.0 / v[0]  # in the divisor's own dtype, as NumPy has it
    u, v = u.promoted(v)
    size, by = known(u.shape[0], "polydiv"), known(v.shape[0], "polydiv")
    rest, quotients = u, [u.constant(np.zeros(1, u.dtype))]
    for position in range(size - by + 1):
        quotients.append((rest[position] * scale).reshape(1))
        front, part = rest[:position], rest[position : position + by] - quotients[-1] * v
        rest = concat([front, part, rest[position + by :]])
    large = ~(abs(rest) <= 1e-8)  # of which NaN is one
    kept = (large.astype(np.int64).cumsum() > 0) | (np.arange(size) == size - 1)
    return concat(quotients[1:] or quotients), rest[kept]


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0, as the mean of
    `cosh(x cos(t))` over a half circle, which is exact to the last digits.

    >>> np.i0(x), np.i0(i / 4)
    """
    x = operand(x).as_float()
    cosines = np.cos(np.pi * (np.arange(128) + 0.5) / 128).astype(x.dtype)
    return cosh(x.reshape(*x.shape, 1) * cosines).mean(-1)


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803  NumPy's name
    """Powers of a vector's elements, a column each.

    >>> np.vander(v), np.vander(v, 2, increasing=True)
    """
    x = operand(x)
    x = x.astype(np.promote_types(x.dtype, np.int64))
    count = known(x.shape[0], "vander") if N is None else int(N)
    columns = [x * 0 + 1]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    found = concat([each.reshape(-1, 1) for each in columns[:count]], 1)
    return found if increasing else flip(found, 1)
