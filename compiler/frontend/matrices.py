"""Factors of matrices, and systems that they solve, of all matrices of a stack at once: by halves,
or as loops of the graph over columns or rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Expr, ExprLike, minimum
from weft.dialects.graph import ForOp, YieldOp
from weft.dialects.graph.core.algebra import Term, counted, joined, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64
from weft.dialects.graph.linalg.triangular import transposed

Step = Callable[[Sequence[Term], Term], Sequence[Term]]
"""What an iteration makes of the state and its number."""

BLOCK = 64
"""Rows and columns of matrices that are factored, or triangles that are solved with, at once, but
an eighth of great ones: programs do not grow with sizes.
"""

Loop = Callable[[ExprLike, Sequence[Term], Step], list[Term]]
"""The state after so many iterations."""


def repeated(
    b: GraphBuilder, index: str, count: ExprLike, state: Sequence[Term], step: Step
) -> list[Term]:
    """The state after so many iterations, whose number has a name that no size has."""
    if Expr.of(count) == 0:
        return list(state)
    block = Block(arg_types=[each.type for each in state])
    inner = GraphBuilder(InsertPoint.at_end(block), b.ops, b.location)
    number = Term(inner, inner.dims(values=shape_attr([Expr.of(index)]), scalar=UnitAttr()))
    found = step([Term(inner, argument) for argument in block.args], number)
    values = [each.expand(like.shape) for each, like in zip(found, state, strict=True)]
    block.add_op(YieldOp.create(operands=[each.value for each in values]))
    carried = [each.value for each in state]
    op = b.builder.insert(ForOp.of(Expr.of(count), index, carried, block, location=b.location))
    return [Term(b, result) for result in op.results]


def column(x: Term) -> Term:
    """Vectors as matrices of one column."""
    return x.insert(len(x.shape))


def row(x: Term) -> Term:
    """Vectors as matrices of one row."""
    return x.insert(len(x.shape) - 1)


def cholesky(a: Term, block: int | None = None) -> Term:
    """The lower triangular `l` with `a = l * lT`, by the lower half of `a`; NaN where a matrix is
    not positive definite. Great matrices are factored by halves, so that most of it is products.
    """
    size = a.shape[-1].constant
    block = block or _block_size(size)
    if size is None or size <= block:
        return a.of(a.b.cholesky(a.value))
    half, rest = _halves(size, block)
    first = cholesky(_part(a, 0, half, 0, half), block)
    right = transposed(_part(a, half, rest, 0, half))
    across = transposed(solve_triangular(first, right, lower=True, unit=False, block=block))
    rest_of_a = _part(a, half, rest, half, rest) - across.matmul(transposed(across))
    second = cholesky(rest_of_a, block)
    above = a.number(0).expand([*a.shape[:-2], half, rest])
    rank = len(a.shape)
    rows = [joined(each, rank - 1) for each in ([first, above], [across, second])]
    return joined(rows, rank - 2)


def solve_triangular(
    a: Term, b: Term, *, lower: bool, unit: bool, block: int | None = None
) -> Term:
    """`x` with `a * x = b`, whose dims in front are those of `b`; by halves."""
    a = a.expand([*b.shape[:-2], *a.shape[-2:]])
    size = a.shape[-1].constant
    block = block or _block_size(size)
    if size is None or size <= block:
        return b.of(b.b.triangular_solve(a.value, b.value, lower=lower, unit=unit))
    half, rest = _halves(size, block)
    spans = [(0, half), (half, rest)]
    known, open_ = spans if lower else reversed(spans)
    parts = [b.part(len(b.shape) - 2, *each) for each in (known, open_)]

    def solved(span: tuple[int, int], right: Term) -> Term:
        return solve_triangular(_part(a, *span, *span), right, lower=lower, unit=unit, block=block)

    first = solved(known, parts[0])
    second = solved(open_, parts[1] - _part(a, *open_, *known).matmul(first))
    return joined([first, second] if lower else [second, first], len(b.shape) - 2)


def _block_size(size: int | None) -> int:
    return max(BLOCK, -(-(size or 0) // 8))


def _halves(size: int, block: int) -> tuple[int, int]:
    """Two parts of a size, the first of whole blocks."""
    half = block * max(1, size // (2 * block))
    return half, size - half


def _part(x: Term, row: int, rows: int, column: int, columns: int) -> Term:
    """Some rows and columns of matrices."""
    rank = len(x.shape)
    return x.part(rank - 2, row, rows).part(rank - 1, column, columns)


def exchanged(x: Term, order: Term) -> Term:
    """The rows of matrices, or the elements of vectors, in other orders."""
    if 0 in x.shape:
        return x
    whole = order if len(order.shape) == len(x.shape) else column(order).expand(x.shape)
    axis = len(order.shape) - 1
    return x.of(x.b.gather_elements(x.value, whole.value, axis=axis))


def swapped(positions: Term, first: Term, second: Term) -> Term:
    """The order of elements in which two are exchanged."""
    there = positions.equals(second).where(first, positions)
    return positions.equals(first).where(second, there)


def lu(loop: Loop, a: Term, *, pivot: bool = True) -> tuple[Term, Term, Term]:
    """`l` below the diagonal and `u` in one matrix, the row that each step exchanged its own with,
    and the order of rows that these exchanges make.
    """
    *lead, rows, columns = a.shape
    rank = len(a.shape)
    steps = minimum([rows, columns])
    places = counted(a.b, rows).expand([*lead, rows])
    chosen = counted(a.b, steps).expand([*lead, steps])

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        work, pivots, order = state
        down, across = counted(index.b, rows), counted(index.b, columns)
        if pivot:
            size = (down >= index).where(work.take(index, rank - 1).math("abs"), -1.0)
            best = size.of(
                size.b.arg_max(size.value, axis=rank - 2, keepdims=True, select_last_index=False)
            )
            swap = swapped(down, index, best).expand([*lead, rows])
            work, order = exchanged(work, swap), exchanged(order, swap)
            pivots = counted(index.b, steps).equals(index).where(best, pivots)
        line = work.take(index, rank - 1)
        head = column(line.take(index, rank - 2))
        factors = ((down > index) & head.equals(0).math("logical_not")).where(line / head, 0.0)
        rest = (across > index).where(work.take(index, rank - 2), 0.0)
        work = work - column(factors) * row(rest)
        own = across.equals(index).reshape([1, columns]) & (down > index).reshape([rows, 1])
        return [own.where(column(factors), work), pivots, order]

    work, pivots, order = loop(steps, [a, chosen, places], step)
    return work, pivots, order


def order_of(loop: Loop, pivots: Term, rows: Expr) -> Term:
    """The order of rows that exchanges make, one after the other."""
    *lead, steps = pivots.shape
    start = counted(pivots.b, rows).expand([*lead, rows])

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        (order,) = state
        other = column(Term(index.b, pivots.value).take(index, len(pivots.shape) - 1))
        swap = swapped(counted(index.b, rows), index, other).expand([*lead, rows])
        return [exchanged(order, swap)]

    return loop(steps, [start], step)[0]


def householder(loop: Loop, a: Term) -> tuple[Term, Term]:
    """`r`, with the vectors of reflections below the diagonal, and their factors, as LAPACK has
    them: the first element of a vector, 1, is not stored.
    """
    *lead, rows, columns = a.shape
    rank, steps = len(a.shape), minimum([rows, columns])

    def step(state: Sequence[Term], index: Term) -> list[Term]:
        work, factors = state
        down, across = counted(index.b, rows), counted(index.b, columns)
        line = work.take(index, rank - 1)
        head = line.take(index, rank - 2)
        below = (down > index).where(line, 0.0)
        length = below.of(index.b.reduce_l2(below.value, axes=[rank - 2], keepdims=False))
        flat = length.equals(0)
        norm = (head * head + length * length).math("sqrt")
        beta = flat.where(head, (head < 0).where(norm, -norm))
        factor = flat.where(0.0, (beta - head) / flat.where(1.0, beta))
        vector = below / column(flat.where(1.0, head - beta))
        whole = down.equals(index).where(1.0, vector)
        later = (across > index).where(row(whole).matmul(work).reshape([*lead, columns]), 0.0)
        work = work - column(whole) * row(later * column(factor))
        kept = down.equals(index).where(column(beta), vector)
        own = across.equals(index).reshape([1, columns]) & (down >= index).reshape([rows, 1])
        factors = counted(index.b, steps).equals(index).where(column(factor), factors)
        return [own.where(column(kept), work), factors]

    work, factors = loop(steps, [a, a.number(0).expand([*lead, steps])], step)
    return work, factors


def reflected(loop: Loop, packed: Term, factors: Term, x: Term, *, backward: bool) -> Term:
    """The reflections of `householder` on matrices, from the first on or from the last."""
    rows, steps = packed.shape[-2], factors.shape[-1]
    rank = len(packed.shape)

    def step(state: Sequence[Term], number: Term) -> list[Term]:
        (work,) = state
        b = number.b
        index = size_term(b, steps - 1, I64) - number if backward else number
        down = counted(b, rows)
        line = Term(b, packed.value).take(index, rank - 1)
        vector = down.equals(index).where(1.0, (down > index).where(line, 0.0))
        factor = Term(b, factors.value).take(index, rank - 2)
        return [work - column(vector) * (row(vector).matmul(work) * column(column(factor)))]

    return loop(steps, [x], step)[0]
