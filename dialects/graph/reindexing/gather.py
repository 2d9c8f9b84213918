"""Operators that read elements at places that other tensors name.

Indices below zero count from the end. An index outside the axis is moved to the nearest element, so
that nothing is read or written out of bounds; `weft-check-indices` makes it an error of the call.
One that is known while compiling is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr, minimum, product
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.axis import from_front
from weft.dialects.graph.core.batching import (
    again,
    all_spread,
    is_batched,
    numbered,
    only_first,
    to_front,
)
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.sharding_rule import Factors, ShardingRule, whole_but
from weft.dialects.graph.core.types import I32, I64, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.slicing import below_zero
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array


def bounded(index: Array, dim: int) -> Array:
    """Indices counted from the front and moved into the axis."""
    return np.clip(np.where(index < 0, index + dim, index), 0, max(dim - 1, 0))


def subscript(b: LoopBuilder, index: Scalar, dim: Expr) -> Expr:
    """An index counted from the front and moved into the axis, as a subscript."""
    wide, size = index.cast(I64), b.index(dim, I64)
    counted = (wide < 0).select(wide + size, wide)
    return b.subscript(counted.minimum(size - 1).maximum(0))


class IndexRange(Struct, frozen=True):
    """An axis that indices count along, and its size; of index vectors one component does."""

    axis: int
    size: Expr
    component: int | None = None

    def of(self, indices: Array) -> Array:
        """The indices that count along the axis."""
        return indices if self.component is None else indices[..., self.component]

    @property
    def bounds(self) -> tuple[Expr, Expr]:
        """The least index and the greatest."""
        return -self.size, self.size - 1

    @property
    def rule(self) -> str:
        """What an index has to be, with places for the bounds and the size."""
        return f"an index from {{}} to {{}} along axis {self.axis} of {{}} elements"


class IndexedOp(GraphOp):
    """What is read or written at places given by a tensor of i32 or i64."""

    HAS_VECTORS: ClassVar[bool] = False
    """Whether the last axis of the indices is that of vectors, of an index for each axis."""
    MOVES_INDICES: ClassVar[bool] = False
    """Whether an index outside of the axis is meant to be moved into it, which is no mistake."""
    operand: SSAValue = operand_def(TensorType)
    indices: SSAValue = operand_def(TensorType)

    def require_indices(self) -> None:
        """Indices are integers."""
        tensor_type = type_of(self.indices)
        self.require(tensor_type.element in (I32, I64), "indices of i32 or i64", tensor_type)

    @property
    def have_ranks(self) -> bool:
        """Whether the rank of every operand is known."""
        return all(each.has_rank for each in self.tensor_types())

    @abstractmethod
    def indexed_axes(self) -> range:
        """The operand's axes along which the indices count."""

    def index_ranges(self) -> list[IndexRange]:
        """The axes that the indices count along."""
        shape = type_of(self.operand).shape
        return [
            IndexRange(axis, shape[axis], number if self.HAS_VECTORS else None)
            for number, axis in enumerate(self.indexed_axes())
        ]

    def require_inside(self, indices: Array) -> None:
        """Raises TypeInferenceError for indices, known while compiling, of which one is outside of
        an axis of known size, unless those are meant to be moved.
        """
        for each in [] if self.MOVES_INDICES or not self.have_ranks else self.index_ranges():
            size = each.size.constant
            if size is not None:
                counted = each.of(indices)
                outside = counted[(counted < -size) | (counted >= size)]
                rule = each.rule.format(-size, size - 1, size)
                self.require(not outside.size, rule, outside[:1].item() if outside.size else "")

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """An axis whose size varies has elements, where there are indices to point to them."""
        shape = type_of(self.operand).shape
        least = minimum([product(type_of(self.indices).shape), 1])
        return [pair for axis in self.indexed_axes() for pair in at_least(shape[axis], least)]

    def zeros(self, b: GraphBuilder) -> SSAValue:
        """Zeros of the operand's type."""
        return b.filled(0, self.operand)


class AlongAxisIndexedOp(IndexedOp):
    """What is read or written at indices that count along the attribute `axis`."""

    axis: IntegerAttr[Any] = prop_def(IntegerAttr)

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return from_front(self, self.axis.value.data, type_of(self.operand).rank)

    def indexed_axes(self) -> range:
        return range(self.position, self.position + 1)


