"""Operators that write elements at places that other tensors name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.errors import WeftError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.batching import again, all_spread, numbered
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import BOOL, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.constant import ConstantOp
from weft.dialects.graph.reindexing.gather import (
    ElementsOp,
    IndexedOp,
    element_indices,
    equal_factors,
    require_fitting,
    subscript,
    vector_indices,
    vector_length,
    vector_subscripts,
)
from weft.dialects.graph.reindexing.movement import ExpandOp, ReshapeOp, TransposeOp
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Scalar
from weft.dialects.weights import Array

_COMBINE: dict[str, tuple[Callable[[Scalar, Scalar], Scalar], Any]] = {
    "none": (lambda old, new: new, None),
    "add": (lambda old, new: old + new, np.add),
    "mul": (lambda old, new: old * new, np.multiply),
    "max": (lambda old, new: old.maximum(new), np.maximum),
    "min": (lambda old, new: old.minimum(new), np.minimum),
}
"""Each reduction on scalars and in NumPy."""


def is_zeros(value: SSAValue) -> bool:
    """Whether a tensor is certainly 0 everywhere."""
    while isinstance(value.owner, ExpandOp | ReshapeOp | TransposeOp):
        value = value.owner.operand
    literal = value.owner.literal if isinstance(value.owner, ConstantOp) else None
    return literal is not None and not any(literal.data)


class ScatterOp(IndexedOp):
    """A copy of the operand in which some elements are replaced by updates or combined with them.

    Updates are applied in order; with `none` the last one to a place stays.
    """

    operand: SSAValue = operand_def(TensorType)  # again, for the order
    indices: SSAValue = operand_def(TensorType)
    updates: SSAValue = operand_def(TensorType)
    reduction: StringAttr = prop_def(StringAttr)
    result: SSAValue = result_def(TensorType)

    def require_updates(self) -> None:
        """Updates are of the operand's element type, which the reduction is defined on."""
        self.require_indices()
        tensor_type, updates = type_of(self.operand), type_of(self.updates)
        given = self.reduction.data
        self.require(given in _COMBINE, f"a reduction out of {', '.join(_COMBINE)}", given)
        self.require(
            updates.element == tensor_type.element, f"updates of {tensor_type.element}", updates
        )
        self.require(
            given == "none" or tensor_type.element != BOOL, "numbers to combine", tensor_type
        )

    def scattered(self, x: Array, positions: tuple[Array, ...], updates: Array) -> Array:
        """The result in NumPy."""
        result = x.copy()
        function = _COMBINE[self.reduction.data][1]
        if function is None:
            result[positions] = updates
        else:
            function.at(result, positions, updates)
        return result

    def copy(self, b: LoopBuilder, operand: SSAValue, result: SSAValue) -> None:
        """Writes the operand into the result."""
        with b.loops(self.result_type.shape) as index:
            b.store(result, index, b.load(operand, index))

    def combine(self, b: LoopBuilder, result: SSAValue, index: Sequence[Expr], new: Scalar) -> None:
        """Applies one update."""
        function = _COMBINE[self.reduction.data][0]
        b.store(result, index, function(b.load(result, index), new))

    def require_linear(self) -> None:
        """Refuses to differentiate the reductions whose derivative is not written."""
        given = self.reduction.data
        if given not in ("none", "add"):
            raise WeftError(
                f"{self.name} requires reduction none or add to be differentiated, got {given}"
            )


