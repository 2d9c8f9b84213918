"""Weighted sums of elements that lie anywhere along an axis: what resizing is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from dialects.graph.accumulate import round_totals, start_totals, widen
from dialects.graph.algebra import Term
from dialects.graph.builder import GraphBuilder
from dialects.graph.gather import IndexedOp, bounded, subscript
from dialects.graph.types import FLOATS, TensorType, tensor
from dialects.loop.builder import LoopBuilder
from dialects.loop.scalar import compute_type
from dialects.weights import Array


@irdl_op_definition
class ResampleOp(IndexedOp):
    """`y[..., i, ...] = sum_t weights[i, t] * x[..., indices[i, t], ...]` along `axis`.

    `indices` are `[size, taps]`, counted and bounded as by `gather`; `weights` are of that shape,
    in the type in which elements of the operand are computed.
    """

    name = "graph.resample"
    HAS_VJP: ClassVar = True
    operand: SSAValue = operand_def(TensorType)  # again, for the order
    indices: SSAValue = operand_def(TensorType)
    weights: SSAValue = operand_def(TensorType)
    axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def position(self) -> int:
        """The axis counted from the front."""
        return self.axis_of(self.axis.value.data)

    def indexed_axes(self) -> range:
        return range(self.position, self.position + 1)

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices, weights = self.tensor_types()
        self.require(source.element in FLOATS, "floating-point elements", source)
        wanted = TensorType(indices.dims, compute_type(source.element))
        self.require(weights == wanted, f"weights {wanted}", weights)
        if not self.have_ranks:
            return [tensor(None, source.element)]
        self.require(indices.rank == 2, "indices of rank 2", indices)
        axis = self.position
        self.require(source.shape[axis] != 0, "an axis with elements", source)
        shape = (*source.shape[:axis], indices.shape[0], *source.shape[axis + 1 :])
        return [tensor(shape, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, weights = widen(operands[0]), operands[1], operands[2]
        axis = self.position
        read = np.take(x, bounded(indices, x.shape[axis]), axis)
        factors = weights.reshape(*weights.shape, *[1] * (x.ndim - axis - 1))
        return [np.sum(read * factors, axis + 1, dtype=x.dtype).astype(operands[0].dtype)]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        source, indices = self.tensor_types()[:2]
        axis, shape = self.position, self.result_type.shape
        total = start_totals(b, shape, source.element, 0, results[0])
        with b.loops(shape) as index, b.reduce([indices.shape[1]], "add", "t") as (t,):
            place = subscript(b, b.load(operands[1], (index[axis], t)), source.shape[axis])
            x = b.load(operands[0], (*index[:axis], place, *index[axis + 1 :]))
            term = x * b.load(operands[2], (index[axis], t))
            b.store(total, index, b.load(total, index) + term)
        round_totals(b, shape, total, results[0])

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Weighted cotangents are added up where the elements came from."""
        source, indices = self.tensor_types()[:2]
        axis = self.position
        cotangent = Term(b, cotangents[0])
        order = [axis, *(other for other in range(source.rank) if other != axis)]
        others = [dim for at, dim in enumerate(source.shape) if at != axis]
        dy = cotangent.transpose(order).reshape((indices.shape[0], 1, *others))
        factors = Term(b, self.weights).reshape((*indices.shape, *[1] * len(others)))
        spread = (dy * factors.cast(source.element)).expand((*indices.shape, *others))
        zeros = Term(b, self.zeros(b)).transpose(order)
        places = Term(b, self.indices).reshape((*indices.shape, 1))
        total = b.scatter_nd(zeros.value, places.value, spread.value, reduction="add")
        back = [order.index(at) for at in range(source.rank)]
        read = Term(b, self.operand).transpose(order).take(Term(b, self.indices), 0)
        slopes = (read * dy).sum(range(2, source.rank + 1)).cast(compute_type(source.element))
        return [
            cotangent.of(total).transpose(back).value,
            None,
            slopes.reshape(indices.shape).value,
        ]


OPS: tuple[type[ResampleOp], ...] = (ResampleOp,)