@irdl_op_definition
class GatherOp(AlongAxisIndexedOp):
    """`y[..., i..., ...] = x[..., indices[i...], ...]`: whole slices along `axis`."""

    name = "graph.gather"
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Gather", {"axis": ("axis", 0)})

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices = self.tensor_types()
        if not self.have_ranks:
            return [tensor(None, source.element)]
        axis = self.position
        self.require_elements(source.shape[axis])
        shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
        return [tensor(shape, source.element)]

    def require_elements(self, dim: Expr) -> None:
        """An axis to gather from has elements, unless nothing is gathered."""
        nothing = any(size == 0 for size in type_of(self.indices).shape)
        self.require(dim != 0 or nothing, "an axis with elements", f"{dim} along it")

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices = operands
        return [np.take(x, bounded(indices, x.shape[self.position]), self.position)]

    def sharding_rule(self) -> ShardingRule | None:
        source = whole_but(type_of(self.operand).rank, (self.position,))
        indices = tuple(f"i{axis}" for axis in range(type_of(self.indices).rank))
        result = (*source[: self.position], *indices, *source[self.position + 1 :])
        return ShardingRule((source, indices), (result,))

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        items, indices = operands
        if items is None or indices is None or type_of(self.operand).rank != 1:
            return None
        positions = [expr.constant for expr in indices]
        found = [items[i] for i in positions if i is not None and -len(items) <= i < len(items)]
        return found if len(found) == len(indices) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Adds the slices up where they came from; the axis is brought to the front for that."""
        source, indices = self.tensor_types()
        axis, count = self.position, indices.rank
        others = [position for position in range(source.rank) if position != axis]
        rest = [*range(axis), *range(axis + count, axis + count - 1 + source.rank - axis)]
        order = [axis, *others]
        zeros = b.transpose(self.zeros(b), permutation=order)
        updates = b.transpose(cotangents[0], permutation=[*range(axis, axis + count), *rest])
        positions = b.reshape(self.indices, shape=ShapeAttr((*indices.shape, Expr.of(1))))
        total = b.scatter_nd(zeros, positions, updates, reduction="add")
        return [b.transpose(total, permutation=list(np.argsort(order).tolist())), None]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        axis, count = self.position, type_of(self.indices).rank
        if only_first(self, operands):
            return again(self, operands, b, axis=axis + 1)
        if not is_batched(operands[0], self.operand):
            (found,) = again(self, operands, b)
            return [to_front(b, found, axis)]
        source = to_front(b, to_front(b, operands[0], axis + 1), 1)  # the sample, then the axis
        vectors = b.reshape(operands[1], shape=ShapeAttr((*type_of(operands[1]).shape, Expr.of(1))))
        found = b.gather_nd(source, numbered(b, vectors), batch_dims=0)
        order = [*range(count + 1, count + 1 + axis), *range(1, count + 1)]
        rest = range(count + 1 + axis, type_of(found).rank)
        return [b.transpose(found, permutation=[0, *order, *rest])]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        source, indices = self.tensor_types()
        axis, end = self.position, self.position + indices.rank
        with b.loops(self.result_type.shape) as index:
            position = subscript(b, b.load(operands[1], index[axis:end]), source.shape[axis])
            b.store(results[0], index, b.load(operands[0], [*index[:axis], position, *index[end:]]))


class ElementsOp(AlongAxisIndexedOp):
    """What has an index for each element: off the axis there are no more than the operand has."""

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return [*super().assumptions(), *fitting_sizes(self, self.position)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        given = all_spread(self, operands, size, b)
        return again(self, given, b, axis=self.position + 1)


@irdl_op_definition
class GatherElementsOp(ElementsOp):
    """`y[i, j, k] = x[i, indices[i, j, k], k]` for `axis` 1: an index for each element."""

    name = "graph.gather_elements"
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("GatherElements", {"axis": ("axis", 0)})

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices = self.tensor_types()
        if self.have_ranks:
            require_fitting(self, source.shape, indices, self.position)
        return [TensorType(indices.dims, source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        factors = equal_factors(self, self.position)
        return ShardingRule((factors, factors), (factors,))

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices = operands
        return [x[element_indices(indices, x.shape, self.position)]]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        attributes = {"axis": self.axis, "reduction": "add"}
        return [b.scatter_elements(self.zeros(b), self.indices, cotangents[0], **attributes), None]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        dim = type_of(self.operand).shape[self.position]
        with b.loops(self.result_type.shape) as index:
            position = list(index)
            position[self.position] = subscript(b, b.load(operands[1], index), dim)
            b.store(results[0], index, b.load(operands[0], position))


def equal_factors(op: IndexedOp, axis: int) -> Factors:
    """A factor for each dim off the axis that operand and indices share."""
    pairs = enumerate(zip(type_of(op.operand).shape, type_of(op.indices).shape, strict=True))
    differing = [at for at, (dim, size) in pairs if dim != size]
    return whole_but(type_of(op.operand).rank, [axis, *differing])


def fitting_sizes(op: IndexedOp, axis: int) -> list[tuple[Expr, Expr]]:
    """Off the axis, indices are no larger than the operand where these pairs are equal."""
    pairs = enumerate(zip(type_of(op.operand).shape, type_of(op.indices).shape, strict=True))
    return [pair for at, (dim, size) in pairs if at != axis for pair in at_least(dim, size)]


def require_fitting(op: GraphOp, dims: Shape, indices: TensorType, axis: int) -> None:
    """Indices have the operand's rank and no more elements than it along the other axes."""
    op.require(indices.rank == len(dims), f"indices of rank {len(dims)}", indices)
    pairs = list(enumerate(zip(dims, indices.shape, strict=True)))
    fits = not any(below_zero(dim - size) for at, (dim, size) in pairs if at != axis)
    op.require(fits, "indices no larger than the operand off the axis", indices)
    nothing = any(size == 0 for size in indices.shape)
    op.require(dims[axis] != 0 or nothing, "an axis with elements", f"{dims[axis]} along it")


