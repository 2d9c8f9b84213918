"""Strings as spans of bytes: where each starts and ends in a vector of UTF-8.

String `i` is `data[starts[i]:ends[i]]`. Positions outside are moved to the nearest, and a string
that would end before it starts is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import BOOL, I64, UI8, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.ops.sort import merge_runs
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, Index, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

PRIME = 0x100000001B3
"""FNV's for 64 bits."""


def texts_of(strings: Sequence[Array]) -> list[bytes]:
    """The strings of starts, ends and bytes."""
    *ends, data = strings
    bounded = (np.clip(each, 0, len(data)).tolist() for each in ends)
    return [data[start:end].tobytes() for start, end in zip(*bounded, strict=True)]


def hash_of(text: bytes, seed: int) -> int:
    """FNV-1a of 64 bits, as a signed number."""
    state = seed % (1 << 64)
    for byte in text:
        state = (state ^ byte) * PRIME % (1 << 64)
    return state - (1 << 64) * (state >> 63)


def require_strings(op: GraphOp, starts: TensorType, ends: TensorType, data: TensorType) -> None:
    """Refuses operands that are no spans of bytes."""
    fits = starts == ends and ends.element == I64 and data.element == UI8
    fits = fits and ends.has_rank and data.has_rank and ends.rank == data.rank == 1
    got = f"{starts}, {ends} and {data}"
    op.require(fits, "starts and ends of i64 and bytes of ui8, of rank 1", got)


def span(b: LoopBuilder, ends: Buffers, number: Expr, size: Expr) -> tuple[Expr, Scalar]:
    """Where a string starts among so many bytes, and how many it has, by its two ends."""
    most = b.index(size, I64)
    start, end = (b.load(each, [number]).maximum(0).minimum(most) for each in ends)
    return b.subscript(start), (end - start).maximum(0)


