"""Operators that read or write elements at places that other tensors name.

Indices below zero count from the end. An index outside the axis is moved to the nearest element, so
that nothing is read or written out of bounds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from dialects.errors import WeftError
from dialects.expr import Expr, maximum, minimum, product
from dialects.graph.builder import GraphBuilder
from dialects.graph.op import GraphOp, OnnxName
from dialects.graph.slicing import below_zero
from dialects.graph.types import BOOL, I32, I64, Shape, ShapeAttr, TensorType, tensor, type_of
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import Scalar
from dialects.weights import Array


def bounded(index: Array, dim: int) -> Array:
    """Indices counted from the front and moved into the axis."""
    return np.clip(np.where(index < 0, index + dim, index), 0, max(dim - 1, 0))


def subscript(b: LoopBuilder, index: Scalar, dim: Expr) -> Expr:
    """An index counted from the front and moved into the axis, as a subscript."""
    wide, size = index.cast(I64), b.index(dim, I64)
    counted = (wide < 0).select(wide + size, wide)
    return b.subscript(counted.minimum(size - 1).maximum(0))


class IndexedOp(GraphOp):
    """What is read or written at places given by a tensor of i32 or i64."""

    operand: SSAValue = operand_def(TensorType)
    indices: SSAValue = operand_def(TensorType)

    def require_indices(self) -> None:
        """Indices are integers."""
        kind = type_of(self.indices)
        self.require(kind.element in (I32, I64), "indices of i32 or i64", kind)

    @property
    def have_ranks(self) -> bool:
        """Whether the rank of every operand is known."""
        return all(kind.has_rank for kind in self.tensor_types())

    def axis_of(self, axis: int) -> int:
        """The axis of the operand counted from the front."""
        rank = type_of(self.operand).rank
        self.require(-rank <= axis < rank, f"an axis from {-rank} to {rank - 1}", axis)
        return axis % rank

    @abstractmethod
    def indexed_axes(self) -> range:
        """The operand's axes along which the indices count."""

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """An axis whose size varies has elements, where there are indices to point to them."""
        shape = type_of(self.operand).shape
        least = minimum([product(type_of(self.indices).shape), 1])
        return [
            (shape[axis], maximum([shape[axis], least]))
            for axis in self.indexed_axes()
            if shape[axis].constant is None and shape[axis] != maximum([shape[axis], least])
        ]

    def zeros(self, b: GraphBuilder) -> SSAValue:
        """Zeros of the operand's type."""
        return b.filled(0, self.operand)


@irdl_op_definition
class GatherOp(IndexedOp):
    """`y[..., i..., ...] = x[..., indices[i...], ...]`: whole slices along `axis`."""

    name = "graph.gather"
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Gather", {"axis": ("axis", 0)})
    HAS_VJP: ClassVar = True

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return self.axis_of(self.axis.value.data)

    def indexed_axes(self) -> range:
        return range(self.position, self.position + 1)

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

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        known, indices = operands
        if known is None or indices is None or type_of(self.operand).rank != 1:
            return None
        places = [expr.constant for expr in indices]
        found = [known[i] for i in places if i is not None and -len(known) <= i < len(known)]
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
        places = b.reshape(self.indices, shape=ShapeAttr((*indices.shape, Expr.of(1))))
        total = b.scatter_nd(zeros, places, updates, reduction="add")
        return [b.transpose(total, permutation=list(np.argsort(order).tolist())), None]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        source, indices = self.tensor_types()
        axis, end = self.position, self.position + indices.rank
        with b.loops(self.result_type.shape) as index:
            place = subscript(b, b.load(operands[1], index[axis:end]), source.shape[axis])
            b.store(results[0], index, b.load(operands[0], [*index[:axis], place, *index[end:]]))


