"""Discrete Fourier transforms, by matrix products with roots of unity.

A transform of `n` elements is one product where `n` is small or symbolic. Else it is split into
transforms of two factors of `n` (Cooley and Tukey) or, where `n` is prime, becomes a convolution of
a power of two (Bluestein): the work for each element is that of the sum of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute

from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.weights import Array

Parts = Sequence[Term]
"""The real parts of numbers, and the imaginary ones where there are any."""

DIRECT = 128
"""Transforms up to this size are one matrix product."""


class Transform(Struct, frozen=True):
    """Discrete Fourier transforms along the last axis, without a scale, of complex numbers as two
    tensors of parts; `sign` is that of the exponent.
    """

    stored: Callable[[Array], Term]
    element: Attribute
    sign: int

    def constant(self, array: Array) -> Term:
        """A table in the element type."""
        return self.stored(array.astype(numpy_dtype(self.element)))

    def __call__(self, parts: Parts, kept: Expr) -> tuple[Term, Term]:
        """The first `kept` frequencies; of reals there is one part alone."""
        size = parts[0].shape[-1].constant
        if size is None or size <= DIRECT:
            return self._direct(parts, kept)
        first = _factor(size)
        found = self._bluestein(parts, size) if first == 1 else self._split(parts, size, first)
        real, imaginary = (each.part(len(each.shape) - 1, 0, kept) for each in found)
        return real, imaginary

    def _direct(self, parts: Parts, kept: Expr) -> tuple[Term, Term]:
        size = parts[0].shape[-1]
        roots = self._roots(parts[0].b, size, kept)
        return _combined([each.matmul(roots) for each in parts], len(parts[0].shape) - 1)

    def _roots(self, b: GraphBuilder, size: Expr, kept: Expr) -> Term:
        """The matrix `[size, 2 * kept]` of the transform: cosines, and behind them sines."""
        n, k = size.constant, kept.constant
        if n is not None and k is not None:
            return self.constant(np.concatenate([*_root_table(n, self.sign)[:, :, :k]], 1))
        steps = counted(b, size).insert(1) * counted(b, kept)
        turns = steps.modulo(size_term(b, size, I64)).cast(F64) / size_term(b, size, F64)
        cosine, sine = ((turns * (2 * math.pi)).math(name) for name in ("cos", "sin"))
        return joined([cosine, sine * self.sign], 1).cast(self.element)

    def _split(self, parts: Parts, size: int, first: int) -> tuple[Term, Term]:
        """Transforms of `first` elements that lie `size / first` apart, products with a matrix on
        the left, then of what they give.
        """
        second, lead = size // first, parts[0].shape[:-1]
        axis, shape = len(lead), (*lead, first, second)
        left = self.constant(_root_table(first, self.sign).reshape(2 * first, first))
        inner = _combined([left.matmul(each.reshape(shape)) for each in parts], axis)
        turns = np.outer(np.arange(first), np.arange(second)) / size
        outer = self(self._times(inner, _roots_of(turns, self.sign)), Expr.of(second))
        order = [*range(axis), axis + 1, axis]
        real, imaginary = (each.transpose(order).reshape((*lead, size)) for each in outer)
        return real, imaginary

    def _bluestein(self, parts: Parts, size: int) -> tuple[Term, Term]:
        """A convolution with a chirp, by transforms of the next power of two."""
        wide = Expr.of(1 << (2 * size - 2).bit_length())
        squares = np.arange(size, dtype=np.int64) ** 2 % (2 * size)
        chirp = _roots_of(squares / (2 * size), self.sign)
        kernel = np.zeros(wide.constant or 0, np.complex128)
        kernel[:size] = chirp.conj()
        kernel[len(kernel) - size + 1 :] = chirp[1:].conj()[::-1]
        axis = len(parts[0].shape) - 1
        spread = [resized(each, axis, wide) for each in self._times(parts, chirp)]
        forward = Transform(self.stored, self.element, -1)(spread, wide)
        product = self._times(forward, np.fft.fft(kernel) / len(kernel))
        back = Transform(self.stored, self.element, 1)(product, wide)
        return self._times([each.part(axis, 0, size) for each in back], chirp)

    def real_inverse(self, parts: Parts, length: Expr) -> Term:
        """Reals, `length` of them, from the frequencies up to the middle one."""
        axis, half = len(parts[0].shape) - 1, length // 2 + 1
        parts = [resized(each, axis, half) for each in parts]
        count = length - half
        mirror = size_term(parts[0].b, count, I64) - counted(parts[0].b, count)
        whole = [
            joined([each, -each.take(mirror, axis) if at else each.take(mirror, axis)], axis)
            for at, each in enumerate(parts)
        ]
        return self(whole, length)[0] / size_term(parts[0].b, length, self.element)

    def _times(self, parts: Parts, factors: Array) -> tuple[Term, Term]:
        """Complex numbers times a table of them."""
        a, b = (self.constant(part) for part in (np.real(factors), np.imag(factors)))
        real = parts[0]
        if len(parts) == 1:
            return real * a, real * b
        return real * a - parts[1] * b, real * b + parts[1] * a


def _combined(products: Parts, axis: int) -> tuple[Term, Term]:
    """Both parts, of the products with cosines, and behind them along an axis with sines."""
    half = products[0].shape[axis] // 2
    (a, b), *others = ([x.part(axis, at, half) for at in (0, half)] for x in products)
    return (a - others[0][1], b + others[0][0]) if others else (a, b)


def _factor(size: int) -> int:
    """The greatest divisor up to the square root, and to what is one product."""
    most = min(math.isqrt(size), DIRECT)
    return next(first for first in range(most, 0, -1) if size % first == 0)


def _roots_of(turns: Array, sign: int) -> Array:
    return np.exp(np.complex128(sign * 2j * math.pi) * turns)


def _root_table(size: int, sign: int) -> Array:
    """The cosines and the sines `[2, size, size]` of a transform."""
    roots = _roots_of(np.outer(np.arange(size), np.arange(size)) % size / size, sign)
    return np.stack([np.real(roots), np.imag(roots)])


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
