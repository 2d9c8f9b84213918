"""Matrix products."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.accumulate import round_totals, start_totals, widen
from weft.dialects.graph.core.batching import again, aligned, is_batched
from weft.dialects.graph.core.broadcast import (
    agreed_dim,
    broadcast_assumptions,
    broadcast_index,
    broadcast_shapes,
    differing,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import sum_to
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.sharding_rule import ShardingRule, broadcast_factors
from weft.dialects.graph.core.types import (
    FLOATS,
    NUMBERS,
    Shape,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.reindexing.movement import TransposeOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


class ProductOp(GraphOp):
    """`y[..., i, j] = sum_k lhs[..., i, k] * rhs[..., k, j]`, as NumPy's: batch dims are broadcast.

    A vector operand gets a dim of 1 that the result loses again.
    """

    REUSES_OPERANDS: ClassVar = True
    lhs: SSAValue = operand_def(TensorType)
    rhs: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    @abstractmethod
    def total_element(self) -> Attribute:
        """The element type of the result, for operands of types that go together."""

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = self.tensor_types()
        element = self.total_element()
        if not (lhs.has_rank and rhs.has_rank):
            return [tensor(None, element)]
        self.require(
            lhs.rank > 0 and rhs.rank > 0, "operands of rank 1 or more", f"{lhs} and {rhs}"
        )
        inner = agreed_dim(self._inner())
        self.require(inner is not None, "an inner dim that both operands share", f"{lhs} and {rhs}")
        batch = broadcast_shapes(self.name, [lhs.shape[:-2], rhs.shape[:-2]])
        rows = lhs.shape[-2:-1] if lhs.rank > 1 else ()
        columns = rhs.shape[-1:] if rhs.rank > 1 else ()
        return [tensor((*batch, *rows, *columns), element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        tensor_types = self.tensor_types()
        batches = [each.shape[:-2] for each in tensor_types]
        result = broadcast_shapes(self.name, batches)
        pairs = [pair for batch in batches for pair in broadcast_assumptions(batch, result)]
        left, right = self._inner()
        return [*pairs, *differing((left,), (right,))]

    def sharding_rule(self) -> ShardingRule | None:
        lhs, rhs = (each.shape for each in self.tensor_types())
        whole = self.result_type.shape[: max(len(lhs), len(rhs)) - 2]
        (left, right), batch = broadcast_factors([lhs[:-2], rhs[:-2]], whole)
        rows = ("i",) if len(lhs) > 1 else ()
        columns = ("j",) if len(rhs) > 1 else ()
        operands = (*left, *rows, "k"), (*right, "k", *columns)
        return ShardingRule(operands, ((*batch, *rows, *columns),), {"k": "sum"})

    def _inner(self) -> tuple[Expr, Expr]:
        """The dim of each operand over which is summed."""
        lhs, rhs = (each.shape for each in self.tensor_types())
        return lhs[-1], rhs[max(len(rhs) - 2, 0)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        lhs, rhs = (type_of(each).rank for each in self.operands)
        x, y = operands
        x_has, y_has = is_batched(x, self.lhs), is_batched(y, self.rhs)
        if x_has and lhs == 1 and (y_has or rhs != 2):
            x = aligned(b, x, 2)  # rows of one
        if y_has and rhs == 1:
            same = type_of(x).element == type_of(y).element
            if not x_has and lhs == 2 and same:
                return again(self, [y, b.transpose(x, permutation=[1, 0])], b)
            y = b.reshape(y, shape=ShapeAttr((*type_of(y).shape, Expr.of(1))))
        rank = max(lhs, rhs, 2)
        x = aligned(b, x, rank) if x_has and type_of(x).rank > 2 else x
        y = aligned(b, y, rank) if y_has else y
        (found,) = again(self, [x, y], b)
        shape = ShapeAttr((size, *self.result_type.shape))
        return [b.reshape(found, shape=shape)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        lhs, rhs = self.tensor_types()
        shape = self.result_type.shape
        names = "bcdefgh"[: max(len(shape) - 2, 0)] + "ij"
        total = start_totals(b, shape, self.result_type.element, 0, results[0])
        with b.loops(shape, names) as index, b.reduce([lhs.shape[-1]], "add", "k") as (k,):
            x = b.load(operands[0], self._lhs_index(index, lhs.shape, rhs.rank, k))
            y = b.load(operands[1], self._rhs_index(index, rhs.shape, lhs.rank, k))
            sums = b.load(total, index)
            b.store(total, index, sums + x.cast(sums.element) * y.cast(sums.element))
        round_totals(b, shape, total, results[0])

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


@irdl_op_definition
class MatmulOp(ProductOp):
    """`y[..., i, j] = sum_k lhs[..., i, k] * rhs[..., k, j]`, as NumPy's: batch dims are broadcast.

    A vector operand gets a dim of 1 that the result loses again.
    """

    name = "graph.matmul"
    ONNX: ClassVar = OnnxName("MatMul")
    PACKED_OPERAND: ClassVar = 1

    def total_element(self) -> Attribute:
        lhs, rhs = (each.element for each in self.tensor_types())
        self.require(lhs == rhs, "operands of one element type", f"{lhs} and {rhs}")
        self.require(lhs in NUMBERS, "numeric operands", lhs)
        return lhs

    def reference(self, *operands: Array) -> Sequence[Array]:
        lhs, rhs = (widen(operand) for operand in operands)
        return [np.asarray(np.matmul(lhs, rhs)).astype(operands[0].dtype)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dlhs = dy rhs^T` and `drhs = lhs^T dy`, each summed over the batch dims it lacks."""
        lhs, rhs = self.tensor_types()
        row = b.reshape(self.lhs, shape=(1, lhs.shape[0])) if lhs.rank == 1 else self.lhs
        column = b.reshape(self.rhs, shape=(rhs.shape[0], 1)) if rhs.rank == 1 else self.rhs
        whole = MatmulOp.of(row, column)
        cotangent = b.reshape(cotangents[0], shape=whole.result_type.dims)
        whole.erase()
        left = sum_to(b, b.matmul(cotangent, transposed(b, column)), row)
        right = _right_cotangent(b, row, column, cotangent)
        return [b.reshape(left, shape=lhs.dims), b.reshape(right, shape=rhs.dims)]


