"""Passes of fast Fourier transforms: short transforms, written out, of elements that lie apart."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)

from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.batching import again, is_batched, spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, Shape, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array

ELEMENTS = (F32, F64)
"""Narrower floats would lose too much between passes."""

MOST_POINTS = 16
"""Of a pass: what the vector registers hold."""


class Complex(NamedTuple):
    """A complex scalar; a real one has no imaginary part."""

    real: Scalar
    imag: Scalar | None

    def plus(self, other: Complex) -> Complex:
        """The sum."""
        a, b = self.imag, other.imag
        return Complex(self.real + other.real, b if a is None else a if b is None else a + b)

    def minus(self, other: Complex) -> Complex:
        """The difference."""
        a, b = self.imag, other.imag
        imag = (None if b is None else -b) if a is None else a if b is None else a - b
        return Complex(self.real - other.real, imag)

    def scaled(self, factor: float) -> Complex:
        """Times a real number."""
        return Complex(self.real * factor, None if self.imag is None else self.imag * factor)

    def times_i(self, sign: int) -> Complex:
        """Times `i` or `-i`."""
        imag = self.real if sign > 0 else -self.real
        if self.imag is None:
            return Complex(self.real.constant(0), imag)
        return Complex(-self.imag if sign > 0 else self.imag, imag)

    def times(self, real: Scalar | float, imag: Scalar | float) -> Complex:
        """Times a complex number."""
        if self.imag is None:
            return Complex(self.real * real, self.real * imag)
        return Complex(self.real * real - self.imag * imag, self.real * imag + self.imag * real)


def transformed(points: Sequence[Complex], sign: int) -> list[Complex]:
    """The discrete Fourier transform of some numbers, `sign` that of the exponent: those of prime
    counts by their pairs, others by factors (Cooley and Tukey).
    """
    size = len(points)
    if size == 1:
        return list(points)
    if size == 2:
        return [points[0].plus(points[1]), points[0].minus(points[1])]
    first = 4 if size % 4 == 0 and size > 4 else _least_factor(size)
    if first == size:
        return _by_pairs(points, sign)
    second = size // first
    inner = [transformed(points[at::second], sign) for at in range(second)]
    found: list[Complex] = [points[0]] * size
    for j in range(first):
        rotated = [_by_root(line[j], j * k, size, sign) for k, line in enumerate(inner)]
        found[j::first] = transformed(rotated, sign)
    return found


def _least_factor(size: int) -> int:
    return next(each for each in range(2, size + 1) if size % each == 0)


def _by_pairs(points: Sequence[Complex], sign: int) -> list[Complex]:
    """An odd number of points: `x[k]` and `x[-k]` meet the same cosines and opposite sines."""
    size, first = len(points), points[0]
    pairs = [(points[k], points[size - k]) for k in range(1, size // 2 + 1)]
    sums = [a.plus(b) for a, b in pairs]
    differences = [a.minus(b) for a, b in pairs]
    total = first
    for each in sums:
        total = total.plus(each)
    found = [total] * size
    for j in range(1, size // 2 + 1):
        angles = [2 * math.pi * (j * k % size) / size for k in range(1, size // 2 + 1)]
        even, odd = first, differences[0].scaled(math.sin(angles[0]))
        for at, angle in enumerate(angles):
            even = even.plus(sums[at].scaled(math.cos(angle)))
            if at:
                odd = odd.plus(differences[at].scaled(math.sin(angle)))
        rotated = odd.times_i(sign)
        found[j], found[size - j] = even.plus(rotated), even.minus(rotated)
    return found


def _by_root(x: Complex, power: int, size: int, sign: int) -> Complex:
    """Times a root of unity."""
    quarters, rest = divmod(4 * (power % size), size)
    if rest:
        root = cmath.exp(2j * math.pi * sign * power / size)
        return x.times(root.real, root.imag)
    for _ in range(quarters):
        x = x.times_i(sign)
    return x


@irdl_op_definition
class FourierPassOp(GraphOp):
    """Both parts of `y[l, p, j, q] = f[j, p, q] * sum_k x[l, k, p, q] * exp(2 pi i s j k / points)`
    for `x` `[lines, points, count, run]`, where `s` is 1 if `inverse`, else -1.

    Reals have no `imag`. `factors` `[2, points, count or 1, run or 1]` are both parts of `f`, which
    is 1 without. Points are at most 16. One pass after the other is a transform of the product of
    their points, in order (Stockham): what is left of it is `count`.
    """

    name = "graph.fourier_pass"
    REUSES_OPERANDS: ClassVar = True
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    real: SSAValue = operand_def(TensorType)
    imag: SSAValue | None = opt_operand_def(TensorType)
    factors: SSAValue | None = opt_operand_def(TensorType)
    inverse: BoolAttr = prop_def(BoolAttr)
    result_real: SSAValue = result_def(TensorType)
    result_imag: SSAValue = result_def(TensorType)

    @property
    def sign(self) -> int:
        """Of the exponent."""
        return 1 if self.inverse.value.data else -1

    @property
    def points(self) -> int:
        """Of each transform."""
        return type_of(self.real).shape[1].constant or 0

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.real)
        self.require_one_element(ELEMENTS, "f32 or f64")
        self.require(source.has_rank and source.rank == 4, "lines, points, counts, runs", source)
        lines, points, count, run = source.shape
        size = points.constant
        self.require(
            size is not None and 1 <= size <= MOST_POINTS, f"1 to {MOST_POINTS} points", points
        )
        if self.imag is not None:
            parts = type_of(self.imag)
            self.require(parts == source, f"an imaginary part {source}", parts)
        if self.factors is not None:
            given = type_of(self.factors)
            allowed = [(Expr.of(2),), (points,), (Expr.of(1), count), (Expr.of(1), run)]
            fits = given.has_rank and given.rank == len(allowed)
            fits = fits and all(a in b for a, b in zip(given.shape, allowed, strict=True))
            self.require(fits, f"factors [2, {points}, {count} or 1, {run} or 1]", given)
        return [tensor((lines, count, points, run), source.element)] * 2

    def reference(self, *operands: Array) -> Sequence[Array]:
        remaining = iter(operands)
        x = next(remaining).astype(np.complex128)
        if self.imag is not None:
            x = x + 1j * next(remaining)
        steps = np.arange(self.points)
        roots = np.exp(self.sign * 2j * np.pi * np.outer(steps, steps) / self.points)
        found = np.einsum("jk,lkpq->lpjq", roots, x)
        for parts in remaining:
            found = found * (parts[0] + 1j * parts[1]).swapaxes(0, 1)
        return [part.astype(operands[0].dtype) for part in (found.real, found.imag)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        lines, _, count, run = type_of(self.real).shape
        parts = operands[: 1 if self.imag is None else 2]
        with b.loops([lines, count, run], "lpq") as (line, p, q):
            loaded = [[b.load(part, (line, k, p, q)) for part in parts] for k in range(self.points)]
            points = [Complex(*each, *[None] * (2 - len(parts))) for each in loaded]
            for j, value in enumerate(transformed(points, self.sign)):
                if self.factors is not None:
                    value = value.times(*self._factor(b, operands[-1], j, p, q))
                imag = value.real.constant(0) if value.imag is None else value.imag
                b.store(results[0], (line, p, j, q), value.real)
                b.store(results[1], (line, p, j, q), imag)

    def _factor(
        self, b: LoopBuilder, factors: SSAValue, j: int, p: Expr, q: Expr
    ) -> tuple[Scalar, Scalar]:
        """Both parts of what a result is multiplied by."""
        count, run = buffer_type_of(factors).shape[2:]
        place = (Expr.of(0) if count == 1 else p, Expr.of(0) if run == 1 else q)
        return b.load(factors, (0, j, *place)), b.load(factors, (1, j, *place))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Those of the results times the conjugate factors, through the pass with the opposite
        sign; those of the factors are sums of products with the results without any.
        """
        given = [Term(b, each) for each in cotangents]
        rotated, slopes = given, list[SSAValue | None]()
        if self.factors is not None:
            factors = Term(b, self.factors).transpose([0, 2, 1, 3])
            f = [factors.part(0, at, 1).reshape(factors.shape[1:]) for at in (0, 1)]
            rotated = [given[0] * f[0] + given[1] * f[1], given[1] * f[0] - given[0] * f[1]]
            slopes = [self._factor_slopes(given, self.factors, b).value]
        swapped = [each.transpose([0, 2, 1, 3]).value for each in rotated]
        back = b.op("fourier_pass", *swapped, inverse=not self.inverse.value.data).results
        parts = [Term(b, each).transpose([0, 2, 1, 3]).value for each in back]
        return [parts[0], *(parts[1:] if self.imag is not None else ()), *slopes]

    def _factor_slopes(self, given: Sequence[Term], factors: SSAValue, b: GraphBuilder) -> Term:
        """The cotangents of the factors."""
        inverse = bool(self.inverse.value.data)
        results = b.op("fourier_pass", self.real, self.imag, inverse=inverse).results
        x, y = (Term(b, each) for each in results)
        both = [given[0] * x + given[1] * y, given[1] * x - given[0] * y]
        shape = type_of(factors).shape
        repeated = [at for at, dim in ((1, shape[2]), (3, shape[3])) if dim == 1]
        sums = [each.sum([0, *repeated], keepdims=True) for each in both]
        return joined([each.transpose([0, 2, 1, 3]) for each in sums], 0)

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        """As so many more lines, unless the factors differ."""
        if self.factors is not None and is_batched(operands[-1], self.factors):
            return None
        parts = 1 if self.imag is None else 2
        wide = [
            Term(b, spread(b, each, own, size))
            for each, own in zip(operands[:parts], self.operands[:parts], strict=True)
        ]
        lines, *dims = wide[0].shape[1:]
        flat = [each.reshape([size * lines, *dims]).value for each in wide]
        found = [Term(b, each) for each in again(self, [*flat, *operands[parts:]], b)]
        shape: Shape = type_of(self.result_real).shape
        return [each.reshape([size, *shape]).value for each in found]


OPS: tuple[type[GraphOp], ...] = (FourierPassOp,)
