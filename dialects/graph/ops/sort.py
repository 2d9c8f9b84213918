"""Positions of elements in sorted order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from weft.dialects.expr import Expr, minimum
from weft.dialects.graph.core.accumulate import fill, highest, lowest, widen
from weft.dialects.graph.core.axis import LineOp
from weft.dialects.graph.core.elementwise import ANY_ELEMENT
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import (
    I8,
    I16,
    I32,
    I64,
    NUMBERS,
    UI8,
    UI16,
    UI32,
    UI64,
    Shape,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, Index, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type, is_float, is_unsigned, width
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import Array

SELECTED = 64
"""Up to this many positions are kept in order while the elements are read once."""

SIGNED = {8: I8, 16: I16, 32: I32, 64: I64}
UNSIGNED = {1: UI8, 8: UI8, 16: UI16, 32: UI32, 64: UI64}
"""Types of numbers by their bits; a bool has one."""

LONGEST = 40
"""Lines have less than two to the power of this elements."""

SHORT = 32
"""Lines of less elements are merged: clearing and adding up the counts of digits takes longer."""

WHOLE = 15
"""A whole line is not selected where the square of its length is at least so many times an
element's bits: selecting takes as long as the square says, distributing as the digits do.
"""

BLOCK = 64
"""Elements that are compared at once with the last of those selected."""

LONG = 1 << 13
"""From so many elements on digits have 11 bits in place of 8, and blocks are selected from."""

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
        """A few positions are selected in one pass; more, and most whole lines, are distributed by
        the digits of what they have, or merged from ever longer runs where lines are short.
        """
        count, size = exprs(self.count)[0].constant, self.extent.constant or SHORT
        bits = width(compute_type(type_of(self.operand).element))
        whole = count == size and size * size >= WHOLE * bits
        if count == 0:
            return
        if count is not None and count <= SELECTED and not whole:
            self._select(b, operands[0], results[0], count)
        elif size < SHORT and not whole:
            self._merge(b, operands[0], results[0])
        else:
            self._distribute(b, operands[0], results[0])

    def _precedes(self, x: Scalar, y: Scalar) -> Scalar:
        """Whether an element comes before another that it is not equal to."""
        before = x.compare("gt" if self.descends else "lt", y)
        if not is_float(x.element):
            return before
        first, second = (x, y) if self.descends else (y, x)
        return before | (first.is_nan() & ~second.is_nan())

    def _select(self, b: LoopBuilder, source: SSAValue, result: SSAValue, count: int) -> None:
        """Puts each element into its place among the best so far, if it has one. Of long lines
        those blocks are passed over whose extremum has none.
        """
        element = compute_type(type_of(self.operand).element)
        best = b.temporary(self.result_type.shape, element, "best")
        fill(b, best, self.result_type.shape, 0, element)
        buffers, size = (source, best, result), self.extent.constant or 0
        if size < LONG or element not in NUMBERS:
            with b.loops(self.lines) as line, b.loops([self.extent], "k") as (k,):
                self._insert(b, buffers, line, k)
            return
        foremost = self._foremost(b, source, size // BLOCK)
        with b.loops(self.lines) as line, b.loops([-(-size // BLOCK)], "c") as (block,):
            x, step = b.load(foremost, (*line, block)), b.index(block, I64)
            enters = self._precedes(x, b.load(best, self.along(line, Expr.of(count - 1))))
            unread = (step * BLOCK < count) | (step >= size // BLOCK)
            here = minimum([Expr.of(BLOCK), size - block * BLOCK])
            with b.when(enters | unread), b.loops([here], "k") as (k,):
                self._insert(b, buffers, line, block * BLOCK + k)

    def _foremost(self, b: LoopBuilder, source: SSAValue, blocks: int) -> SSAValue:
        """Of each whole block the element that comes first, or one that comes before that."""
        element = compute_type(type_of(self.operand).element)
        shape = (*self.lines, Expr.of(blocks + 1))
        foremost = b.temporary(shape, element, "foremost")
        fill(b, foremost, shape, lowest(element) if self.descends else highest(element), element)
        nest = b.reduce([BLOCK], "max" if self.descends else "min", "k")
        with b.loops((*self.lines, blocks)) as (*line, block), nest as (k,):
            x = b.load(source, self.along(line, block * BLOCK + k))
            found = b.load(foremost, (*line, block))
            if self.descends:
                found = found.maximum(x, any_zero=True)
            elif is_float(element):  # a NaN comes last
                found = found.minimum(x.is_nan().select(x.constant(highest(element)), x))
            else:
                found = found.minimum(x)
            b.store(foremost, (*line, block), found)
        return foremost

    def _insert(
        self, b: LoopBuilder, buffers: tuple[SSAValue, ...], line: Sequence[Expr], k: Expr
    ) -> None:
        """Puts element `k` of a line into its place among the best, if it has one."""
        source, best, result = buffers
        (count,) = numbers(self, self.count)
        last = Expr.of(count - 1)
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

    def _key(self, x: Scalar) -> Scalar:
        """An unsigned number whose order is that of the elements."""
        if not is_float(x.element):
            bits = x.bitcast(UNSIGNED[width(x.element)])
            key = bits if is_unsigned(x.element) else bits ^ (1 << width(x.element) - 1)
            return ~key if self.descends else key
        signed, last = SIGNED[width(x.element)], width(x.element) - 1
        bits = x.compare("eq", 0).select(x.constant(0), x).bitcast(signed)
        key = (bits ^ (bits.shift_right(last) | (-1 << last))).bitcast(UNSIGNED[last + 1])
        key = x.is_nan().select(key.constant(-1), key)
        return ~key if self.descends else key

    def _distribute(self, b: LoopBuilder, source: SSAValue, result: SSAValue) -> None:
        """Sorts all positions by one digit of the keys after the other, from the lowest on, each
        time in the order of before (radix sort).
        """
        size, place = self.extent, I64 if self.extent.constant is None else I32
        bits = width(compute_type(type_of(self.operand).element))
        digit = 11 if (size.constant or 0) >= LONG else 8
        lows = range(0, bits, digit)
        shape = (*self.lines, size)
        keys = [b.temporary(shape, UNSIGNED[bits], "keys") for _ in range(2)]
        places = [b.temporary(shape, place, "places") for _ in range(2)]
        with b.loops(self.lines) as line:
            counts = b.scratch([len(lows), 1 << digit], place, "counts")
            with b.loops([len(lows), 1 << digit]) as at:
                b.store(counts, at, b.constant(0, place))
            with b.loops([size], "k") as (k,):
                key = self._key(b.load(source, self.along(line, k)))
                b.store(keys[0], (*line, k), key)
                b.store(places[0], (*line, k), b.index(k, place))
                for turn, low in enumerate(lows):
                    at = (turn, _digit_of(b, key, low, digit))
                    b.store(counts, at, b.load(counts, at) + 1)
            pairs = list(zip(keys, places, strict=True))
            for turn, low in enumerate(lows):
                _start_digits(b, counts, turn, 1 << digit)
                with b.loops([size], "k") as (k,):
                    key = b.load(pairs[0][0], (*line, k))
                    at = (turn, _digit_of(b, key, low, digit))
                    first = b.load(counts, at)
                    b.store(counts, at, first + 1)
                    target = (*line, b.subscript(first))
                    b.store(pairs[1][0], target, key)
                    b.store(pairs[1][1], target, b.load(pairs[0][1], (*line, k)))
                pairs.reverse()
            with b.loops([self.result_type.shape[self.position]], "k") as (k,):
                found = b.load(pairs[0][1], (*line, k))
                b.store(result, self.along(line, k), found.cast(I64))


def _digit_of(b: LoopBuilder, key: Scalar, low: int, bits: int) -> Expr:
    """Some bits of a number, as a subscript."""
    return b.subscript(key.shift_right(low) & min((1 << bits) - 1, (1 << width(key.element)) - 1))


def _start_digits(b: LoopBuilder, counts: SSAValue, turn: int, digits: int) -> None:
    """Counts of digits become the places of the first elements that have them."""
    element = buffer_type_of(counts).element
    total = b.scratch([1], element, "total")
    b.store(total, [0], b.constant(0, element))
    with b.loops([digits], "d") as (d,):
        count, before = b.load(counts, (turn, d)), b.load(total, [0])
        b.store(counts, (turn, d), before)
        b.store(total, [0], before + count)


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
