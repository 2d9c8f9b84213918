"""Positions of elements in sorted order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.accumulate import fill, widen
from weft.dialects.graph.core.axis import LineOp
from weft.dialects.graph.core.elementwise import ANY_ELEMENT
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import I64, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, Index, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type, is_float
from weft.dialects.weights import Array

SELECTED = 64
"""Up to this many positions are kept in order while the elements are read once."""

LONGEST = 40
"""Lines have less than two to the power of this elements."""

Precedes = Callable[[Index, Index], Scalar]
"""Whether the element at an index comes before another that it is not equal to."""


@irdl_op_definition
class ArgsortOp(LineOp):
    """The positions (i64) along `axis` of its first `count` elements in sorted order.

    Equal elements keep their order, also where it is `descending`. A NaN counts as the greatest.
    """

    name = "graph.argsort"
    descending: BoolAttr = prop_def(BoolAttr)
    count: ShapeAttr = prop_def(ShapeAttr)

    @property
    def descends(self) -> bool:
        """Whether the greatest element comes first."""
        return bool(self.descending.value.data)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in ANY_ELEMENT, "elements that it can compare", source)
        self.require(len(exprs(self.count)) == 1, "one count", self.count)
        if not source.has_rank:
            return [tensor(None, I64)]
        (count,), dim = exprs(self.count), self.extent
        fits = not below_zero(count) and not below_zero(dim - count)
        self.require(fits, f"a count from 0 to {dim}", count)
        return [tensor(self.along(source.shape, count), I64)]

    def sharding_rule(self) -> ShardingRule | None:
        factors = whole_but(type_of(self.operand).rank, (self.position,))
        return ShardingRule((factors,), (factors,))

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """A count that only a call knows is at most the axis' size."""
        (count,), dim = exprs(self.count), self.extent
        low, _ = (dim - count).range({})
        return [] if low is not None and low >= 0 else [(minimum([dim, count]), count)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, axis = widen(operands[0]), self.position
        if self.descends:
            behind = np.argsort(np.flip(x, axis), axis, kind="stable")
            order = x.shape[axis] - 1 - np.flip(behind, axis)
        else:
            order = np.argsort(x, axis, kind="stable")
        (count,) = numbers(self, self.count)
        return [np.take(order, np.arange(count), axis).astype(np.int64)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """A few positions are selected in one pass, more are merged from ever longer runs."""
        count = exprs(self.count)[0].constant
        if count == 0:
            return
        if count is not None and count <= SELECTED:
            self._select(b, operands[0], results[0], count)
        else:
            self._merge(b, operands[0], results[0])

    def _precedes(self, x: Scalar, y: Scalar) -> Scalar:
        """Whether an element comes before another that it is not equal to."""
        before = x.compare("gt" if self.descends else "lt", y)
        if not is_float(x.element):
            return before
        first, second = (x, y) if self.descends else (y, x)
        return before | (first.is_nan() & ~second.is_nan())

    def _select(self, b: LoopBuilder, source: SSAValue, result: SSAValue, count: int) -> None:
        """Puts each element into its place among the best so far, if it has one."""
        tensor_type = type_of(self.operand)
        shape = self.result_type.shape
        best = b.temporary(shape, compute_type(tensor_type.element), "best")
        fill(b, best, shape, 0, compute_type(tensor_type.element))
        last = Expr.of(count - 1)
        with b.loops(self.lines) as line, b.loops([self.extent], "k") as (k,):
            x, step = b.load(source, self.along(line, k)), b.index(k, I64)
            enters = self._precedes(x, b.load(best, self.along(line, last)))
            with b.when(enters | (step < count)):
                rank = b.constant(0, I64)
                for j in range(count):
                    other = b.load(best, self.along(line, Expr.of(j)))
                    stays = ~self._precedes(x, other) & step.compare("gt", j)
                    rank = rank + stays.cast(I64)
                with b.loops([b.subscript(-rank + (count - 1))], "s") as (moved,):
                    source_index = self.along(line, last - 1 - moved)
                    target_index = self.along(line, last - moved)
                    b.store(best, target_index, b.load(best, source_index))
                    b.store(result, target_index, b.load(result, source_index))
                index = self.along(line, b.subscript(rank))
                b.store(best, index, x)
                b.store(result, index, step)

    def _merge(self, b: LoopBuilder, source: SSAValue, result: SSAValue) -> None:
        """Sorts all positions, of which the first are the result."""
        shape = type_of(self.operand).shape
        order = b.temporary(shape, I64, "order")

        def precedes(one: Index, other: Index) -> Scalar:
            return self._precedes(b.load(source, one), b.load(source, other))

        merge_runs(b, order, shape, self.position, precedes)
        with b.loops(self.result_type.shape) as index:
            b.store(result, index, b.load(order, index))


def merge_runs(
    b: LoopBuilder, order: SSAValue, shape: Shape, axis: int, precedes: Precedes
) -> None:
    """Fills `order` with the positions along an axis in sorted order: each round makes every two
    sorted runs one, which is twice as long. `precedes` compares the elements at two indices.
    """
    merged = b.temporary(shape, I64, "merged")
    with b.loops(shape) as index:
        b.store(order, index, b.index(index[axis], I64))
    size = b.index(shape[axis], I64)
    iterations = b.constant(0, I64)
    for power in range(LONGEST):
        iterations = iterations + (size.constant(1 << power) < size).cast(I64)
    lines = [Expr.of(1) if each == axis else dim for each, dim in enumerate(shape)]
    with b.loops(lines) as line, b.loops([b.subscript(iterations)], "r") as (turn,):
        heads = b.scratch([2], I64, "heads")
        with b.loops([shape[axis]], "k") as (k,):
            element = _next(b, (order, heads), (line, axis, size), (turn, k), precedes)
            b.store(merged, _along(line, axis, k), element)
        with b.loops([shape[axis]], "k") as (k,):
            b.store(order, _along(line, axis, k), b.load(merged, _along(line, axis, k)))


def _next(
    b: LoopBuilder,
    buffers: tuple[SSAValue, SSAValue],
    where: tuple[Sequence[Expr], int, Scalar],
    step: tuple[Expr, Expr],
    precedes: Precedes,
) -> Scalar:
    """The position that comes at place `k` when two runs of `2^turn` each become one.

    `heads` holds how far both have been taken; a pair of runs starts from their first elements.
    """
    (order, heads), (line, axis, size) = buffers, where
    turn, k = (b.index(expr, I64) for expr in step)
    width = turn.constant(1).shift_left(turn)
    start = k.shift_right(turn + 1).shift_left(turn + 1)
    middle, end = (start + width).minimum(size), (start + width + width).minimum(size)
    is_first = k.compare("eq", start)
    left = is_first.select(start, b.load(heads, [0]))
    right = is_first.select(middle, b.load(heads, [1]))
    candidates = [
        b.load(order, _along(line, axis, b.subscript(head.minimum(size - 1))))
        for head in (left, right)
    ]
    x, y = (_along(line, axis, b.subscript(at)) for at in candidates)
    takes_right = (right < end) & ((left >= middle) | precedes(y, x))
    b.store(heads, [0], takes_right.select(left, left + 1))
    b.store(heads, [1], takes_right.select(right + 1, right))
    return takes_right.select(candidates[1], candidates[0])


def _along(line: Sequence[Expr], axis: int, k: Expr) -> list[Expr]:
    return [k if each == axis else index for each, index in enumerate(line)]


OPS: tuple[type[ArgsortOp], ...] = (ArgsortOp,)
