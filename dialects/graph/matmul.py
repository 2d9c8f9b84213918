"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from dialects.expr import Expr
from dialects.graph.broadcast import broadcast_index, broadcast_shapes
from dialects.graph.op import GraphOp, OnnxName
from dialects.graph.types import NUMBERS, Shape, TensorType, tensor, type_of
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import compute_type
from dialects.weights import Array


@irdl_op_definition
class MatmulOp(GraphOp):
    """NumPy's `matmul`: `y[..., i, j] = sum_k lhs[..., i, k] * rhs[..., k, j]`, batch dims broadcast.

    A vector operand gets a dim of 1 that the result loses again.
    """

    name = "graph.matmul"
    ONNX: ClassVar = OnnxName("MatMul")
    REUSES_OPERANDS: ClassVar = True
    lhs: SSAValue = operand_def(TensorType)
    rhs: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = self.tensor_types()
        self.require(lhs.element == rhs.element, "operands of one element type", f"{lhs.element} and {rhs.element}")
        self.require(lhs.element in NUMBERS, "numeric operands", lhs.element)
        if not (lhs.has_rank and rhs.has_rank):
            return [tensor(None, lhs.element)]
        self.require(lhs.rank > 0 and rhs.rank > 0, "operands of rank 1 or more", f"{lhs} and {rhs}")
        inner = rhs.shape[-2] if rhs.rank > 1 else rhs.shape[0]
        self.require(lhs.shape[-1] == inner, "an inner dim that both operands share", f"{lhs} and {rhs}")
        batch = broadcast_shapes(self.name, [lhs.shape[:-2], rhs.shape[:-2]])
        rows = lhs.shape[-2:-1] if lhs.rank > 1 else ()
        columns = rhs.shape[-1:] if rhs.rank > 1 else ()
        return [tensor((*batch, *rows, *columns), lhs.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.matmul(*operands)]

    def lower(self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
        lhs, rhs = (type_of(operand) for operand in self.operands)
        element = self.result_type.element
        shape = self.result_type.shape
        total = results[0] if compute_type(element) == element else b.temporary(shape, compute_type(element), "sum")
        with b.loops(shape) as index:
            b.store(total, index, b.constant(0, element))
        with b.loops(shape) as index, b.reduce([lhs.shape[-1]], "add", "k") as (k,):
            x = b.load(operands[0], self._lhs_index(index, lhs.shape, rhs.rank, k))
            y = b.load(operands[1], self._rhs_index(index, rhs.shape, lhs.rank, k))
            b.store(total, index, b.load(total, index) + x * y)
        if total is not results[0]:
            with b.loops(shape) as index:
                b.store(results[0], index, b.load(total, index))

    @staticmethod
    def _lhs_index(index: Sequence[Expr], shape: Shape, other_rank: int, k: Expr) -> list[Expr]:
        if len(shape) == 1:
            return [k]
        columns = int(other_rank > 1)
        rows_end = len(index) - columns
        batch = broadcast_index(index[: rows_end - 1], shape[:-2])
        return [*batch, index[rows_end - 1], k]

    @staticmethod
    def _rhs_index(index: Sequence[Expr], shape: Shape, other_rank: int, k: Expr) -> list[Expr]:
        if len(shape) == 1:
            return [k]
        batch_end = len(index) - 1 - int(other_rank > 1)
        batch = broadcast_index(index[:batch_end], shape[:-2])
        return [*batch, k, index[-1]]


OPS = (MatmulOp,)
