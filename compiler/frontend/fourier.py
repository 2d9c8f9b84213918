"""Discrete Fourier transforms, by matrix products with roots of unity.

A transform of `n` elements is one product where `n` is small or symbolic. Else it is split into
transforms of two factors of `n` (Cooley and Tukey) or, where `n` is prime, becomes a convolution of
a power of two (Bluestein): the work for each element is that of the sum of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute

from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.weights import Array

DIRECT = 128
"""Transforms up to this size are one matrix product."""


class Transform(Struct, frozen=True):
    """Discrete Fourier transforms along the second to last axis of `[..., n, 2]` (or `[..., n, 1]`,
    of reals), without a scale; `sign` is that of the exponent.
    """

    stored: Callable[[Array], Term]
    element: Attribute
    sign: int

    def constant(self, array: Array) -> Term:
        """A table in the element type."""
        return self.stored(array.astype(numpy_dtype(self.element)))

    def __call__(self, x: Term, kept: Expr) -> Term:
        """The first `kept` frequencies, as `[..., kept, 2]`."""
        size = x.shape[-2].constant
        if size is None or size <= DIRECT:
            return self._direct(x, kept)
        whole = self._bluestein if (first := _factor(size)) == 1 else self._split
        complete = x if x.shape[-1] == 2 else joined([x, x * 0], len(x.shape) - 1)
        return whole(complete, size, first).part(len(x.shape) - 2, 0, kept)

    def _direct(self, x: Term, kept: Expr) -> Term:
        size, parts = x.shape[-2], x.shape[-1].constant or 0
        lead = x.shape[:-2]
        rows = x.reshape((*lead, size * parts))
        roots = self._roots(x.b, size, kept, parts)
        return rows.matmul(roots).reshape((*lead, kept, 2))

    def _roots(self, b: GraphBuilder, size: Expr, kept: Expr, parts: int) -> Term:
        """The matrix `[size * parts, kept * 2]` of the transform."""
        n, k = size.constant, kept.constant
        if n is not None and k is not None:
            return self.constant(_root_matrix(n, k, parts, self.sign))
        steps = counted(b, size).insert(1) * counted(b, kept)
        turns = steps.modulo(size_term(b, size, I64)).cast(F64) / size_term(b, size, F64)
        cosine, sine = ((turns * (2 * math.pi)).math(name).insert(2) for name in ("cos", "sin"))
        sine = sine * self.sign
        rows = [joined([cosine, sine], 2), joined([-sine, cosine], 2)][:parts]
        table = joined([row.insert(1) for row in rows], 1)
        return table.reshape((size * parts, kept * 2)).cast(self.element)

    def _split(self, x: Term, size: int, first: int) -> Term:
        """Transforms of `first` elements that lie `size / first` apart, then of what they give."""
        second, lead = size // first, x.shape[:-2]
        at = len(lead)
        order = [*range(at), at + 1, at, at + 2]
        inner = self(x.reshape((*lead, first, second, 2)).transpose(order), Expr.of(first))
        turns = np.outer(np.arange(second), np.arange(first)) / size
        outer = self(
            self.times(inner, _roots_of(turns, self.sign)).transpose(order), Expr.of(second)
        )
        return outer.transpose(order).reshape((*lead, size, 2))

    def _bluestein(self, x: Term, size: int, first: int) -> Term:
        """A convolution with a chirp, by transforms of the next power of two."""
        wide = 1 << (2 * size - 2).bit_length()
        squares = np.arange(size, dtype=np.int64) ** 2 % (2 * size)
        chirp = _roots_of(squares / (2 * size), self.sign)
        kernel = np.zeros(wide, np.complex128)
        kernel[:size] = chirp.conj()
        kernel[wide - size + 1 :] = chirp[1:].conj()[::-1]
        axis = len(x.shape) - 2
        spread = resized(self.times(x, chirp), axis, Expr.of(wide))
        forward = Transform(self.stored, self.element, -1)(spread, Expr.of(wide))
        product = self.times(forward, np.fft.fft(kernel) / wide)
        back = Transform(self.stored, self.element, 1)(product, Expr.of(wide))
        return self.times(back.part(axis, 0, size), chirp)

    def real_inverse(self, x: Term, length: Expr) -> Term:
        """Reals `[..., length, 1]` from the frequencies up to the middle one."""
        axis, last = len(x.shape) - 2, len(x.shape) - 1
        half = length // 2 + 1
        if x.shape[last] == 1:
            x = joined([x, x * 0], last)
        x = resized(x, axis, half)
        count = length - half
        steps = counted(x.b, count)
        mirrored = x.take(size_term(x.b, count, I64) - steps, axis)
        real, imaginary = mirrored.part(last, 0, 1), mirrored.part(last, 1, 1)
        whole = joined([x, joined([real, -imaginary], last)], axis)
        scale = size_term(x.b, length, x.type.element)
        return self(whole, length).part(last, 0, 1) / scale

    def times(self, x: Term, factors: Array) -> Term:
        """Complex numbers times a table of them."""
        last = len(x.shape) - 1
        real, imaginary = (x.part(last, part, 1) for part in range(2))
        a, b = (self.constant(part[..., None]) for part in (np.real(factors), np.imag(factors)))
        return joined([real * a - imaginary * b, real * b + imaginary * a], last)


def _factor(size: int) -> int:
    """The greatest divisor up to the square root."""
    return next(first for first in range(math.isqrt(size), 0, -1) if size % first == 0)


def _roots_of(turns: Array, sign: int) -> Array:
    return np.exp(np.complex128(sign * 2j * math.pi) * turns)


def _root_matrix(size: int, kept: int, parts: int, sign: int) -> Array:
    steps = np.outer(np.arange(size), np.arange(kept)) % size
    roots = _roots_of(steps / size, sign)
    rows = [np.stack([np.real(w), np.imag(w)], -1) for w in (roots, 1j * roots)][:parts]
    return np.stack(rows, 1).reshape(size * parts, kept * 2)


def resized(x: Term, axis: int, size: Expr) -> Term:
    """Cut, or filled up with zeros, to that size along an axis."""
    dim = x.shape[axis]
    if dim == size:
        return x
    x = x.part(axis, 0, minimum([dim, size]))
    missing = maximum([size - dim, 0])
    if missing == 0:
        return x
    pads = [Expr.of(0)] * (2 * len(x.shape))
    pads[len(x.shape) + axis] = missing
    return x.of(x.b.pad(x.value, pads=shape_attr(pads), mode="constant"))
