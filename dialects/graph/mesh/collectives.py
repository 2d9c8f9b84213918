"""Collectives: what the ranks of a group compute of each other's values. A group are the ranks that
differ along some axes of the mesh alone; each takes part with its own operand.

They are pure, but no functions of one rank's operands, so they are no `GraphOp`s: `group_reference`
has the operands of a whole group. In a program all ranks come to them in one order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import widen
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import InferTypeOp
from weft.dialects.graph.core.types import I64, NUMBERS, TensorType, tensor, type_of
from weft.dialects.graph.mesh.attributes import MeshAttr
from weft.dialects.weights import Array

REDUCTIONS: Mapping[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""What values of ranks are combined with, in the order of ranks."""


class CollectiveOp(InferTypeOp):
    """A pure operator on the values of a group of ranks."""

    mesh: MeshAttr = prop_def(MeshAttr)
    axes: ArrayAttr[StringAttr] = prop_def(ArrayAttr[StringAttr])
    result: SSAValue = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    @classmethod
    def of(
        cls,
        operand: SSAValue | None,
        mesh: MeshAttr,
        axes: Sequence[str],
        location: LocationAttr | None = None,
        **properties: Attribute | int | str | bool,
    ) -> Self:
        """The collective of the groups along these axes, its result type inferred."""
        given = {name: _attribute(each) for name, each in properties.items() if each is not False}
        given |= {"mesh": mesh, "axes": ArrayAttr(map(StringAttr, axes))}
        op = cls.create(
            operands=[] if operand is None else [operand],
            properties=dict(sorted(given.items())),
            location=location,
        )
        op.set_results()
        return op

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The axes of the mesh along which a group lies."""
        return tuple(each.data for each in self.axes)

    @property
    def parts(self) -> int:
        """How many ranks a group has."""
        return self.mesh.parts(self.axis_names)

    def require_axes(self) -> None:
        """Raises TypeInferenceError for axes that the mesh lacks or that are named twice."""
        names = self.axis_names
        known = set(names) <= set(self.mesh.sizes) and len(set(names)) == len(names)
        self.require(known, f"axes of the mesh ({self.mesh}), each once", ", ".join(names))

    @abstractmethod
    def group_reference(self, *operands: Array) -> Sequence[Array]:
        """The result of each rank of a group from the operand of each, by their index."""

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangent of the operand."""
        raise WeftError(f"{self.name} requires a derivative rule to be differentiated, got none")


def _attribute(value: Attribute | int | str | bool) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if value is True:
        return UnitAttr()
    return StringAttr(value) if isinstance(value, str) else IntegerAttr(value, i64)


@irdl_op_definition
class RankIndexOp(CollectiveOp):
    """The index of the rank in its group, an i64 of rank 0."""

    name = "graph.rank_index"
    assembly_format = "attr-dict `:` type($result)"

    def infer(self) -> Sequence[TensorType]:
        self.require_axes()
        return [tensor((), I64)]

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        return [np.asarray(index) for index in range(self.parts)]


