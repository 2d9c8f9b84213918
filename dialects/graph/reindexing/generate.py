"""Operators whose elements come from positions and sizes: dims, ranges, one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.algebra import Term, counted, joined
from weft.dialects.graph.core.axis import from_front
from weft.dialects.graph.core.batching import again, aligned, is_batched, only_first
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.types import (
    I64,
    INTEGERS,
    NUMBERS,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.reindexing.slicing import below_zero, exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar, compute_type
from weft.dialects.weights import Array

MAX_DIMS = 64
"""Ranges up to this size count as vectors of dims."""


@irdl_op_definition
class ShapeOp(GraphOp):
    """The operand's dims from axis `start` up to `end` as i64; both may count from the end."""

    name = "graph.shape"
    operand: SSAValue = operand_def(TensorType)
    start: IntegerAttr[Any] = prop_def(IntegerAttr)
    end: IntegerAttr[Any] | None = opt_prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Shape", {"start": ("start", 0), "end": ("end", None)})

    @property
    def section(self) -> slice:
        """Which dims are meant."""
        return slice(self.start.value.data, None if self.end is None else self.end.value.data)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.has_rank, "an operand of known rank", source)
        return [tensor([len(source.shape[self.section])], I64)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.array(operands[0].shape[self.section], np.int64)]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return type_of(self.operand).shape[self.section]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return [b.dims(values=ShapeAttr(type_of(self.operand).shape[self.section]))]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        for position, dim in enumerate(type_of(self.operand).shape[self.section]):
            b.store(results[0], [position], b.index(dim, I64))


@irdl_op_definition
class SizeOp(GraphOp):
    """The number of the operand's elements as a scalar of i64."""

    name = "graph.size"
    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Size")

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.has_rank, "an operand of known rank", source)
        return [tensor([], I64)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.array(operands[0].size, np.int64)]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return [type_of(self.operand).size]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return [b.dims(values=[type_of(self.operand).size], scalar=UnitAttr())]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        b.store(results[0], [], b.index(type_of(self.operand).size, I64))


@irdl_op_definition
class RangeOp(GraphOp):
    """`start + i * delta` for `i` below the one dim that `size` lists; operands are scalars."""

    name = "graph.range"
    start: SSAValue = operand_def(TensorType)
    delta: SSAValue = operand_def(TensorType)
    size: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        dy = Term(b, cotangents[0])
        steps = counted(b, exprs(self.size)[0]).cast(dy.type.element)
        return [dy.sum([0]).value, (dy * steps).sum([0]).value]

    def infer(self) -> Sequence[TensorType]:
        start, delta = self.tensor_types()
        self.require(start == delta, "operands of one type", f"{start} and {delta}")
        self.require(start.has_rank and start.rank == 0, "scalar operands", start)
        self.require(start.element in NUMBERS, "numeric operands", start)
        self.require(len(exprs(self.size)) == 1, "one size", self.size)
        self.require(not below_zero(exprs(self.size)[0]), "a size of 0 or more", self.size)
        return [TensorType(self.size, start.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        (size,) = numbers(self, self.size)
        start, delta = (widen(operand) for operand in operands)
        steps = np.arange(size).astype(start.dtype)
        return [np.asarray(start + steps * delta).astype(operands[0].dtype)]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        start, delta = operands
        size = exprs(self.size)[0].constant
        if start is None or delta is None or size is None or size > MAX_DIMS:
            return None
        return [start[0] + delta[0] * position for position in range(size)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        zero, one = (b.constant_of(each, self.result_type.element) for each in (0, 1))
        steps = b.range(zero, one, size=self.size)
        start, delta = (
            aligned(b, new, 1) if is_batched(new, old) else new
            for new, old in zip(operands, self.operands, strict=True)
        )
        return [b.add(start, b.mul(steps, delta))]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        element = compute_type(self.result_type.element)
        with b.loops(self.result_type.shape) as (i,):
            start, delta = (b.load(operand, []) for operand in operands)
            b.store(results[0], [i], start + b.index(i, I64).cast(element) * delta)


@irdl_op_definition
class OneHotOp(GraphOp):
    """A new axis of `depth` elements: `values[1]` at the index in the operand, else `values[0]`.

    Indices below zero count from the end; those outside the axis are nowhere.
    """

    name = "graph.one_hot"
    indices: SSAValue = operand_def(TensorType)
    values: SSAValue = operand_def(TensorType)
    depth: ShapeAttr = prop_def(ShapeAttr)
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Each of the two values gets the cotangents of the places where it stands."""
        dy = Term(b, cotangents[0])
        bounds = b.constant_of([0, 1], dy.type.element)
        attributes = {"depth": self.depth, "axis": self.axis}
        hits = dy.of(b.one_hot(self.indices, bounds, **attributes))
        axes = range(len(dy.shape))
        on = (dy * hits).sum(axes).reshape([1])
        return [None, joined([dy.sum(axes).reshape([1]) - on, on], 0).value]

    @property
    def position(self) -> int:
        """The new axis counted from the front."""
        return from_front(self, self.axis.value.data, type_of(self.indices).rank + 1)

    def infer(self) -> Sequence[TensorType]:
        indices, values = self.tensor_types()
        self.require(indices.element in INTEGERS, "integer indices", indices)
        self.require(not values.has_rank or values.shape == (2,), "two values", values)
        self.require(len(exprs(self.depth)) == 1, "one depth", self.depth)
        if not indices.has_rank:
            return [tensor(None, values.element)]
        axis = self.position
        shape = (*indices.shape[:axis], *exprs(self.depth), *indices.shape[axis:])
        return [tensor(shape, values.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        indices, values = operands
        (depth,) = numbers(self, self.depth)
        wide = np.expand_dims(indices.astype(np.int64), self.position)
        counted: Array = np.where(wide < 0, wide + depth, wide)
        steps: Array = np.arange(depth).reshape(-1, *[1] * (indices.ndim - self.position))
        return [np.where(counted == steps, values[1:], values[:1])]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        if not only_first(self, operands):
            return None
        return again(self, operands, b, axis=self.position + 1)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        axis, (depth,) = self.position, exprs(self.depth)
        with b.loops(self.result_type.shape) as index:
            subscript = b.load(operands[0], [*index[:axis], *index[axis + 1 :]]).cast(I64)
            counted = (subscript < 0).select(subscript + b.index(depth, I64), subscript)
            hit = counted.compare("eq", b.index(index[axis], I64))
            on, off = self._load_values(b, operands[1])
            b.store(results[0], index, hit.select(on, off))

    @staticmethod
    def _load_values(b: LoopBuilder, values: SSAValue) -> tuple[Scalar, Scalar]:
        """What stands at the index, and elsewhere."""
        return b.load(values, [1]), b.load(values, [0])


OPS: tuple[type[GraphOp], ...] = (ShapeOp, SizeOp, RangeOp, OneHotOp)
