"""Finite automata over the bytes of strings: which strings are matches, and where matches are.

An automaton is a table of i32: `table[state, byte]` is the next state, or below 0 where none can
follow. It begins in state 0, and a bool for each state says whether what was read is a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.classical.strings import require_strings, span, texts_of
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.broadcast import differing
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import BOOL, I32, I64, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

BYTES = 256
NONE = -1
"""Of positions: no such one."""

AT, FIRST, LAST, STATE, PIECE, FOUND = range(6)
"""What a search for matches remembers: where it is and began, the end of the longest match yet, the
automaton's state, the start of the piece, and how many matches there were.
"""


class AutomatonOp(GraphOp):
    """What reads strings by an automaton."""

    starts: SSAValue = operand_def(TensorType)
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    table: SSAValue = operand_def(TensorType)
    accepts: SSAValue = operand_def(TensorType)

    def require_automaton(self) -> TensorType:
        """Refuses operands that are no strings and automaton; returns the type of the ends."""
        starts, ends, data, table, accepts = self.tensor_types()
        require_strings(self, starts, ends, data)
        fits = (table.element, accepts.element) == (I32, BOOL) and table.has_rank
        fits = fits and table.rank == 2 and table.shape[0] != 0
        fits = fits and (table.shape[1] - BYTES).constant in (None, 0)
        fits = fits and accepts == tensor(table.shape[:1], BOOL)
        self.require(fits, "i32 [states, 256] and bool [states]", f"{table} and {accepts}")
        return ends

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """There is a state, and a column for each byte."""
        states, columns = type_of(self.table).shape
        return [*at_least(states, 1), *differing((columns,), (Expr.of(BYTES),))]

    def next_state(self, b: LoopBuilder, operands: Buffers, state: Scalar, byte: Scalar) -> Scalar:
        """The state behind a byte; states that are none are moved to the nearest."""
        last = type_of(self.table).shape[0] - 1
        bounded = state.maximum(0).minimum(b.index(last, I64))
        place = [b.subscript(bounded), b.subscript(byte.cast(I64))]
        following = b.load(operands[3], place).cast(I64)
        return following.minimum(b.index(last, I64))

    def accepted(self, b: LoopBuilder, operands: Buffers, state: Scalar) -> Scalar:
        """Whether a state is one, and a match."""
        return b.load(operands[4], [b.subscript(state.maximum(0))]) & (state >= 0)


@irdl_op_definition
class MatchStringsOp(AutomatonOp):
    """`y[i]`: whether string i as a whole is a match."""

    name = "graph.match_strings"
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return [tensor(self.require_automaton().shape, BOOL)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        *strings, table, accepts = operands
        matches = [_final(text, table) for text in texts_of(strings)]
        return [np.array([state >= 0 and accepts[state] for state in matches], np.bool_)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        _, ends, data, *_ = self.tensor_types()
        with b.loops(ends.shape) as (i,):
            start, length = span(b, operands[:2], i, data.shape[0])
            state = b.scratch([1], I64, "state")
            b.store(state, [0], b.constant(0, I64))
            with b.loops([b.subscript(length)], "j") as (j,):
                known = b.load(state, [0])
                following = self.next_state(b, operands, known, b.load(operands[2], [start + j]))
                b.store(state, [0], (known < 0).select(known, following))
            b.store(results[0], [i], self.accepted(b, operands, b.load(state, [0])))


def _final(text: bytes, table: Array) -> int:
    state = 0
    for byte in text:
        state = state if state < 0 else min(int(table[state, byte]), len(table) - 1)
    return state


@irdl_op_definition
class FindMatchesOp(AutomatonOp):
    """The first `count` matches in all strings: `spans[:, k]` is where match k starts and ends, and
    the string that it is in, 0 where there are fewer; `total` is how many there are.

    From left to right, each match is the longest where it starts, and not empty. With `between`,
    the pieces between matches are given instead, of which a string has one more; with `most` of 0
    or more, no more than so many matches of a string count. A match has at most `lookahead` bytes
    behind which it is none yet; a search that needs more is given up.
    """

    name = "graph.find_matches"
    count: ShapeAttr = prop_def(ShapeAttr)
    between: BoolAttr = prop_def(BoolAttr)
    most: IntegerAttr[Any] = prop_def(IntegerAttr)
    lookahead: IntegerAttr[Any] = prop_def(IntegerAttr)
    spans: SSAValue = result_def(TensorType)
    total: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        self.require_automaton()
        one = len(exprs(self.count)) == 1 and not below_zero(exprs(self.count)[0])
        self.require(one, "one count of 0 or more", self.count)
        self.require(self.lookahead.value.data >= 0, "a lookahead of 0 or more", self.lookahead)
        return [tensor([3, *exprs(self.count)], I64), tensor([], I64)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        starts, _, data, *_ = operands
        begin = np.clip(starts, 0, len(data)).tolist()
        found = [
            (begin[number] + first, begin[number] + end, number)
            for number, text in enumerate(texts_of(operands[:3]))
            for first, end in self._found(text, *operands[3:])
        ]
        (count,) = numbers(self, self.count)
        spans = np.zeros((3, count), np.int64)
        kept = found[:count]
        spans[:, : len(kept)] = np.array(kept, np.int64).reshape(-1, 3).T
        return [spans, np.array(len(found), np.int64)]

    def _found(self, text: bytes, table: Array, accepts: Array) -> list[tuple[int, int]]:
        """What `lower` finds in one string."""
        found: list[tuple[int, int]] = []
        at, first, last, state, piece, count = 0, 0, NONE, 0, 0, 0
        most = self.most.value.data
        for _ in range((len(text) + 1) * (self.lookahead.value.data + 2)):
            if first >= len(text):
                break
            following = NONE if at == len(text) else int(table[max(state, 0), text[at]])
            state = min(following, len(table) - 1)
            if state >= 0:
                at += 1
                last = at if accepts[state] else last
                continue
            if last != NONE and not 0 <= most <= count:
                found.append((piece, first) if self.between.value.data else (first, last))
                piece, count = last, count + 1
            first = at = last if last != NONE else first + 1
            last, state = NONE, 0
        return [*found, (piece, len(text))] if self.between.value.data else found

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Each step takes a byte, or ends an attempt and begins the next one behind it."""
        _, ends, data, *_ = self.tensor_types()
        (count,) = exprs(self.count)
        with b.loops([3, count]) as index:
            b.store(results[0], index, b.constant(0, I64))
        b.store(results[1], [], b.constant(0, I64))
        with b.loops(ends.shape) as (i,):
            start, length = span(b, operands[:2], i, data.shape[0])
            kept = b.scratch([6], I64, "search")
            for slot in range(6):
                b.store(kept, [slot], b.constant(NONE if slot == LAST else 0, I64))
            steps = (length + 1) * (self.lookahead.value.data + 2)
            with b.loops([b.subscript(steps)], "s") as (_,), b.when(b.load(kept, [FIRST]) < length):
                self._step(b, operands, results, kept, (i, start, length))
            if self.between.value.data:
                self._give(b, results, (b.load(kept, [PIECE]), length), (i, start))

    def _step(
        self,
        b: LoopBuilder,
        operands: Buffers,
        results: Buffers,
        kept: SSAValue,
        text: tuple[Expr, Expr, Scalar],
    ) -> None:
        i, start, length = text
        at, first, last, state, piece, found = (b.load(kept, [slot]) for slot in range(6))
        none = b.constant(NONE, I64)
        byte = b.load(operands[2], [start + b.subscript(at.minimum(length - 1))])
        following = self.next_state(b, operands, state, byte)
        following = (at < length).select(following, none)
        goes_on = following >= 0
        longer = self.accepted(b, operands, following).select(at + 1, last)
        has_match = last >= 0
        most = self.most.value.data
        counts = has_match & ~goes_on & ((found < most) if most >= 0 else has_match)
        with b.when(counts):
            ends = (piece, first) if self.between.value.data else (first, last)
            self._give(b, results, ends, (i, start))
        begin = goes_on.select(first, has_match.select(last, first + 1))
        b.store(kept, [AT], goes_on.select(at + 1, begin))
        b.store(kept, [FIRST], begin)
        b.store(kept, [LAST], goes_on.select(longer, none))
        b.store(kept, [STATE], goes_on.select(following, b.constant(0, I64)))
        b.store(kept, [PIECE], counts.select(last, piece))
        b.store(kept, [FOUND], found + counts.cast(I64))

    def _give(
        self,
        b: LoopBuilder,
        results: Buffers,
        ends: tuple[Scalar, Scalar],
        text: tuple[Expr, Expr],
    ) -> None:
        """Adds a span of a string, if there is room."""
        (count,), (i, start) = exprs(self.count), text
        total = b.load(results[1], [])
        with b.when(total < b.index(count, I64)):
            place = b.subscript(total)
            for row, end in enumerate(ends):
                b.store(results[0], [Expr.of(row), place], end + b.index(start, I64))
            b.store(results[0], [Expr.of(2), place], b.index(i, I64))
        b.store(results[1], [], total + 1)


OPS = (MatchStringsOp, FindMatchesOp)
