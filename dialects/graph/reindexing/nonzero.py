"""Where a tensor is not zero: positions whose number depends on values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.op import GraphOp
from weft.dialects.graph.core.types import BOOL, I64, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class NonzeroOp(GraphOp):
    """The indices (i64) of the first `count` true elements of a bool tensor in row-major order, an
    axis a row: `[rank, count]`. Where there are fewer, the others are 0.
    """

    name = "graph.nonzero"
    operand: SSAValue = operand_def(TensorType)
    count: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element == BOOL and source.has_rank, "bools of known rank", source)
        self.require(len(exprs(self.count)) == 1, "one count", self.count)
        self.require(not below_zero(exprs(self.count)[0]), "a count of 0 or more", self.count)
        return [tensor([source.rank, *exprs(self.count)], I64)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        (count,) = numbers(self, self.count)
        found = np.array(np.nonzero(np.atleast_1d(operands[0])), np.int64)[:, :count]
        positions = np.zeros((operands[0].ndim, count), np.int64)
        positions[:, : found.shape[1]] = found[: operands[0].ndim]
        return [positions]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """One walk through the elements, with a counter of those that are true."""
        shape, (count,) = type_of(self.operand).shape, exprs(self.count)
        with b.loops([len(shape), count]) as index:
            b.store(results[0], index, b.constant(0, I64))
        found = b.temporary([], I64, "found")
        b.store(found, [], b.constant(0, I64))
        with b.loops(shape) as index:
            number = b.load(found, [])
            room = number < b.index(count, I64)
            with b.when(b.load(operands[0], index) & room):
                indices = b.subscript(b.load(found, []))
                for axis, position in enumerate(index):
                    b.store(results[0], [Expr.of(axis), indices], b.index(position, I64))
                b.store(found, [], b.load(found, []) + 1)


OPS = (NonzeroOp,)
