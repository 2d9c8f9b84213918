"""Factors of matrices, of all matrices of a stack at once, as loops of the graph over columns or
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Expr, ExprLike, minimum
from weft.dialects.graph import ForOp, YieldOp
from weft.dialects.graph.core.algebra import Term, counted, shape_attr, size_term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import I64

Step = Callable[[Sequence[Term], Term], Sequence[Term]]
"""What an iteration makes of the state and its number."""

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