def _right_cotangent(
    b: GraphBuilder, row: SSAValue, column: SSAValue, cotangent: SSAValue
) -> SSAValue:
    """`lhs^T dy`, or `(dy^T lhs)^T` for a transposed matrix, whose own cotangent is `dy^T lhs`. Of
    a stack of `lhs` and one matrix, the rows of all are those of one product.
    """
    if type_of(column).rank == 2:
        row, cotangent = merged_rows(b, row), merged_rows(b, cotangent)
    owner = column.owner
    last = [type_of(column).rank - 1, type_of(column).rank - 2]
    if isinstance(owner, TransposeOp) and list(owner.axes[-2:]) == last:
        turned = transposed(b, column)
        return transposed(b, sum_to(b, b.matmul(transposed(b, cotangent), row), turned))
    return sum_to(b, b.matmul(transposed(b, row), cotangent), column)


def merged_rows(b: GraphBuilder, stack: SSAValue) -> SSAValue:
    """The rows of a stack of matrices as those of one matrix."""
    shape = type_of(stack).shape
    return b.reshape(stack, shape=ShapeAttr((product(shape[:-1]), shape[-1])))


def transposed(b: GraphBuilder, matrix: SSAValue) -> SSAValue:
    """The matrix, or each of a stack of them, with rows and columns swapped."""
    rank = type_of(matrix).rank
    return b.transpose(matrix, permutation=[*range(rank - 2), rank - 1, rank - 2])


