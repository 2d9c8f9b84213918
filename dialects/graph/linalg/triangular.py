"""Triangular factors of matrices, and the systems that they solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.batching import again, all_spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import F32, F64, TensorType, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array

ELEMENTS = (F32, F64)

AT_ONCE = 8
"""The most rows of a factor that are found together: each pass over those behind them takes so many
products from each element.
"""


def transposed(x: Term) -> Term:
    """Matrices with rows and columns exchanged."""
    rank = len(x.shape)
    return x.transpose([*range(rank - 2), rank - 1, rank - 2])


def _of_triangle(x: Term, *, lower: bool = True, diagonal: float = 1.0) -> Term:
    """One triangle of matrices, zero elsewhere, the diagonal times a number."""
    size = x.shape[-1]
    across = counted(x.b, size)
    down = across.reshape([size, 1])
    inside = (down > across) if lower else (down < across)
    return inside.where(x, down.equals(across).where(x * diagonal, 0.0))


class SquareOp(GraphOp):
    """An operator whose first operand is matrices, squares of f32 or f64."""

    REUSES_OPERANDS: ClassVar = True

    @property
    def rows(self) -> Expr:
        """How many rows and columns the matrices have."""
        return type_of(self.operands[0]).shape[-1]

    def _square(self) -> TensorType:
        source = type_of(self.operands[0])
        self.require_one_element(ELEMENTS, "f32 or f64")
        self.require(source.has_rank and source.rank >= 2, "matrices", source)
        rows, columns = source.shape[-2:]
        known = None not in (rows.constant, columns.constant)
        self.require(rows == columns or not known, "squares", source)
        return source

    def _solution(self) -> TensorType:
        """The type of the second operand, columns for each row of the matrices."""
        source, right = self._square(), type_of(self.operands[1])
        fits = right.has_rank and right.shape[:-1] == source.shape[:-1]
        self.require(fits, f"columns of the rows of {source}", right)
        return right

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        rows, columns = type_of(self.operands[0]).shape[-2:]
        return [] if rows == columns else [(rows, columns)]


@irdl_op_definition
class CholeskyOp(SquareOp):
    """The lower `l` with `a = l * lT`, by the lower half of symmetric `a`; NaN from the column on
    in which a matrix is not positive definite.
    """

    name = "graph.cholesky"
    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return [self._square()]

    def reference(self, *operands: Array) -> Sequence[Array]:
        a = operands[0].astype(np.float64)
        factor = np.zeros_like(a)
        with np.errstate(invalid="ignore", divide="ignore"):
            for k in range(a.shape[-1]):
                done = factor[..., :k]
                line = a[..., k:, k] - (done[..., k:, :] @ done[..., k, :, None])[..., 0]
                factor[..., k:, k] = line / np.sqrt(line[..., :1])
        return [factor.astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Some rows of the transposed factor at once: those of a block are solved for by the
        triangle on the diagonal, and taken from all behind them in one pass. Sizes are rounded up
        to whole blocks by ones on the diagonal.
        """
        *batch, size, _ = self.result_type.shape
        width = _block_width(size)
        padded = (size + width - 1) // width * width
        upper = b.temporary([*batch, padded, padded], self.result_type.element, "upper")
        with b.loops(batch) as index:
            with b.loops([size, size]) as (i, j):
                b.store(upper, (*index, i, j), b.load(operands[0], (*index, j, i)))
            _pad_by_ones(b, upper, index, size)
            with b.loops([padded // width], "o") as (o,):
                _factor_block(b, upper, index, (o * width, width))
            with b.loops([size, size]) as (i, j):
                b.store(results[0], (*index, i, j), b.load(upper, (*index, j, i)))
            with b.loops([size - 1], "r") as (r,), b.loops([size - 1 - r], "c") as (c,):
                zero = b.constant(0, self.result_type.element)
                b.store(results[0], (*index, r, r + 1 + c), zero)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """After Murray: `p = l^-T * phi(lT * dl) * l^-1`, where `phi` halves the diagonal of the
        lower triangle; both halves of `p` arrive at the lower one.
        """
        factor, given = Term(b, self.result), Term(b, cotangents[0])
        half = _of_triangle(transposed(factor).matmul(given), diagonal=0.5)
        for _ in range(2):
            solved = b.triangular_solve(
                transposed(factor).value, half.value, lower=False, unit=False
            )
            half = transposed(Term(b, solved))
        return [_of_triangle(half + transposed(half), diagonal=0.5).value]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b)


def _block_width(size: Expr) -> int:
    """Rows of a block: blocks of a known size are even, and no larger than it."""
    rows = size.constant
    if rows is None or rows <= 0:
        return AT_ONCE
    if rows <= AT_ONCE:
        return rows
    even = -(-rows // -(-rows // AT_ONCE))
    return even + even % 2


def _pad_by_ones(b: LoopBuilder, upper: SSAValue, index: Sequence[Expr], size: Expr) -> None:
    """What is behind a size: ones on the diagonal, zeros right of it and above."""
    padded = buffer_type_of(upper).shape[-1]
    if padded == size:
        return
    zero = b.constant(0, buffer_type_of(upper).element)
    with b.loops([padded, padded - size], "rc") as (r, c):
        b.store(upper, (*index, r, size + c), zero)
    with b.loops([padded - size], "r") as (r,):
        at = size + r
        b.store(upper, (*index, at, at), zero.constant(1))


def _factor_block(
    b: LoopBuilder, upper: SSAValue, index: Sequence[Expr], block: tuple[Expr, int]
) -> None:
    """Some rows of the transposed factor, from the diagonal on, and what is left of those behind
    them.
    """
    first, width = block
    behind = first + width
    left = buffer_type_of(upper).shape[-1] - behind
    rows = [first + k for k in range(width)]
    triangle, inverses = list[list[Scalar]](), list[Scalar]()
    for k, row in enumerate(rows):
        line = [b.load(upper, (*index, row, each)) for each in rows[k:]]
        for done in range(k):
            shares = triangle[done][k - done :]
            line = [x - shares[0] * y for x, y in zip(line, shares, strict=True)]
        pivot = line[0].math("sqrt")
        inverses.append(pivot.constant(1) / pivot)
        triangle.append([pivot, *(each * inverses[k] for each in line[1:])])
        for at, value in zip(rows[k:], triangle[k], strict=True):
            b.store(upper, (*index, row, at), value)
    if left != 0:
        _solve_right(b, upper, (*index, first), (triangle, inverses))
        _take_block(b, upper, (*index, first), width)


def _solve_right(
    b: LoopBuilder,
    upper: SSAValue,
    start: Sequence[Expr],
    factors: tuple[Sequence[Sequence[Scalar]], Sequence[Scalar]],
) -> None:
    """The rows of a block right of its triangle, of which the inverse diagonal is known."""
    (triangle, inverses), (*index, first) = factors, start
    width = len(inverses)
    behind = first + width
    with b.loops([buffer_type_of(upper).shape[-1] - behind], "j") as (j,):
        solved = list[Scalar]()
        for k in range(width):
            at = (*index, first + k, behind + j)
            value = b.load(upper, at)
            for done in range(k):
                value = value - triangle[done][k - done] * solved[done]
            solved.append(value * inverses[k])
            b.store(upper, at, solved[k])


def _take_block(b: LoopBuilder, upper: SSAValue, start: Sequence[Expr], width: int) -> None:
    """Takes what a block is worth to the rows behind it from these, some at once."""
    (*index, first), together = start, next(each for each in (4, 2, 1) if width % each == 0)
    left = buffer_type_of(upper).shape[-1] - first - width
    with b.loops([left // together], "r") as (r,):
        diagonal = first + width + r * together
        with b.loops([left - r * together], "c") as (c,):
            above = [b.load(upper, (*index, first + k, diagonal + c)) for k in range(width)]
            for row in range(together):
                at = (*index, diagonal + row, diagonal + c)
                shares = [b.load(upper, (*index, first + k, diagonal + row)) for k in range(width)]
                lost = [share * each for share, each in zip(shares, above, strict=True)]
                b.store(upper, at, b.load(upper, at) - sum(lost[1:], lost[0]))


@irdl_op_definition
class TriangularSolveOp(SquareOp):
    """`x` `[..., n, m]` with `a * x = b`, where the triangle of `a` `[..., n, n]` that is `lower`,
    or the upper one, counts alone, and its diagonal is 1 if it is `unit`.
    """

    name = "graph.triangular_solve"
    operand: SSAValue = operand_def(TensorType)
    right: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    lower_half: BoolAttr = prop_def(BoolAttr, prop_name="lower")
    unit: BoolAttr = prop_def(BoolAttr)

    @property
    def is_lower(self) -> bool:
        """Whether the lower triangle counts."""
        return bool(self.lower_half.value.data)

    @property
    def is_unit(self) -> bool:
        """Whether the diagonal counts as 1."""
        return bool(self.unit.value.data)

    def infer(self) -> Sequence[TensorType]:
        return [self._solution()]

    def reference(self, *operands: Array) -> Sequence[Array]:
        a, right = (each.astype(np.float64) for each in operands)
        a = np.tril(a) if self.is_lower else np.triu(a)
        size, found = a.shape[-1], np.zeros_like(right)
        for k in range(size) if self.is_lower else reversed(range(size)):
            line = right[..., k, :] - (a[..., k, None, :] @ found)[..., 0, :]
            found[..., k, :] = line if self.is_unit else line / a[..., k, k, None]
        return [found.astype(operands[1].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Row by row, from those that are known."""
        *batch, size, columns = self.result_type.shape
        a, x = operands[0], results[0]
        with b.loops(batch) as index:
            with b.loops([size, columns]) as (i, j):
                b.store(x, (*index, i, j), b.load(operands[1], (*index, i, j)))
            with b.loops([size], "k") as (step,):
                k = step if self.is_lower else size - 1 - step
                first = Expr.of(0) if self.is_lower else k + 1
                with b.reduce([step], "add", "r") as (r,), b.loops([columns], "j") as (j,):
                    share = b.load(a, (*index, k, first + r)) * b.load(x, (*index, first + r, j))
                    b.store(x, (*index, k, j), b.load(x, (*index, k, j)) - share)
                if not self.is_unit:
                    with b.loops([columns], "j") as (j,):
                        value = b.load(x, (*index, k, j)) / b.load(a, (*index, k, k))
                        b.store(x, (*index, k, j), value)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`db = a^-T * dx`, and the triangle of `-db * xT`."""
        a, x = Term(b, self.operand), Term(b, self.result)
        attributes: dict[str, Any] = {"lower": not self.is_lower, "unit": self.is_unit}
        right = Term(b, b.triangular_solve(transposed(a).value, cotangents[0], **attributes))
        diagonal = 0.0 if self.is_unit else 1.0
        slopes = _of_triangle(-right.matmul(transposed(x)), lower=self.is_lower, diagonal=diagonal)
        return [slopes.value, right.value]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, all_spread(self, operands, size, b), b)


OPS: tuple[type[GraphOp], ...] = (CholeskyOp, TriangularSolveOp)
