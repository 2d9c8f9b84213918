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
from weft.dialects.graph.core.types import F32, F64, I64, TensorType, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array

ELEMENTS = (F32, F64)


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
        """Column by column: what each is worth to those behind it is taken from them."""
        *batch, size, _ = self.result_type.shape
        element, factor = self.result_type.element, results[0]
        column = b.temporary([*batch, size], element, "column")
        with b.loops(batch) as index:
            with b.loops([size, size]) as (i, j):
                inside = b.index(j, I64).compare("le", b.index(i, I64))
                value = b.load(operands[0], (*index, i, j))
                b.store(factor, (*index, i, j), inside.select(value, value.constant(0)))
            with b.loops([size], "k") as (k,):
                pivot = b.load(factor, (*index, k, k)).math("sqrt")
                b.store(factor, (*index, k, k), pivot)
                with b.loops([size - k - 1], "r") as (r,):
                    i = k + 1 + r
                    value = b.load(factor, (*index, i, k)) / pivot
                    b.store(factor, (*index, i, k), value)
                    b.store(column, (*index, i), value)
                with b.loops([size - k - 1], "r") as (r,), b.loops([r + 1], "c") as (c,):
                    i, j = k + 1 + r, k + 1 + c
                    lost = b.load(column, (*index, i)) * b.load(column, (*index, j))
                    b.store(factor, (*index, i, j), b.load(factor, (*index, i, j)) - lost)

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