@irdl_op_definition
class GemmOp(GraphOp):
    """`alpha * op(a) op(b) + beta * c` of matrices, `op` transposing where the attribute says so.

    `c` is optional and broadcast to the result.
    """

    name = "graph.gemm"
    ONNX: ClassVar = OnnxName(
        "Gemm",
        {
            "alpha": ("alpha", 1.0),
            "beta": ("beta", 1.0),
            "transA": ("transpose_a", False),
            "transB": ("transpose_b", False),
        },
    )
    REUSES_OPERANDS: ClassVar = True
    a: SSAValue = operand_def(TensorType)
    b: SSAValue = operand_def(TensorType)
    c: SSAValue | None = opt_operand_def(TensorType)
    alpha: FloatAttr[Any] = prop_def(FloatAttr)
    beta: FloatAttr[Any] = prop_def(FloatAttr)
    transpose_a: BoolAttr = prop_def(BoolAttr)
    transpose_b: BoolAttr = prop_def(BoolAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def scales(self) -> tuple[float, float]:
        """What the product and `c` are multiplied with."""
        return self.alpha.value.data, self.beta.value.data

    @property
    def transposes(self) -> tuple[bool, bool]:
        """Whether `a` and `b` are transposed."""
        return bool(self.transpose_a.value.data), bool(self.transpose_b.value.data)

    def infer(self) -> Sequence[TensorType]:
        tensor_types = self.tensor_types()
        self.require_one_element(NUMBERS, "numeric operands")
        element, listed = tensor_types[0].element, " and ".join(map(str, tensor_types))
        whole = all(scale.is_integer() for scale in self.scales)
        self.require(whole or element in FLOATS, "whole alpha and beta for integers", self.scales)
        if not (tensor_types[0].has_rank and tensor_types[1].has_rank):
            return [tensor(None, element)]
        self.require(tensor_types[0].rank == 2 and tensor_types[1].rank == 2, "matrices", listed)
        left, right = (
            each.shape[::-1] if swapped else each.shape
            for each, swapped in zip(tensor_types[:2], self.transposes, strict=True)
        )
        inner = agreed_dim((left[1], right[0]))
        self.require(inner is not None, "an inner dim that both matrices share", listed)
        shape = (left[0], right[1])
        if len(tensor_types) > 2 and tensor_types[2].has_rank:
            broad = broadcast_shapes(self.name, [shape, tensor_types[2].shape])
            self.require(broad == shape, "an addend that broadcasts to the result", listed)
        return [tensor(shape, element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """The matrices share a dim, and the addend broadcasts to the result."""
        left, right = self.transposes
        a, b = type_of(self.a).shape, type_of(self.b).shape
        pairs = differing((a[0 if left else 1],), (b[1 if right else 0],))
        if self.c is None:
            return pairs
        return [*pairs, *broadcast_assumptions(type_of(self.c).shape, self.result_type.shape)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        a, b, *c = (widen(operand) for operand in operands)
        alpha, beta = (a.dtype.type(scale) for scale in self.scales)
        a, b = (x.T if swapped else x for x, swapped in zip((a, b), self.transposes, strict=True))
        product = alpha * (a @ b)
        return [(product + beta * c[0] if c else product).astype(operands[0].dtype)]

    def sharding_rule(self) -> ShardingRule | None:
        left, right = self.transposes
        inner = None if self.c is not None else "k"
        a, other = (inner, "i") if left else ("i", inner), ("j", inner) if right else (inner, "j")
        result = self.result_type.shape
        addends, _ = broadcast_factors([type_of(self.c).shape] if self.c else [], result)
        names = {"d0": "i", "d1": "j", None: None}
        c = (tuple(names[each] for each in factors) for factors in addends)
        return ShardingRule((a, other, *c), (("i", "j"),), {"k": "sum"} if inner else {})

    def fold(self) -> GraphOp | None:
        """A product that is neither scaled, transposed nor added to is a matmul."""
        if self.c is not None or self.scales[0] != 1 or any(self.transposes):
            return None
        return MatmulOp.of(self.a, self.b, location=self.location)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        (m, n), element = self.result_type.shape, self.result_type.element
        is_product = self.c is None and self.scales[0] == 1
        total = start_totals(b, (m, n), element, 0, results[0] if is_product else None)
        left, right = self.transposes
        inner = type_of(self.a).shape[0 if left else 1]
        with b.loops((m, n)) as (i, j), b.reduce([inner], "add", "k") as (k,):
            x = b.load(operands[0], (k, i) if left else (i, k))
            y = b.load(operands[1], (j, k) if right else (k, j))
            b.store(total, (i, j), b.load(total, (i, j)) + x * y)
        if total is not results[0]:
            with b.loops((m, n)) as index:
                b.store(results[0], index, self._finish(b, b.load(total, index), index, operands))

    def _finish(
        self, b: LoopBuilder, total: Scalar, index: Sequence[Expr], operands: Sequence[SSAValue]
    ) -> Scalar:
        alpha, beta = self.scales
        value = total if alpha == 1 else total * alpha
        if self.c is None:
            return value
        addend = b.load(operands[2], broadcast_index(index, type_of(self.c).shape))
        return value + (addend if beta == 1 else addend * beta)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        alpha, beta = self.scales
        left, right = self.transposes
        scaled = self._scaled(b, cotangents[0], alpha)
        a = transposed(b, self.a) if left else self.a
        other = transposed(b, self.b) if right else self.b
        grad_a = b.matmul(scaled, transposed(b, other))
        grad_b = b.matmul(transposed(b, a), scaled)
        grads = [
            transposed(b, grad_a) if left else grad_a,
            transposed(b, grad_b) if right else grad_b,
        ]
        if self.c is None:
            return grads
        return [*grads, sum_to(b, self._scaled(b, cotangents[0], beta), self.c)]

    @staticmethod
    def _scaled(b: GraphBuilder, value: SSAValue, scale: float) -> SSAValue:
        if scale == 1:
            return value
        return b.mul(value, b.constant_of(scale, type_of(value).element))


OPS = (MatmulOp, GemmOp)