@irdl_op_definition
class GatherElementsOp(IndexedOp):
    """`y[i, j, k] = x[i, indices[i, j, k], k]` for `axis` 1: an index for each element."""

    name = "graph.gather_elements"
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("GatherElements", {"axis": ("axis", 0)})
    HAS_VJP: ClassVar = True

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return self.axis_of(self.axis.value.data)

    def indexed_axes(self) -> range:
        return range(self.position, self.position + 1)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return [*super().assumptions(), *fitting_sizes(self, self.position)]

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices = self.tensor_types()
        if self.have_ranks:
            require_fitting(self, source.shape, indices, self.position)
        return [TensorType(indices.dims, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices = operands
        return [x[element_places(indices, x.shape, self.position)]]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        attributes = {"axis": self.axis, "reduction": "add"}
        return [
            b.scatter_elements(self.zeros(b), self.indices, cotangents[0], **attributes),
            None,
        ]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        dim = type_of(self.operand).shape[self.position]
        with b.loops(self.result_type.shape) as index:
            place = list(index)
            place[self.position] = subscript(b, b.load(operands[1], index), dim)
            b.store(results[0], index, b.load(operands[0], place))


def fitting_sizes(op: IndexedOp, axis: int) -> list[tuple[Expr, Expr]]:
    """Off the axis, indices are no larger than the operand where these pairs are equal."""
    pairs = enumerate(zip(type_of(op.operand).shape, type_of(op.indices).shape, strict=True))
    return [
        (dim, maximum([dim, size]))
        for at, (dim, size) in pairs
        if at != axis and dim != maximum([dim, size])
    ]


def require_fitting(op: GraphOp, dims: Shape, indices: TensorType, axis: int) -> None:
    """Indices have the operand's rank and no more elements than it along the other axes."""
    op.require(indices.rank == len(dims), f"indices of rank {len(dims)}", indices)
    pairs = list(enumerate(zip(dims, indices.shape, strict=True)))
    fits = not any(below_zero(dim - size) for at, (dim, size) in pairs if at != axis)
    op.require(fits, "indices no larger than the operand off the axis", indices)
    nothing = any(size == 0 for size in indices.shape)
    op.require(dims[axis] != 0 or nothing, "an axis with elements", f"{dims[axis]} along it")


def element_places(indices: Array, shape: Sequence[int], axis: int) -> tuple[Array, ...]:
    """The index arrays of the places that `gather_elements` and `scatter_elements` mean."""
    grid: Array = np.indices(indices.shape)
    places = [grid[position] for position in range(indices.ndim)]
    places[axis] = bounded(indices, shape[axis])
    return tuple(places)


def vector_places(indices: Array, shape: Sequence[int]) -> tuple[Array, ...]:
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
    batch_dims: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("GatherND", {"batch_dims": ("batch_dims", 0)})
    HAS_VJP: ClassVar = True

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

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices = operands
        places = vector_places(indices, x.shape[self.batch :])
        lead = np.indices(indices.shape[:-1], sparse=True)[: self.batch]
        return [x[(*lead, *places)]]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        if self.batch:
            raise WeftError(
                f"{self.name} requires batch_dims 0 to be differentiated, got {self.batch}"
            )
        zeros = self.zeros(b)
        return [b.scatter_nd(zeros, self.indices, cotangents[0], reduction="add"), None]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        source, indices = self.tensor_types()
        lead = indices.rank - 1
        with b.loops(self.result_type.shape) as index:
            places = vector_subscripts(
                b, operands[1], index[:lead], source.shape[self.batch :], vector_length(self)
            )
            place = [*index[: self.batch], *places, *index[lead:]]
            b.store(results[0], index, b.load(operands[0], place))


def vector_subscripts(
    b: LoopBuilder, indices: SSAValue, lead: Sequence[Expr], dims: Shape, length: int
) -> list[Expr]:
    """The subscripts that one vector of the indices holds."""
    return [subscript(b, b.load(indices, [*lead, axis]), dims[axis]) for axis in range(length)]


_COMBINE: dict[str, tuple[Callable[[Scalar, Scalar], Scalar], Any]] = {
    "none": (lambda old, new: new, None),
    "add": (lambda old, new: old + new, np.add),
    "mul": (lambda old, new: old * new, np.multiply),
    "max": (lambda old, new: old.maximum(new), np.maximum),
    "min": (lambda old, new: old.minimum(new), np.minimum),
}
"""Each reduction on scalars and in NumPy."""


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
        kind, updates = type_of(self.operand), type_of(self.updates)
        given = self.reduction.data
        self.require(given in _COMBINE, f"a reduction out of {', '.join(_COMBINE)}", given)
        self.require(updates.element == kind.element, f"updates of {kind.element}", updates)
        self.require(given == "none" or kind.element != BOOL, "numbers to combine", kind)

    def scattered(self, x: Array, places: tuple[Array, ...], updates: Array) -> Array:
        """The result in NumPy."""
        result = x.copy()
        function = _COMBINE[self.reduction.data][1]
        if function is None:
            result[places] = updates
        else:
            function.at(result, places, updates)
        return result

    def copy(self, b: LoopBuilder, operand: SSAValue, result: SSAValue) -> None:
        """Writes the operand into the result."""
        with b.loops(self.result_type.shape) as index:
            b.store(result, index, b.load(operand, index))

    def combine(self, b: LoopBuilder, result: SSAValue, place: Sequence[Expr], new: Scalar) -> None:
        """Applies one update."""
        function = _COMBINE[self.reduction.data][0]
        b.store(result, place, function(b.load(result, place), new))

    def require_linear(self) -> None:
        """Refuses to differentiate the reductions whose derivative is not written."""
        given = self.reduction.data
        if given not in ("none", "add"):
            raise WeftError(
                f"{self.name} requires reduction none or add to be differentiated, got {given}"
            )


@irdl_op_definition
class ScatterElementsOp(ScatterOp):
    """`y[i, indices[i, j, k], k] = updates[i, j, k]` for `axis` 1: an index for each update."""

    name = "graph.scatter_elements"
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    ONNX: ClassVar = OnnxName(
        "ScatterElements", {"axis": ("axis", 0), "reduction": ("reduction", "none")}
    )
    HAS_VJP: ClassVar = True

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return self.axis_of(self.axis.value.data)

    def indexed_axes(self) -> range:
        return range(self.position, self.position + 1)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return [*super().assumptions(), *fitting_sizes(self, self.position)]

    def infer(self) -> Sequence[TensorType]:
        self.require_updates()
        source, indices, updates = self.tensor_types()
        if self.have_ranks:
            require_fitting(self, source.shape, indices, self.position)
            self.require(updates.dims == indices.dims, "as many updates as indices", updates)
        return [source]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, updates = operands
        return [self.scattered(x, element_places(indices, x.shape, self.position), updates)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """With duplicate indices and no reduction, every update gets the cotangent of its place."""
        self.require_linear()
        kept = cotangents[0]
        if self.reduction.data == "none":
            zeros = b.filled(0, self.updates)
            attributes = {"axis": self.axis, "reduction": "none"}
            kept = b.scatter_elements(kept, self.indices, zeros, **attributes)
        return [kept, None, b.gather_elements(cotangents[0], self.indices, axis=self.axis)]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        self.copy(b, operands[0], results[0])
        dim = type_of(self.operand).shape[self.position]
        with b.loops(type_of(self.updates).shape) as index:
            place = list(index)
            place[self.position] = subscript(b, b.load(operands[1], index), dim)
            self.combine(b, results[0], place, b.load(operands[2], index))


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """`y[indices[i..., :]..., j...] = updates[i..., j...]`: an index vector for each slice."""

    name = "graph.scatter_nd"
    ONNX: ClassVar = OnnxName("ScatterND", {"reduction": ("reduction", "none")})
    HAS_VJP: ClassVar = True

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

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, updates = operands
        return [self.scattered(x, vector_places(indices, x.shape), updates)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """With duplicate indices and no reduction, every update gets the cotangent of its place."""
        self.require_linear()
        kept = cotangents[0]
        if self.reduction.data == "none":
            kept = b.scatter_nd(kept, self.indices, b.filled(0, self.updates), reduction="none")
        return [kept, None, b.gather_nd(cotangents[0], self.indices, batch_dims=0)]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        self.copy(b, operands[0], results[0])
        source, indices, updates = self.tensor_types()
        lead, length = indices.rank - 1, vector_length(self)
        with b.loops(updates.shape) as index:
            places = vector_subscripts(b, operands[1], index[:lead], source.shape, length)
            place = [*places, *index[lead:]]
            self.combine(b, results[0], place, b.load(operands[2], index))


OPS: tuple[type[GraphOp], ...] = (
    GatherOp,
    GatherElementsOp,
    GatherNdOp,
    ScatterElementsOp,
    ScatterNdOp,
)