@irdl_op_definition
class ScatterElementsOp(ScatterOp, ElementsOp):
    """`y[i, indices[i, j, k], k] = updates[i, j, k]` for `axis` 1: an index for each update."""

    name = "graph.scatter_elements"
    ONNX: ClassVar = OnnxName(
        "ScatterElements", {"axis": ("axis", 0), "reduction": ("reduction", "none")}
    )

    def infer(self) -> Sequence[TensorType]:
        self.require_updates()
        source, indices, updates = self.tensor_types()
        if self.have_ranks:
            require_fitting(self, source.shape, indices, self.position)
            self.require(updates.dims == indices.dims, "as many updates as indices", updates)
        return [source]

    def sharding_rule(self) -> ShardingRule | None:
        factors = equal_factors(self, self.position)
        return ShardingRule((factors,) * 3, (factors,))

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, updates = operands
        return [self.scattered(x, element_indices(indices, x.shape, self.position), updates)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """With duplicate indices and no reduction, every update gets the cotangent of its place."""
        self.require_linear()
        kept = cotangents[0]
        if self.reduction.data == "none":
            zeros = b.filled(0, self.updates)
            attributes = {"axis": self.axis, "reduction": "none"}
            kept = b.scatter_elements(kept, self.indices, zeros, **attributes)
        return [kept, None, b.gather_elements(cotangents[0], self.indices, axis=self.axis)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        self.copy(b, operands[0], results[0])
        dim = type_of(self.operand).shape[self.position]
        with b.loops(type_of(self.updates).shape) as index:
            position = list(index)
            position[self.position] = subscript(b, b.load(operands[1], index), dim)
            self.combine(b, results[0], position, b.load(operands[2], index))


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """`y[indices[i..., :]..., j...] = updates[i..., j...]`: an index vector for each slice."""

    name = "graph.scatter_nd"
    HAS_VECTORS: ClassVar = True
    ONNX: ClassVar = OnnxName("ScatterND", {"reduction": ("reduction", "none")})

    def indexed_axes(self) -> range:
        return range(vector_length(self))

    def infer(self) -> Sequence[TensorType]:
        self.require_updates()
        source, indices, updates = self.tensor_types()
        if self.have_ranks:
            length = vector_length(self)
            self.require(length <= source.rank, f"index vectors up to {source.rank}", length)
            wanted = tensor((*indices.shape[:-1], *source.shape[length:]), source.element)
            self.require(updates == wanted, f"updates {wanted}", updates)
            empty = any(dim == 0 for dim in source.shape[:length])
            nothing = any(size == 0 for size in updates.shape)
            self.require(not empty or nothing, "axes with elements", source)
        return [source]

    def sharding_rule(self) -> ShardingRule | None:
        """Slices that are added to zeros may be so on any rank."""
        source, length = type_of(self.operand), vector_length(self)
        rest = tuple(f"d{axis}" for axis in range(length, source.rank))
        adds = self.reduction.data == "add" and is_zeros(self.operand)
        lead = range(type_of(self.indices).rank - 1)
        own = tuple(f"i{axis}" if adds else None for axis in lead)
        whole = (*[None] * length, *rest)
        reduced = {each: "sum" for each in own if each is not None}
        return ShardingRule((whole, (*own, None), (*own, *rest)), (whole,), reduced)

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, updates = operands
        return [self.scattered(x, vector_indices(indices, x.shape), updates)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """With duplicate indices and no reduction, every update gets the cotangent of its place."""
        self.require_linear()
        kept = cotangents[0]
        if self.reduction.data == "none":
            kept = b.scatter_nd(kept, self.indices, b.filled(0, self.updates), reduction="none")
        return [kept, None, b.gather_nd(cotangents[0], self.indices, batch_dims=0)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        x, indices, updates = all_spread(self, operands, size, b)
        return again(self, [x, numbered(b, indices), updates], b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        self.copy(b, operands[0], results[0])
        source, indices, updates = self.tensor_types()
        lead, length = indices.rank - 1, vector_length(self)
        with b.loops(updates.shape) as index:
            positions = vector_subscripts(b, operands[1], index[:lead], source.shape, length)
            position = [*positions, *index[lead:]]
            self.combine(b, results[0], position, b.load(operands[2], index))


OPS: tuple[type[GraphOp], ...] = (ScatterElementsOp, ScatterNdOp)
