"""graph -> graph: systems of equations whose matrix is a triangle are solved by substitution, and
great matrices are factored, and great triangles solved with, by halves, so that most of it is
products:

    solve(cholesky(a), b)   ->   triangular_solve(cholesky(a), b)
    triangular_solve([[l, 0], [m, n]], [b, c])   ->   x = triangular_solve(l, b),
                                                      triangular_solve(n, c - m @ x)
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, joined
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.linalg.systems import SolveOp
from weft.dialects.graph.linalg.triangular import CholeskyOp, TriangularSolveOp, transposed
from weft.dialects.graph.reindexing.movement import TransposeOp
from weft.dialects.graph.reindexing.rearrange import TriluOp

BLOCK: Final = 64
"""Rows and columns of triangles that are solved with at once, but an eighth of great ones: programs
do not grow with sizes.
"""

FACTORED: Final = 1024
"""Rows and columns of matrices that are factored at once, but an eighth of great ones: each block
of rows is taken from all that are left, which caches have.
"""


class SplitSystemsPass(ModulePass):
    """Solves by substitution with Cholesky factors, their transposes and what `trilu` kept, and
    splits triangles of known sizes above `BLOCK` and factors above `FACTORED`.
    """

    name = "weft-split-systems"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in reversed([*op.walk()]):  # a factor that was split is not known as one
            if isinstance(inner, SolveOp | CholeskyOp | TriangularSolveOp):
                _split(inner)


def _split(op: SolveOp | CholeskyOp | TriangularSolveOp) -> None:
    b = GraphBuilder(InsertPoint.before(op), OPS_BY_NAME, op.location)
    a, eighth = Term(b, op.operand), -(-(op.rows.constant or 0) // 8)
    block = max(BLOCK, eighth)
    if isinstance(op, CholeskyOp):
        found = _cholesky(a, max(FACTORED, eighth), block)
    elif isinstance(op, TriangularSolveOp):
        found = _Triangle(op.is_lower, op.is_unit, block).solved(a, Term(b, op.right))
    else:
        is_lower = _is_lower(op.operand)
        if is_lower is None:
            return
        found = _Triangle(is_lower, False, block).solved(a, Term(b, op.right))
    found.value.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(found.value)
    op.detach()
    op.erase()


def _is_lower(value: SSAValue) -> bool | None:
    """Which triangle of matrices has elements that are not 0; None where both may."""
    op = value.owner
    if isinstance(op, CholeskyOp):
        return True
    if isinstance(op, TriluOp) and op.k.value.data == 0:
        return not op.upper.value.data
    rank = type_of(value).rank
    if isinstance(op, TransposeOp) and op.axes == (*range(rank - 2), rank - 1, rank - 2):
        is_lower = _is_lower(op.operand)
        return None if is_lower is None else not is_lower
    return None


def _cholesky(a: Term, block: int, solved: int) -> Term:
    """The lower `l` with `a = l * lT`, by the lower half of `a`; `solved` is the block of triangles
    that are solved with.
    """
    size = a.shape[-1].constant
    if size is None or size <= block:
        return a.of(a.b.cholesky(a.value))
    (half, rest), rank = _halves(size, block), len(a.shape)
    first = _cholesky(_part(a, 0, half, 0, half), block, solved)
    right = transposed(_part(a, half, rest, 0, half))
    across = transposed(_Triangle(True, False, solved).solved(first, right))
    left = _part(a, half, rest, half, rest) - across.matmul(transposed(across))
    second = _cholesky(left, block, solved)
    above = a.number(0).expand([*a.shape[:-2], half, rest])
    rows = [joined(each, rank - 1) for each in ([first, above], [across, second])]
    return joined(rows, rank - 2)


class _Triangle(Struct, frozen=True):
    """What triangles are like that are solved with, and how great those that are not split."""

    is_lower: bool
    is_unit: bool
    block: int

    def solved(self, a: Term, right: Term) -> Term:
        """`x` with `a * x = right`."""
        size = a.shape[-1].constant
        if size is None or size <= self.block:
            attributes: dict[str, Any] = {"lower": self.is_lower, "unit": self.is_unit}
            return a.of(a.b.triangular_solve(a.value, right.value, **attributes))
        half, rest = _halves(size, self.block)
        spans = [(0, half), (half, rest)]
        known, open_ = spans if self.is_lower else reversed(spans)
        axis = len(right.shape) - 2
        first = self.solved(_part(a, *known, *known), right.part(axis, *known))
        behind = right.part(axis, *open_) - _part(a, *open_, *known).matmul(first)
        second = self.solved(_part(a, *open_, *open_), behind)
        return joined([first, second] if self.is_lower else [second, first], axis)


def _halves(size: int, block: int) -> tuple[int, int]:
    """Two parts of a size, the first of whole blocks."""
    half = block * max(1, size // (2 * block))
    return half, size - half


def _part(x: Term, row: int, rows: int, column: int, columns: int) -> Term:
    """Some rows and columns of matrices."""
    rank = len(x.shape)
    return x.part(rank - 2, row, rows).part(rank - 1, column, columns)
