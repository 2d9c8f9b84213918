"""Determinants of square matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.batching import again
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import F32, F64, FLOATS, I64, TensorType, tensor, type_of
from weft.dialects.graph.linalg.triangular import transposed
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array


@irdl_op_definition
class DetOp(GraphOp):
    """The determinant of each matrix of the last two dims; of f16 and bf16 in f32.

    By elimination with partial pivoting: the product of the pivots, negated for each exchange of
    rows.
    """

    name = "graph.det"
    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Det")

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in FLOATS, "floating-point elements", source)
        if not source.has_rank:
            return [tensor(None, source.element)]
        self.require(source.rank >= 2, "matrices", source)
        rows, columns = source.shape[-2:]
        self.require(
            rows == columns or None in (rows.constant, columns.constant), "squares", source
        )
        return [tensor(source.shape[:-2], source.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        rows, columns = type_of(self.operand).shape[-2:]
        return [] if rows == columns else [(rows, columns)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.linalg.det(widen(operands[0])).astype(operands[0].dtype)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dx = det * x^-T`, which is infinite or NaN where a matrix is singular."""
        source = type_of(self.operand)
        wide = F64 if source.element == F64 else F32
        given, x, det = (
            Term(b, each).cast(wide) for each in (cotangents[0], self.operand, self.result)
        )
        size = source.shape[-1]
        across = counted(b, size)
        one = across.equals(across.reshape([size, 1])).where(
            (given * det).reshape([*source.shape[:-2], 1, 1]), 0.0
        )
        return [Term(b, b.solve(transposed(x).value, one.value)).cast(source.element).value]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        *batch, rows, columns = type_of(self.operand).shape
        wide = compute_type(self.result_type.element)
        matrix = b.temporary([*batch, rows, columns], wide, "matrix")
        product = b.temporary(batch, wide, "product")
        with b.loops(batch) as index:
            with b.loops([rows, columns]) as (i, j):
                b.store(matrix, [*index, i, j], b.load(operands[0], [*index, i, j]))
            b.store(product, index, b.constant(1, wide))
            _eliminate(b, matrix, product, index, rows)
            b.store(results[0], index, b.load(product, index).cast(self.result_type.element))


def _eliminate(
    b: LoopBuilder, matrix: SSAValue, product: SSAValue, index: Sequence[Expr], rows: Expr
) -> None:
    """Multiplies the pivots of one matrix into its product."""
    with b.loops([rows], "k") as (k,):
        chosen = greatest_row(b, matrix, index, k, rows)
        exchange_rows(b, matrix, index, (k, b.subscript(chosen)), (k, rows - k))
        pivot, before = b.load(matrix, [*index, k, k]), b.load(product, index)
        same = chosen.compare("eq", b.index(k, I64))
        b.store(product, index, same.select(before, -before) * pivot)
        below = rows - k - 1
        with b.loops([below, below]) as (r, c):
            i, j = k + 1 + r, k + 1 + c
            share = b.load(matrix, [*index, i, k]) / pivot
            share = pivot.compare("eq", 0).select(pivot.constant(0), share)
            lost = share * b.load(matrix, [*index, k, j])
            b.store(matrix, [*index, i, j], b.load(matrix, [*index, i, j]) - lost)


def greatest_row(
    b: LoopBuilder, matrix: SSAValue, index: Sequence[Expr], k: Expr, rows: Expr
) -> Scalar:
    """The number of the row, from k on, whose element of column k has the greatest magnitude."""
    wide = buffer_type_of(matrix).element
    greatest, position = b.scratch([1], wide, "greatest"), b.scratch([1], I64, "place")
    b.store(greatest, [0], b.constant(-1, wide))
    b.store(position, [0], b.index(k, I64))
    with b.loops([rows - k]) as (r,):
        size = b.load(matrix, [*index, k + r, k]).math("absf")
        before = b.load(greatest, [0])
        found = size > before
        b.store(greatest, [0], found.select(size, before))
        b.store(position, [0], found.select(b.index(k + r, I64), b.load(position, [0])))
    return b.load(position, [0])


def exchange_rows(
    b: LoopBuilder,
    matrix: SSAValue,
    index: Sequence[Expr],
    rows: tuple[Expr, Expr],
    columns: tuple[Expr, Expr],
) -> None:
    """Exchanges two rows in so many columns from one on."""
    first, count = columns
    with b.loops([count]) as (c,):
        upper, lower = ([*index, row, first + c] for row in rows)
        old, new = b.load(matrix, upper), b.load(matrix, lower)
        b.store(matrix, lower, old)
        b.store(matrix, upper, new)


OPS = (DetOp,)
