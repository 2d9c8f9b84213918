"""Operators that move elements without computing on them: reshape, transpose, expand, ..."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr, row_major_strides
from weft.dialects.graph.core.batching import again, aligned
from weft.dialects.graph.core.broadcast import (
    agreed_shape,
    broadcast_assumptions,
    broadcast_index,
    broadcast_shapes,
    differing,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import PassThroughOp, sum_to
from weft.dialects.graph.core.op import GraphOp, OnnxName, ints
from weft.dialects.graph.core.reshape_groups import reshape_groups
from weft.dialects.graph.core.sharding_rule import (
    ShardingRule,
    broadcast_factors,
    reshape_factors,
    whole_but,
)
from weft.dialects.graph.core.types import Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


class IndexMapOp(GraphOp):
    """The result at an index is the operand at another index that is an expression of it."""

    operand: SSAValue = operand_def(TensorType)
    result: SSAValue = result_def(TensorType)

    @abstractmethod
    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        """Where in the operand the result's element at `index` comes from."""

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        with b.loops(self.result_type.shape) as index:
            b.store(results[0], index, b.load(operands[0], self.source_index(index)))


@irdl_op_definition
class IdentityOp(PassThroughOp):
    """The operand itself; passes remove it."""

    name = "graph.identity"
    ONNX: ClassVar = OnnxName("Identity")

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return operands[0]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [cotangents[0]]


class RowMajorOp(IndexMapOp):
    """The same elements in row-major order under the dims of the attribute `shape`."""

    shape: ShapeAttr = prop_def(ShapeAttr)

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0].reshape(self.static_result())]

    def sharding_rule(self) -> ShardingRule | None:
        """Dims that are joined or split are cut along the first of them."""
        source, result = reshape_factors(type_of(self.operand).shape, self.result_type.shape)
        return ShardingRule((source,), (result,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "shape": results[0].dims}

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        source, result = type_of(self.operand).shape, self.result_type.shape
        found: list[Expr] = []
        for before, after in reshape_groups(source, result):
            positions, dims = index[after.start : after.stop], result[after.start : after.stop]
            strides = row_major_strides(dims)
            terms = (position * stride for position, stride in zip(positions, strides, strict=True))
            found += unflatten(sum(terms, Expr.of(0)), source[before.start : before.stop])
        return found

    def keeps_dims(self) -> bool:
        """Whether dims of 1 alone come or go."""
        shapes = type_of(self.operand).shape, self.result_type.shape
        source, result = ([dim for dim in shape if dim != 1] for shape in shapes)
        return source == result

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b, shape=ShapeAttr((size, *self.result_type.shape)))


@irdl_op_definition
class ReshapeOp(RowMajorOp):
    """A reshape to dims of the operand's size."""

    name = "graph.reshape"

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        result = TensorType(self.shape, source.element)
        if source.has_rank:
            self.require(
                source.size == result.size, "a shape of the operand's size", f"{source} to {result}"
            )
        return [result]

    def fold(self) -> Sequence[SSAValue] | GraphOp | None:
        """A reshape to the same shape is gone; one of a reshape skips it."""
        if type_of(self.operand).dims == self.shape:
            return [self.operand]
        owner = self.operand.owner
        if isinstance(owner, ReshapeOp):
            return ReshapeOp.of(owner.operand, shape=self.shape, location=self.location)
        return None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return operands[0]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.reshape(cotangents[0], shape=type_of(self.operand).dims)]