class UnaryCollectiveOp(CollectiveOp):
    """A collective of one operand."""

    operand: SSAValue = operand_def(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def insert(
        self, b: GraphBuilder, op: type[UnaryCollectiveOp], operand: SSAValue, **properties: Any
    ) -> SSAValue:
        """Another collective of the same groups."""
        return b.builder.insert(
            op.of(operand, self.mesh, self.axis_names, self.location, **properties)
        ).result


class ReducingOp(UnaryCollectiveOp):
    """What combines the ranks' operands, in the order of ranks."""

    reduction: StringAttr = prop_def(StringAttr)

    def require_numbers(self) -> None:
        """Raises TypeInferenceError for what cannot be reduced."""
        self.require_axes()
        reduction, element = self.reduction.data, type_of(self.operand).element
        self.require(reduction in REDUCTIONS, f"one of {', '.join(REDUCTIONS)}", reduction)
        self.require(element in NUMBERS, "numbers", element)

    def total(self, operands: Sequence[Array]) -> Array:
        """The combination of all operands; of 16 bits in f32."""
        combine = REDUCTIONS[self.reduction.data]
        total = widen(operands[0])
        for each in operands[1:]:
            total = combine(total, widen(each))
        return np.asarray(total).astype(operands[0].dtype)

    def require_sum(self) -> None:
        """Raises WeftError where there is no derivative."""
        if self.reduction.data != "sum":
            raise WeftError(
                f"{self.name} requires a sum to be differentiated, got a {self.reduction.data}"
            )


@irdl_op_definition
class AllReduceOp(ReducingOp):
    """On each rank the combination of all operands of its group. Where it is `replicated` it counts
    as one value of the group, and so does its cotangent.
    """

    name = "graph.all_reduce"
    replicated: UnitAttr | None = opt_prop_def(UnitAttr)

    def infer(self) -> Sequence[TensorType]:
        self.require_numbers()
        return [type_of(self.operand)]

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        return [self.total(operands)] * self.parts

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangents of all ranks, each of which has read the operand; or the one of all."""
        self.require_sum()
        if self.replicated is not None:
            return cotangent
        return self.insert(b, AllReduceOp, cotangent, reduction="sum")


class AlongAxisCollectiveOp(UnaryCollectiveOp):
    """What cuts or joins along the attribute `axis`."""

    axis: IntegerAttr[Any] = prop_def(IntegerAttr)

    @property
    def position(self) -> int:
        """The axis, counted from the front."""
        return self.axis.value.data

    def with_dim(self, dim: Expr) -> Sequence[TensorType]:
        """The operand's type with another dim along the axis."""
        source = type_of(self.operand)
        shape = list(source.shape)
        shape[self.position] = dim
        return [tensor(shape, source.element)]

    def require_axis(self) -> None:
        """Raises TypeInferenceError for an axis that the operand lacks."""
        self.require_axes()
        rank = type_of(self.operand).rank
        self.require(0 <= self.position < rank, f"an axis from 0 to {rank - 1}", self.position)

    def joined(self) -> Sequence[TensorType]:
        """The type of the operands of a group, one behind the other."""
        self.require_axis()
        return self.with_dim(type_of(self.operand).shape[self.position] * self.parts)

    def cut(self) -> Sequence[TensorType]:
        """The type of one of the operand's parts."""
        self.require_axis()
        dim = type_of(self.operand).shape[self.position].constant
        divides = dim is not None and dim % self.parts == 0
        self.require(divides, f"a dim that is a multiple of {self.parts}", dim)
        return self.with_dim(Expr.of((dim or 0) // self.parts))


@irdl_op_definition
class AllGatherOp(AlongAxisCollectiveOp):
    """The operands of a group one behind the other along `axis`, on each rank. `replicated` as of
    `all_reduce`.
    """

    name = "graph.all_gather"
    replicated: UnitAttr | None = opt_prop_def(UnitAttr)

    def infer(self) -> Sequence[TensorType]:
        return self.joined()

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        return [np.concatenate(operands, self.position)] * self.parts

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The rank's part of the one cotangent, or of the sum of all."""
        if self.replicated is not None:
            return self.insert(b, ShardSliceOp, cotangent, axis=self.axis)
        return self.insert(b, ReduceScatterOp, cotangent, axis=self.axis, reduction="sum")


@irdl_op_definition
class ReduceScatterOp(ReducingOp, AlongAxisCollectiveOp):
    """The rank's part along `axis` of the combination of all operands of its group."""

    name = "graph.reduce_scatter"

    def infer(self) -> Sequence[TensorType]:
        self.require_numbers()
        return self.cut()

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        return np.split(self.total(operands), self.parts, self.position)

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        self.require_sum()
        return self.insert(b, AllGatherOp, cotangent, axis=self.axis)


@irdl_op_definition
class ShardSliceOp(AlongAxisCollectiveOp):
    """The rank's part of its operand along `axis`: nothing is sent."""

    name = "graph.shard_slice"

    def infer(self) -> Sequence[TensorType]:
        return self.cut()

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        parts = (np.split(each, self.parts, self.position) for each in operands)
        return [each[index] for index, each in enumerate(parts)]

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangent at its place among zeros."""
        placed = _among_zeros(self, cotangent, self.position, b)
        return b.reshape(placed, shape=type_of(self.operand).dims)


@irdl_op_definition
class ShardRowOp(UnaryCollectiveOp):
    """The rank's row of its operand, which has one for each rank of the group. Of a constant it is
    read where it is stored.
    """

    name = "graph.shard_row"

    def infer(self) -> Sequence[TensorType]:
        self.require_axes()
        rows, *shape = type_of(self.operand).shape or (None,)
        self.require(rows == self.parts, f"{self.parts} rows", rows)
        return [tensor(shape, type_of(self.operand).element)]

    def group_reference(self, *operands: Array) -> Sequence[Array]:
        return [each[index] for index, each in enumerate(operands)]

    def vjp(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangent as the rank's row, the others zeros."""
        return _among_zeros(self, cotangent, 0, b)


def _among_zeros(op: UnaryCollectiveOp, value: SSAValue, axis: int, b: GraphBuilder) -> SSAValue:
    """A tensor with another axis, along which the rank's index has the value."""
    shape = list(type_of(value).shape)
    blocks = [*shape[:axis], Expr.of(1), *shape[axis:]]
    ones = [Expr.of(1)] * len(blocks)
    ones[axis] = Expr.of(op.parts)
    index = b.builder.insert(RankIndexOp.of(None, op.mesh, op.axis_names)).result
    numbers = b.reshape(b.constant_of(list(range(op.parts)), I64), shape=ones)
    block = b.reshape(value, shape=blocks)
    return b.where(b.equal(numbers, index), block, b.constant_of(0, type_of(block).element))


OPS: tuple[type[CollectiveOp], ...] = (
    RankIndexOp, AllReduceOp, AllGatherOp, ReduceScatterOp, ShardSliceOp, ShardRowOp,
)  # fmt: skip