def element_indices(indices: Array, shape: Sequence[int], axis: int) -> tuple[Array, ...]:
    """The index arrays of the places that `gather_elements` and `scatter_elements` mean."""
    grid: Array = np.indices(indices.shape)
    positions = [grid[position] for position in range(indices.ndim)]
    positions[axis] = bounded(indices, shape[axis])
    return tuple(positions)


def vector_indices(indices: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """The index arrays that the vectors along the last axis are."""
    return tuple(bounded(indices[..., axis], shape[axis]) for axis in range(indices.shape[-1]))


def vector_length(op: IndexedOp) -> int:
    """How many subscripts a vector along the last axis of the indices holds."""
    indices = type_of(op.indices)
    op.require(indices.rank > 0, "indices of rank 1 or more", indices)
    length = indices.shape[-1].constant
    op.require(length is not None, "index vectors of static length", indices)
    assert length is not None
    return length


@irdl_op_definition
class GatherNdOp(IndexedOp):
    """`y[b..., i..., j...] = x[b..., indices[b..., i..., :]..., j...]`: an index vector a slice."""

    name = "graph.gather_nd"
    HAS_VECTORS: ClassVar = True
    batch_dims: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("GatherND", {"batch_dims": ("batch_dims", 0)})

    @property
    def batch(self) -> int:
        """How many leading axes both operands share."""
        return self.batch_dims.value.data

    def indexed_axes(self) -> range:
        return range(self.batch, self.batch + vector_length(self))

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices = self.tensor_types()
        if not self.have_ranks:
            return [tensor(None, source.element)]
        length, batch = vector_length(self), self.batch
        fits = 0 <= batch < indices.rank and batch + length <= source.rank
        self.require(
            fits, f"at least {batch + length} axes and indices of more than {batch}", source
        )
        same = source.shape[:batch] == indices.shape[:batch]
        self.require(same, "operands that share their batch dims", f"{source} and {indices}")
        empty = any(dim == 0 for dim in source.shape[batch : batch + length])
        nothing = any(size == 0 for size in indices.shape)
        self.require(not empty or nothing, "axes with elements", source)
        return [tensor((*indices.shape[:-1], *source.shape[batch + length :]), source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        source, indices = self.tensor_types()
        behind, lead = self.indexed_axes().stop, indices.rank - 1
        own = tuple(f"i{axis}" for axis in range(lead))
        rest = tuple(f"d{axis}" for axis in range(behind, source.rank))
        operand = (*own[: self.batch], *[None] * len(self.indexed_axes()), *rest)
        return ShardingRule((operand, (*own, None)), ((*own, *rest),))

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices = operands
        positions = vector_indices(indices, x.shape[self.batch :])
        lead = np.indices(indices.shape[:-1], sparse=True)[: self.batch]
        return [x[(*lead, *positions)]]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        if self.batch:
            raise WeftError(
                f"{self.name} requires batch_dims 0 to be differentiated, got {self.batch}"
            )
        zeros = self.zeros(b)
        return [b.scatter_nd(zeros, self.indices, cotangents[0], reduction="add"), None]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        if not is_batched(operands[0], self.operand) and not self.batch:
            return again(self, operands, b)
        x, indices = all_spread(self, operands, size, b)
        if self.batch:
            return again(self, [x, indices], b, batch_dims=self.batch + 1)
        return again(self, [x, numbered(b, indices)], b)  # which has a derivative

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        source, indices = self.tensor_types()
        lead = indices.rank - 1
        with b.loops(self.result_type.shape) as index:
            positions = vector_subscripts(
                b, operands[1], index[:lead], source.shape[self.batch :], vector_length(self)
            )
            position = [*index[: self.batch], *positions, *index[lead:]]
            b.store(results[0], index, b.load(operands[0], position))


def vector_subscripts(
    b: LoopBuilder, indices: SSAValue, lead: Sequence[Expr], dims: Shape, length: int
) -> list[Expr]:
    """The subscripts that one vector of the indices holds."""
    return [subscript(b, b.load(indices, [*lead, axis]), dims[axis]) for axis in range(length)]


OPS: tuple[type[GraphOp], ...] = (GatherOp, GatherElementsOp, GatherNdOp)
