"""Discrete Fourier transforms.

A size without a prime factor above 13 is transformed in passes of few points, `graph.fourier_pass`.
A small size of another form, or a symbolic one, is one product with the matrix of roots of unity;
greater ones are split into two factors (Cooley and Tukey) or, where they are prime, become a
convolution of a power of two (Bluestein).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from msgspec import Struct
from xdsl.ir import Attribute

from weft.dialects.expr import Expr, maximum, minimum
from weft.dialects.expr.functions import product
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import F64, I64
from weft.dialects.graph.linalg.fourier import MOST_POINTS
from weft.dialects.weights import Array

Parts = Sequence[Term]
"""The real parts of numbers, and the imaginary ones where there are any."""

DIRECT = 128
"""Transforms up to this size that are not made of passes are one matrix product."""

NARROW = 8
"""From so many elements side by side on, a pass fills vectors with them."""


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

    def __call__(self, parts: Parts, kept: Expr, axis: int = -1) -> tuple[Term, Term]:
        """The first `kept` frequencies along an axis; of reals there is one part alone."""
        shape = parts[0].shape
        rank, axis = len(shape), axis % len(shape)
        size = shape[axis].constant
        passes, run = _passes(size or 0), product(shape[axis + 1 :])
        if passes and (run.constant is None or run.constant >= NARROW):
            found = self._in_passes(parts, axis, passes)
        elif axis < rank - 1:
            order = [*(at for at in range(rank) if at != axis), axis]
            moved = self([each.transpose(order) for each in parts], kept)
            found = [each.transpose([order.index(at) for at in range(rank)]) for each in moved]
        elif len(passes) > 1:
            found = self._of_lines(parts, passes)
        elif size is None or size <= DIRECT:
            found = self._direct(parts, kept)
        else:
            first = _factor(size)
            found = self._bluestein(parts, size) if first == 1 else self._split(parts, size, first)
        real, imaginary = (each.part(axis, 0, kept) for each in found)
        return real, imaginary

    def _in_passes(self, parts: Parts, axis: int, passes: Sequence[int]) -> Parts:
        """Short transforms of elements that lie apart, pass after pass, with vectors of what lies
        side by side.
        """
        shape = parts[0].shape
        lines, run = product(shape[:axis]), product(shape[axis + 1 :])
        size = math.prod(passes)
        for points in passes:
            count = size // points
            factors = self._factors(points, count) if count > 1 else None
            parts = self._pass(
                [each.reshape([lines, points, count, run]) for each in parts], factors
            )
            size, run = count, run * points
        return [each.reshape(shape) for each in parts]

    def _of_lines(self, parts: Parts, passes: Sequence[int]) -> Parts:
        """Transforms along the last axis: the results of the first pass stay where its points were,
        side by side, and are transposed.
        """
        shape, first = parts[0].shape, passes[0]
        lines, count = product(shape[:-1]), math.prod(passes[1:])
        lined = [each.reshape([lines, first, 1, count]) for each in parts]
        factors = self._factors(first, count).reshape([2, first, 1, count])
        found = [each.reshape([lines, first, count]) for each in self._pass(lined, factors)]
        across = [each.transpose([0, 2, 1]) for each in found]
        return [each.reshape(shape) for each in self._in_passes(across, 1, passes[1:])]

    def _pass(self, parts: Parts, factors: Term | None) -> list[Term]:
        values = [each.value for each in parts]
        both = [*values, None] if len(values) == 1 else values
        given = None if factors is None else factors.value
        b = parts[0].b
        found = b.op("fourier_pass", *both, given, inverse=self.sign > 0).results
        return [Term(b, each) for each in found]

    def _factors(self, points: int, count: int) -> Term:
        """What both parts of the results of a pass are multiplied by."""
        turns = np.outer(np.arange(points), np.arange(count)) / (points * count)
        roots = _roots_of(turns, self.sign)[:, :, None]
        return self.constant(np.stack([np.real(roots), np.imag(roots)]))

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


@cache
def _passes(size: int) -> tuple[int, ...]:
    """The points of passes whose product is the size: as few as there can be, of few points; none
    where a prime factor is too great.
    """
    if size <= MOST_POINTS:
        return (size,) if size > 1 else ()
    divisors = [each for each in range(2, MOST_POINTS + 1) if size % each == 0]
    found = [(each, *rest) for each in divisors if (rest := _passes(size // each))]
    return min(found, key=lambda each: (len(each), sum(each)), default=())


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
