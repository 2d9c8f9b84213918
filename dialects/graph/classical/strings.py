"""Strings as two tensors: where each ends, and the bytes of all, one string after the other.

String `i` is `bytes[ends[i - 1]:ends[i]]`; the first starts at 0. Those are Arrow's offsets without
the first of them. Ends that are none are moved into the bytes, and never behind the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr, maximum
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import BOOL, I64, UI8, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

PRIME = 0x100000001B3
"""FNV's for 64 bits."""


def bytes_of(ends: Array, data: Array, number: int) -> bytes:
    """One string."""
    start = int(np.clip(ends[number - 1], 0, len(data))) if number else 0
    return data[start : int(np.clip(ends[number], 0, len(data)))].tobytes()


def hash_of(text: bytes, seed: int) -> int:
    """FNV-1a of 64 bits, as a signed number."""
    state = seed % (1 << 64)
    for byte in text:
        state = (state ^ byte) * PRIME % (1 << 64)
    return state - (1 << 64) * (state >> 63)


def _require_strings(op: GraphOp, ends: TensorType, data: TensorType) -> None:
    fits = (ends.element, data.element) == (I64, UI8) and ends.has_rank and data.has_rank
    fits = fits and ends.rank == data.rank == 1
    op.require(fits, "ends of i64 and bytes of ui8, of rank 1", f"{ends} and {data}")


def _span(b: LoopBuilder, ends: SSAValue, number: Expr, size: Expr) -> tuple[Expr, Scalar]:
    """Where a string starts among so many bytes, and how many it has."""
    most = b.index(size, I64)

    def bounded(end: Scalar) -> Scalar:
        return end.maximum(0).minimum(most)

    end = bounded(b.load(ends, [number]))
    before = bounded(b.load(ends, [maximum([number - 1, 0])]))
    start = (b.index(number, I64) > 0).select(before, b.constant(0, I64))
    return b.subscript(start), (end - start).maximum(0)


@irdl_op_definition
class HashStringsOp(GraphOp):
    """`y[i]`: the hash of string i, FNV-1a of 64 bits that starts from `seed`."""

    name = "graph.hash_strings"
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    seed: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        ends, data = self.tensor_types()
        _require_strings(self, ends, data)
        return [ends]

    def reference(self, *operands: Array) -> Sequence[Array]:
        ends, data = operands
        seed = self.seed.value.data
        hashes = [hash_of(bytes_of(ends, data, number), seed) for number in range(len(ends))]
        return [np.array(hashes, np.int64)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        ends, data = self.tensor_types()
        with b.loops(ends.shape) as (i,):
            start, length = _span(b, operands[0], i, data.shape[0])
            state = b.scratch([1], I64, "hash")
            b.store(state, [0], b.constant(self.seed.value.data, I64))
            with b.loops([b.subscript(length)], "j") as (j,):
                byte = b.load(operands[1], [start + j]).cast(I64)
                b.store(state, [0], (b.load(state, [0]) ^ byte) * PRIME)
            b.store(results[0], [i], b.load(state, [0]))


@irdl_op_definition
class EqualStringsOp(GraphOp):
    """`y[i]`: whether string i has the bytes of string `indices[i]` of others, of which there is
    one at least. An index that is outside is moved to the nearest.
    """

    name = "graph.equal_strings"
    ends: SSAValue = operand_def(TensorType)
    data: SSAValue = operand_def(TensorType)
    other_ends: SSAValue = operand_def(TensorType)
    other_data: SSAValue = operand_def(TensorType)
    indices: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        ends, data, other_ends, other_data, indices = self.tensor_types()
        _require_strings(self, ends, data)
        _require_strings(self, other_ends, other_data)
        self.require(indices == ends, "an index of i64 for each string", indices)
        self.require(other_ends.shape[0] != 0, "other strings", other_ends)
        return [tensor(ends.shape, BOOL)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """There is another string."""
        return at_least(type_of(self.other_ends).shape[0], 1)

    def reference(self, *operands: Array) -> Sequence[Array]:
        ends, data, other_ends, other_data, indices = operands
        others = np.clip(indices, 0, len(other_ends) - 1)
        pairs = enumerate(others.tolist())
        equal = [bytes_of(ends, data, i) == bytes_of(other_ends, other_data, k) for i, k in pairs]
        return [np.array(equal, np.bool_)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        ends, data, other_ends, other_data, _ = self.tensor_types()
        with b.loops(ends.shape) as (i,):
            start, length = _span(b, operands[0], i, data.shape[0])
            last = b.index(other_ends.shape[0] - 1, I64)
            other = b.subscript(b.load(operands[4], [i]).maximum(0).minimum(last))
            other_start, other_length = _span(b, operands[2], other, other_data.shape[0])
            same = b.scratch([1], I64, "same")
            b.store(same, [0], length.compare("eq", other_length).cast(I64))
            compared = length * b.load(same, [0])
            with b.loops([b.subscript(compared)], "j") as (j,):
                one, two = b.load(operands[1], [start + j]), b.load(operands[3], [other_start + j])
                b.store(same, [0], b.load(same, [0]) & one.compare("eq", two).cast(I64))
            b.store(results[0], [i], b.load(same, [0]).compare("ne", 0))


OPS = (HashStringsOp, EqualStringsOp)
