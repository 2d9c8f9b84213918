"""Systems of linear equations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.batching import again, all_spread
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import TensorType
from weft.dialects.graph.linalg.triangular import SquareOp, transposed
from weft.dialects.graph.ops.determinant import exchange_rows, greatest_row
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array

BLOCK = 32
"""Columns that are cleared before what is behind them changes."""

TILE = 64
"""Columns behind them that change before others do, while the rows above stay in the nearest cache.
"""

AT_ONCE = 8
"""Rows whose shares are taken in one pass over a tile of a row."""

Index = Sequence[Expr]


@irdl_op_definition
class SolveOp(SquareOp):
    """`x` `[..., n, m]` with `a * x = b`, by elimination with partial pivoting; infinite or NaN
    where a matrix is singular.
    """

    name = "graph.solve"
    operand: SSAValue = operand_def(TensorType)
    right: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return [self._solution()]

    def reference(self, *operands: Array) -> Sequence[Array]:
        a, right = (each.astype(np.float64) for each in operands)
        return [np.linalg.solve(a, right).astype(operands[1].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        *batch, size, columns = self.result_type.shape
        element = self.result_type.element
        whole = b.temporary([*batch, size, size + columns], element, "whole")
        shares = b.temporary([*batch, size, minimum([BLOCK, size])], element, "shares")
        with b.loops(batch) as index:
            for source, first, width in ((operands[0], 0, size), (operands[1], size, columns)):
                with b.loops([size, width]) as (i, j):
                    b.store(whole, (*index, i, first + j), b.load(source, (*index, i, j)))
            with b.loops([(size + BLOCK - 1) // BLOCK], "o") as (o,):
                _eliminate_block(b, whole, shares, index, o * BLOCK)
            _substitute_back(b, whole, results[0], index)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`db = a^-T * dx`, and `-db * xT`."""
        right = Term(b, b.solve(transposed(Term(b, self.operand)).value, cotangents[0]))
        return [(-right.matmul(transposed(Term(b, self.result)))).value, right.value]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, all_spread(self, operands, size, b), b)


def _eliminate_block(
    b: LoopBuilder, whole: SSAValue, shares: SSAValue, index: Index, first: Expr
) -> None:
    """Clears some columns below the diagonal. What that takes from the columns behind them is taken
    from each row at once.
    """
    size, total = buffer_type_of(whole).shape[-2:]
    width = minimum([BLOCK, size - first])
    with b.loops([width], "k") as (step,):
        _clear_column(b, whole, index, (first, first + step, first + width))
    with b.loops([size - first, width]) as (i, k):
        b.store(shares, (*index, first + i, k), b.load(whole, (*index, first + i, first + k)))
    behind = first + width

    def take(i: Expr, j: Expr, rows: Sequence[Expr]) -> None:
        value = b.load(whole, (*index, i, j))
        for k in rows:
            share = b.load(shares, (*index, i, k))
            value = value - share * b.load(whole, (*index, first + k, j))
        b.store(whole, (*index, i, j), value)

    with b.loops([width], "k") as (k,), b.loops([width - k - 1, total - behind]) as (r, c):
        take(first + k + 1 + r, behind + c, [k])
    if size.constant is not None and size.constant <= BLOCK:
        return  # nothing is below one block
    tiles = (total - behind + TILE - 1) // TILE
    with b.loops([tiles], "t") as (t,):
        length = minimum([TILE, total - behind - t * TILE])
        with b.loops([size - behind, BLOCK // AT_ONCE, length]) as (r, q, c):  # of whole blocks
            rows = [AT_ONCE * q + number for number in range(AT_ONCE)]
            take(behind + r, behind + t * TILE + c, rows)


def _clear_column(
    b: LoopBuilder, whole: SSAValue, index: Index, columns: tuple[Expr, Expr, Expr]
) -> None:
    """Exchanges rows from the first of some columns on, and takes the row of one column, which lies
    among them, from those below it, up to the last of them.
    """
    first, k, last = columns
    size, total = buffer_type_of(whole).shape[-2:]
    row = b.subscript(greatest_row(b, whole, index, k, size))
    exchange_rows(b, whole, index, (k, row), (first, total - first))
    pivot = b.load(whole, (*index, k, k))
    with b.loops([size - k - 1], "r") as (r,):
        at = (*index, k + 1 + r, k)
        b.store(whole, at, b.load(whole, at) / pivot)
    with b.loops([size - k - 1, last - k - 1]) as (r, c):
        i, j = k + 1 + r, k + 1 + c
        lost = b.load(whole, (*index, i, k)) * b.load(whole, (*index, k, j))
        b.store(whole, (*index, i, j), b.load(whole, (*index, i, j)) - lost)


def _substitute_back(b: LoopBuilder, whole: SSAValue, x: SSAValue, index: Index) -> None:
    """Row by row from the last one on, by the upper triangle."""
    size, columns = buffer_type_of(x).shape[-2:]
    with b.loops([size, columns]) as (i, j):
        b.store(x, (*index, i, j), b.load(whole, (*index, i, size + j)))
    with b.loops([size], "k") as (step,):
        k = size - 1 - step
        with b.reduce([step], "add", "r") as (r,), b.loops([columns], "j") as (j,):
            share = b.load(whole, (*index, k, k + 1 + r)) * b.load(x, (*index, k + 1 + r, j))
            b.store(x, (*index, k, j), b.load(x, (*index, k, j)) - share)
        with b.loops([columns], "j") as (j,):
            value = b.load(x, (*index, k, j)) / b.load(whole, (*index, k, k))
            b.store(x, (*index, k, j), value)


OPS: tuple[type[GraphOp], ...] = (SolveOp,)