@irdl_op_definition
class HashStringsOp(GraphOp):
    """`y[i]`: the hash of string i, FNV-1a of 64 bits that starts from `seed`."""

    name = "graph.hash_strings"
    starts: SSAValue = operand_def(TensorType)
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    seed: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        starts, ends, data = self.tensor_types()
        require_strings(self, starts, ends, data)
        return [ends]

    def reference(self, *operands: Array) -> Sequence[Array]:
        seed = self.seed.value.data
        return [np.array([hash_of(text, seed) for text in texts_of(operands)], np.int64)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        _, ends, data = self.tensor_types()
        with b.loops(ends.shape) as (i,):
            start, length = span(b, operands[:2], i, data.shape[0])
            state = b.scratch([1], I64, "hash")
            b.store(state, [0], b.constant(self.seed.value.data, I64))
            with b.loops([b.subscript(length)], "j") as (j,):
                byte = b.load(operands[2], [start + j]).cast(I64)
                b.store(state, [0], (b.load(state, [0]) ^ byte) * PRIME)
            b.store(results[0], [i], b.load(state, [0]))


@irdl_op_definition
class EqualStringsOp(GraphOp):
    """`y[i]`: whether string i of one list has the bytes of string i of another."""

    name = "graph.equal_strings"
    starts: SSAValue = operand_def(TensorType)
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    other_starts: SSAValue = operand_def(TensorType)
    other_ends: SSAValue = operand_def(TensorType)
    other_data: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        starts, ends, data, other_starts, other_ends, other_data = self.tensor_types()
        require_strings(self, starts, ends, data)
        require_strings(self, other_starts, other_ends, other_data)
        self.require(ends == other_ends, "equally many strings", f"{ends} and {other_ends}")
        return [tensor(ends.shape, BOOL)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        pairs = zip(texts_of(operands[:3]), texts_of(operands[3:]), strict=True)
        return [np.array([one == other for one, other in pairs], np.bool_)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        _, ends, data, _, _, other_data = self.tensor_types()
        with b.loops(ends.shape) as (i,):
            start, length = span(b, operands[:2], i, data.shape[0])
            other_start, other_length = span(b, operands[3:5], i, other_data.shape[0])
            same = b.scratch([1], I64, "same")
            b.store(same, [0], length.compare("eq", other_length).cast(I64))
            compared = length * b.load(same, [0])
            with b.loops([b.subscript(compared)], "j") as (j,):
                one, two = b.load(operands[2], [start + j]), b.load(operands[5], [other_start + j])
                b.store(same, [0], b.load(same, [0]) & one.compare("eq", two).cast(I64))
            b.store(results[0], [i], b.load(same, [0]).compare("ne", 0))


@irdl_op_definition
class CopyStringsOp(GraphOp):
    """`y[size]`: string i from `targets[i - 1]` (0 for the first) up to `targets[i]`, as far as
    that has room for it, the later ones over the earlier; bytes that none has are 0.
    """

    name = "graph.copy_strings"
    starts: SSAValue = operand_def(TensorType)
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    targets: SSAValue = operand_def(TensorType)
    size: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        starts, ends, data, targets = self.tensor_types()
        require_strings(self, starts, ends, data)
        self.require(targets == ends, "a target for each string", targets)
        is_size = len(exprs(self.size)) == 1 and not below_zero(exprs(self.size)[0])
        self.require(is_size, "one size of 0 or more", self.size)
        return [tensor(exprs(self.size), UI8)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        copied = np.zeros(numbers(self, self.size), np.uint8)
        targets = np.clip(operands[3], 0, len(copied)).tolist()
        befores = [0, *targets]
        for text, before, end in zip(texts_of(operands[:3]), befores, targets, strict=False):
            kept = text[: max(end - before, 0)]
            copied[before : before + len(kept)] = np.frombuffer(kept, np.uint8)
        return [copied]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        _, ends, data, _ = self.tensor_types()
        (size,) = exprs(self.size)
        most = b.index(size, I64)
        with b.loops([size], "k") as (k,):
            b.store(results[0], [k], b.constant(0, UI8))
        before = b.temporary([], I64, "before")
        b.store(before, [], b.constant(0, I64))
        with b.loops(ends.shape) as (i,):
            start, length = span(b, operands[:2], i, data.shape[0])
            target, end = b.load(before, []), b.load(operands[3], [i]).maximum(0).minimum(most)
            at = b.subscript(target)
            with b.loops([b.subscript(length.minimum((end - target).maximum(0)))], "j") as (j,):
                b.store(results[0], [at + j], b.load(operands[2], [start + j]))
            b.store(before, [], end)


@irdl_op_definition
class ArgsortStringsOp(GraphOp):
    """The positions (i64) of strings in the order of their bytes, which is that of their
    characters; equal ones keep their order.
    """

    name = "graph.argsort_strings"
    starts: SSAValue = operand_def(TensorType)
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        starts, ends, data = self.tensor_types()
        require_strings(self, starts, ends, data)
        return [ends]

    def reference(self, *operands: Array) -> Sequence[Array]:
        texts = texts_of(operands)
        return [np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        (extent,), size = type_of(self.ends).shape, type_of(self.data).shape[0]

        def precedes(one: Index, other: Index) -> Scalar:
            """The first byte that differs decides, or else the length."""
            places = (Expr.of(place) for place in (*one, *other))
            spans = [span(b, operands[:2], place, size) for place in places]
            (start, length), (other_start, other_length) = spans
            sign = b.scratch([1], I64, "sign")
            b.store(sign, [0], b.constant(0, I64))
            with b.loops([b.subscript(length.minimum(other_length))], "j") as (j,):
                x, y = (b.load(operands[2], [at + j]).cast(I64) for at in (start, other_start))
                known = b.load(sign, [0])
                b.store(sign, [0], known.compare("eq", 0).select(x - y, known))
            known = b.load(sign, [0])
            return (known < 0) | (known.compare("eq", 0) & (length < other_length))

        order = b.temporary([extent], I64, "order")
        merge_runs(b, order, (extent,), 0, precedes)
        with b.loops([extent]) as index:
            b.store(results[0], index, b.load(order, index))


OPS = (HashStringsOp, EqualStringsOp, CopyStringsOp, ArgsortStringsOp)
