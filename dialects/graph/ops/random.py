"""Random bits: of a counter-based generator, whose elements are functions of their index alone, and
of the generator by which others state what they expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from weft.dialects.expr import Expr, row_major_strides
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import BinaryOp
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import I64, UI32, UI64, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.threefry import threefry
from weft.dialects.weights import Array

ROUNDS = 10
MULTIPLIER = 0xD256D193
STEP = 0x9E3779B9
"""What the key grows by from round to round."""

WORD = 0xFFFFFFFF
STREAMS = 1 << 8

STATE = 624
"""Words of MT19937's state."""
MIDDLE = 397
"""How far the other word of three lies ahead from which each follows."""


@irdl_op_definition
class RandomBitsOp(GraphOp):
    """64 random bits for each element of `shape`, of the key `seed` (32 bits).

    Philox2x32-10 (Salmon et al., 2011) of the element's index in row-major order; the numbers of
    one seed differ from `stream` to `stream`. Equal attributes give equal numbers in every call.
    Of an optional scalar `key` that a call brings, the low word is combined with the seed and the
    high one with the index. Indices are those in a tensor of the shape `whole`, where it is given,
    of which the result is the part whose first element has the index `start` (an i64, else 0).
    """

    name = "graph.random_bits"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    shape: ShapeAttr = prop_def(ShapeAttr)
    seed: IntegerAttr[Any] = prop_def(IntegerAttr)
    stream: IntegerAttr[Any] = prop_def(IntegerAttr)
    whole: ShapeAttr | None = opt_prop_def(ShapeAttr)
    key: SSAValue | None = opt_operand_def(TensorType)
    start: SSAValue | None = opt_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        seed, stream = self.seed.value.data, self.stream.value.data
        self.require(0 <= seed <= WORD, "a seed of 32 bits", seed)
        self.require(0 <= stream < STREAMS, f"a stream below {STREAMS}", stream)
        self.require(not any(map(below_zero, exprs(self.shape))), "dims of 0 or more", self.shape)
        ranks = len(exprs(self.shape)), len(self._whole)
        self.require(ranks[0] == ranks[1], f"a whole of {ranks[0]} dims", ranks[1])
        for value, element, rule in ((self.key, UI64, "a key"), (self.start, I64, "a start")):
            found = None if value is None else type_of(value)
            fits = found is None or found == tensor((), element)
            self.require(fits, f"{rule} of one {element}", found)
        return [TensorType(self.shape, UI64)]

    @property
    def _whole(self) -> Sequence[Expr]:
        """The dims by which elements are counted."""
        return exprs(self.shape if self.whole is None else self.whole)

    def sharding_rule(self) -> ShardingRule | None:
        """A part has the bits of its place in the whole."""
        if self.result_type.static_shape is None:
            return None
        factors = whole_but(self.result_type.rank, ())
        return ShardingRule(((),) * len(self.operands), (factors,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        whole = self.shape if self.whole is None else self.whole
        return {**self.properties, "shape": results[0].dims, "whole": whole}

    def local_operands(
        self,
        parts: Sequence[SSAValue | None],
        begins: Callable[[], Sequence[SSAValue | None]],
        b: GraphBuilder,
    ) -> Sequence[SSAValue | None]:
        key, start = (*parts, None, None)[:2]
        for begin, step in zip(begins(), row_major_strides(self._whole), strict=True):
            if begin is not None:
                assert step.constant is not None, "what is cut has constant dims"
                skipped = b.mul(begin, b.constant_of(step.constant, I64))
                start = skipped if start is None else b.add(start, skipped)
        return [key, start]

    def reference(self, *operands: Array) -> Sequence[Array]:
        dims, remaining = numbers(self, self.shape), iter(operands)
        given, start = (
            0 if value is None else int(next(remaining)) for value in (self.key, self.start)
        )
        whole = dims if self.whole is None else numbers(self, self.whole)
        steps = [step.constant or 0 for step in row_major_strides(list(map(Expr.of, whole)))]
        index = np.indices(dims, sparse=True)
        counter = np.zeros(dims, np.uint64) + np.uint64(start)
        for places, step in zip(index, steps, strict=True):
            counter = counter + places.astype(np.uint64) * np.uint64(step)
        low, high = counter & WORD, counter >> 32 | np.uint64(self.stream.value.data << 24)
        high = high ^ np.uint64(given >> 32)
        for turn in range(ROUNDS):
            key = ((self.seed.value.data ^ given & WORD) + STEP * turn) & WORD
            product = low * np.uint64(MULTIPLIER)
            low, high = product >> 32 ^ np.uint64(key) ^ high, product & WORD
        return [np.asarray(high << 32 | low)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        strides, remaining = row_major_strides(self._whole), iter(operands)
        with b.loops(self.result_type.shape) as index:
            given, start = (
                None if value is None else b.load(next(remaining), [])
                for value in (self.key, self.start)
            )
            position = sum((i * step for i, step in zip(index, strides, strict=True)), Expr.of(0))
            counter = b.index(position, UI64)
            if start is not None:
                counter = counter + start.cast(UI64)
            low = counter & WORD
            high = counter.shift_right(32) | (self.stream.value.data << 24)
            steps, seed = [STEP * turn & WORD for turn in range(ROUNDS)], self.seed.value.data
            keys: list[Scalar | int] = [(seed + step) & WORD for step in steps]
            if given is not None:
                high = high ^ given.shift_right(32)
                keys = [(((given & WORD) ^ seed) + step) & WORD for step in steps]
            for key in keys:
                product = low * MULTIPLIER
                low, high = product.shift_right(32) ^ key ^ high, product & WORD
            b.store(results[0], index, high.shift_left(32) | low)


@irdl_op_definition
class ThreefryOp(BinaryOp):
    """Two words of 32 random bits, in one of 64, of a key (`lhs`) and a count (`rhs`) alike:
    Threefry-2x32 of 20 rounds (Salmon et al., 2011). The lower halves are the first words.
    """

    name = "graph.threefry"
    ELEMENTS: ClassVar = (UI64,)

    def reference(self, *operands: Array) -> Sequence[Array]:
        key, count = ((each.astype(np.uint32), (each >> 32).astype(np.uint32)) for each in operands)

        def rotate(word: Array, by: int) -> Array:
            return word << np.uint32(by) | word >> np.uint32(32 - by)

        def word(number: int) -> Array:
            return np.asarray(number, np.uint32)

        low, high = threefry(key, count, np.add, np.bitwise_xor, rotate, word)
        return [np.asarray(high.astype(np.uint64) << 32 | low)]

    def compute(self, b: LoopBuilder, *operands: Scalar) -> Scalar:
        key, count = operands
        return key.threefry(count)


@irdl_op_definition
class MersenneTwisterOp(GraphOp):
    """`count` words of 32 random bits of MT19937 (Matsumoto and Nishimura, 1998), those of
    `numpy.random.RandomState(seed)`; the same in every call. Each word follows from the 624 before
    it.
    """

    name = "graph.mersenne_twister"
    count: ShapeAttr = prop_def(ShapeAttr)
    seed: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        seed, dims = self.seed.value.data, exprs(self.count)
        self.require(0 <= seed <= WORD, "a seed of 32 bits", seed)
        self.require(len(dims) == 1 and not below_zero(dims[0]), "a count of 0 or more", self.count)
        return [TensorType(self.count, UI32)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        (count,) = numbers(self, self.count)
        state = np.random.RandomState(self.seed.value.data)
        return [np.frombuffer(state.bytes(4 * count), "<u4").astype(np.uint32)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Blocks of as many words as the state has lie behind it, and take its place. They are
        computed in thirds, in which no word follows from another.
        """
        (count,) = self.result_type.shape
        words, blocks = b.temporary([2 * STATE], UI32), count // STATE
        b.store(words, [0], b.constant(self.seed.value.data, UI32))
        with b.loops([STATE - 1]) as (i,):
            before = b.load(words, [i])
            mixed = (before ^ before.shift_right(30)) * 0x6C078965
            b.store(words, [i + 1], mixed + b.index(i + 1, UI32))
        with b.loops([blocks]) as (block,):
            with b.loops([3, STATE // 3]) as (third, j):
                i = third * (STATE // 3) + j
                b.store(results[0], [block * STATE + i], self._next(b, words, i))
            with b.loops([STATE]) as (i,):
                b.store(words, [i], b.load(words, [i + STATE]))
        with b.loops([count - blocks * STATE]) as (i,):
            b.store(results[0], [blocks * STATE + i], self._next(b, words, i))

    def _next(self, b: LoopBuilder, words: SSAValue, i: Expr) -> Scalar:
        """Stores the word that follows from those at an index, and returns its tempered bits."""
        pair = b.load(words, [i]) & 0x80000000 | b.load(words, [i + 1]) & 0x7FFFFFFF
        word = b.load(words, [i + MIDDLE]) ^ pair.shift_right(1) ^ (pair & 1) * 0x9908B0DF
        b.store(words, [i + STATE], word)
        word = word ^ word.shift_right(11)
        word = word ^ (word.shift_left(7) & 0x9D2C5680)
        word = word ^ (word.shift_left(15) & 0xEFC60000)
        return word ^ word.shift_right(18)


OPS: tuple[type[GraphOp], ...] = (RandomBitsOp, ThreefryOp, MersenneTwisterOp)