@irdl_op_definition
class DynamicReshapeOp(RowMajorOp):
    """A reshape to data-dependent dims; the program fails where these do not have the operand's
    size.
    """

    name = "graph.dynamic_reshape"

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.has_rank, "an operand of known rank", source)
        return [TensorType(self.shape, source.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        sizes = type_of(self.operand).size, self.result_type.size
        return [] if sizes[0] == sizes[1] else [sizes]

    def fold(self) -> GraphOp | None:
        """A reshape where the sizes are known to be equal."""
        if self.assumptions():
            return None
        return ReshapeOp.of(self.operand, shape=self.shape, location=self.location)


@irdl_op_definition
class AssumeOp(IndexMapOp):
    """The operand, whose dims are taken to be those of `shape`; the program fails where they are
    not.
    """

    name = "graph.assume"
    shape: ShapeAttr = prop_def(ShapeAttr)

    def infer(self) -> Sequence[TensorType]:
        source, result = (
            type_of(self.operand),
            TensorType(self.shape, type_of(self.operand).element),
        )
        self.require(source.has_rank and result.has_rank, "shapes of known rank", source)
        self.require(source.rank == result.rank, "as many dims as its operand has", result)
        agreed = agreed_shape([source.shape, result.shape])
        self.require(agreed is not None, "dims that can be its operand's", f"{source} to {result}")
        return [result]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return differing(type_of(self.operand).shape, self.result_type.shape)

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        return index

    def sharding_rule(self) -> ShardingRule | None:
        factors = whole_but(self.result_type.rank, ())
        return ShardingRule((factors,), (factors,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "shape": results[0].dims}

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [operands[0]]

    def fold(self) -> Sequence[SSAValue] | None:
        """The operand where it has these dims."""
        return None if self.assumptions() else [self.operand]

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        return operands[0]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.assume(cotangents[0], shape=type_of(self.operand).dims)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b, shape=ShapeAttr((size, *self.result_type.shape)))


def assumed_dims(b: GraphBuilder, value: SSAValue, dims: ShapeAttr) -> SSAValue:
    """The value with dims that it is assumed to have; the value itself where it has them."""
    return value if type_of(value).dims == dims else b.assume(value, shape=dims)


def unflatten(flat: Expr, shape: Shape) -> list[Expr]:
    """The index of the element that is `flat` elements after the first, in row-major order."""
    strides = row_major_strides(shape)
    index = [flat // stride for stride in strides]
    return [
        position if axis == 0 else position % shape[axis] for axis, position in enumerate(index)
    ]


@irdl_op_definition
class TransposeOp(IndexMapOp):
    """Axes in another order: result axis `i` is operand axis `permutation[i]`."""

    name = "graph.transpose"
    permutation: DenseArrayBase = prop_def(DenseArrayBase)

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand axis of each result axis."""
        return ints(self.permutation)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        if not source.has_rank:
            return [source]
        order = sorted(self.axes)
        self.require(
            order == list(range(source.rank)),
            f"a permutation of {source.rank} axes",
            list(self.axes),
        )
        return [tensor([source.shape[axis] for axis in self.axes], source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.transpose(operands[0], self.axes)]

    def sharding_rule(self) -> ShardingRule | None:
        source = whole_but(len(self.axes), ())
        return ShardingRule((source,), (tuple(source[axis] for axis in self.axes),))

    def fold(self) -> Sequence[SSAValue] | GraphOp | None:
        """One that keeps the order is gone; one that moves dims of 1 is a reshape; two are one."""
        if list(self.axes) == sorted(self.axes):
            return [self.operand]
        owner = self.operand.owner
        if isinstance(owner, TransposeOp):
            axes = [owner.axes[axis] for axis in self.axes]
            return TransposeOp.of(owner.operand, permutation=axes, location=self.location)
        source = type_of(self.operand)
        moved = [axis for axis in self.axes if source.has_rank and source.shape[axis] != 1]
        if source.has_rank and moved == sorted(moved):
            return ReshapeOp.of(self.operand, shape=self.result_type.dims, location=self.location)
        return None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        inverse = [self.axes.index(axis) for axis in range(len(self.axes))]
        return [b.transpose(cotangents[0], permutation=inverse)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        return [index[self.axes.index(axis)] for axis in range(len(self.axes))]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b, permutation=[0, *(axis + 1 for axis in self.axes)])


@irdl_op_definition
class ExpandOp(IndexMapOp):
    """The operand broadcast to (at least) the dims of the attribute `shape`, as in ONNX."""

    name = "graph.expand"
    shape: ShapeAttr = prop_def(ShapeAttr)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        if not source.has_rank or self.shape.data is None:
            return [tensor(None, source.element)]
        return [
            tensor(broadcast_shapes(self.name, [source.shape, self.shape.data]), source.element)
        ]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.broadcast_to(operands[0], self.static_result())]

    def sharding_rule(self) -> ShardingRule | None:
        result = self.result_type.shape
        operands, factors = broadcast_factors([type_of(self.operand).shape], result)
        return ShardingRule(operands, (factors,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "shape": results[0].dims}

    def fold(self) -> Sequence[SSAValue] | None:
        return [self.operand] if self.result_type == type_of(self.operand) else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        size = self.result_type.size.constant
        if operands[0] is None or size is None or len(operands[0]) not in (1, size):
            return None
        return list(operands[0]) if len(operands[0]) == size else list(operands[0]) * size

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [sum_to(b, cotangents[0], self.operand)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        result = self.result_type.shape
        given = broadcast_assumptions(self.shape.data or (), result)
        return [*broadcast_assumptions(type_of(self.operand).shape, result), *given]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        return broadcast_index(index, type_of(self.operand).shape)

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        shape = self.result_type.shape
        given = [aligned(b, operands[0], len(shape))]
        return again(self, given, b, shape=ShapeAttr((size, *shape)))


OPS = (IdentityOp, ReshapeOp, DynamicReshapeOp, AssumeOp, TransposeOp, ExpandOp)
