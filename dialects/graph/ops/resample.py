"""Weighted sums of elements that lie anywhere along an axis: what resizing is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import round_totals, start_totals, widen
from weft.dialects.graph.core.algebra import Term, counted, joined, size_term
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.batching import again, all_spread, only_first
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import FLOATS, I64, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.gather import AlongAxisIndexedOp, bounded, subscript
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import compute_type
from weft.dialects.weights import Array


@irdl_op_definition
class ResampleOp(AlongAxisIndexedOp):
    """`y[b..., ..., i, ...] = sum_t weights[b..., i, t] * x[b..., ..., indices[b..., i, t], ...]`.

    `indices` are `[b..., size, taps]` for an operand of `batch_dims` leading dims `b...`, counted
    and bounded along `axis` as by `gather`; `weights` are of that shape, in the type in which
    elements of the operand are computed.
    """

    name = "graph.resample"
    MOVES_INDICES: ClassVar = True
    operand: SSAValue = operand_def(TensorType)  # again, for the order
    indices: SSAValue = operand_def(TensorType)
    weights: SSAValue = operand_def(TensorType)
    batch_dims: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def batch(self) -> int:
        """How many leading dims the operand and the indices share."""
        return self.batch_dims.value.data

    def infer(self) -> Sequence[TensorType]:
        self.require_indices()
        source, indices, weights = self.tensor_types()
        self.require(source.element in FLOATS, "floating-point elements", source)
        wanted = TensorType(indices.dims, compute_type(source.element))
        self.require(weights == wanted, f"weights {wanted}", weights)
        if not self.have_ranks:
            return [tensor(None, source.element)]
        axis, batch = self.position, self.batch
        self.require(0 <= batch <= axis, f"0 to {axis} batch_dims", batch)
        self.require(indices.rank == batch + 2, f"indices of rank {batch + 2}", indices)
        same = source.shape[:batch] == indices.shape[:batch]
        self.require(same, "operands that share their batch dims", f"{source} and {indices}")
        self.require(source.shape[axis] != 0, "an axis with elements", source)
        shape = (*source.shape[:axis], indices.shape[-2], *source.shape[axis + 1 :])
        return [tensor(shape, source.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """An axis whose size varies has elements."""
        return at_least(type_of(self.operand).shape[self.position], 1)

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, indices, weights = widen(operands[0]), operands[1], operands[2]
        axis, batch = self.position, self.batch
        lead = np.indices(indices.shape, sparse=True)[:batch]
        positions = bounded(indices, x.shape[axis])
        read = np.moveaxis(x, axis, batch)[(*lead, positions)]
        factors = weights.reshape(*weights.shape, *[1] * (x.ndim - batch - 1))
        total = np.sum(read * factors, batch + 1, dtype=x.dtype)
        return [np.moveaxis(total, batch, axis).astype(operands[0].dtype)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        axis = self.position + 1
        if only_first(self, operands) and not self.batch:
            return again(self, operands, b, axis=axis)
        given = all_spread(self, operands, size, b)
        return again(self, given, b, axis=axis, batch_dims=self.batch + 1)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        source, indices = self.tensor_types()[:2]
        axis, shape = self.position, self.result_type.shape
        total = start_totals(b, shape, source.element, 0, results[0])
        with b.loops(shape) as index, b.reduce([indices.shape[-1]], "add", "t") as (t,):
            entry = (*index[: self.batch], index[axis], t)
            position = subscript(b, b.load(operands[1], entry), source.shape[axis])
            x = b.load(operands[0], (*index[:axis], position, *index[axis + 1 :]))
            term = x * b.load(operands[2], entry)
            b.store(total, index, b.load(total, index) + term)
        round_totals(b, shape, total, results[0])

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Weighted cotangents are added up where the elements came from."""
        source, axis, batch = type_of(self.operand), self.position, self.batch
        lead, others = list(range(batch)), list(range(batch, source.rank))
        others.remove(axis)
        order = [*lead, axis, *others]
        positions = self._positions(b)
        table = type_of(self.indices).shape
        dy = Term(b, cotangents[0]).transpose(order).insert(batch + 1)
        factors = Term(b, self.weights).reshape((*table, *[1] * len(others)))
        spread = (dy * factors.cast(source.element)).value
        zeros = Term(b, self.zeros(b)).transpose(order)
        total = zeros.of(b.scatter_nd(zeros.value, positions.value, spread, reduction="add"))
        back = [order.index(at) for at in range(source.rank)]
        x = Term(b, self.operand).transpose(order)
        read = x.of(b.gather_nd(x.value, positions.value, batch_dims=0))
        slopes = (read * dy).cast(compute_type(source.element))
        slopes = slopes.sum(range(batch + 2, source.rank + 1)) if others else slopes
        return [total.transpose(back).value, None, slopes.value]

    def _bounded(self, indices: Term) -> Term:
        """Indices counted from the front and moved into the axis."""
        size = size_term(indices.b, type_of(self.operand).shape[self.position], I64)
        return (indices < 0).where(indices + size, indices).minimum(size - 1).maximum(0)

    def _positions(self, b: GraphBuilder) -> Term:
        """The index vectors `[b..., size, taps, batch_dims + 1]` of the elements that are read."""
        indices = self._bounded(Term(b, self.indices).cast(I64))
        shape = indices.shape
        parts: list[Term] = []
        for at in range(self.batch):
            ones = [1] * (len(shape) - at)
            parts.append(counted(b, shape[at]).reshape((*[1] * at, shape[at], *ones)))
            parts[-1] = parts[-1].expand((*shape, 1))
        return joined([*parts, indices.insert(len(shape))], len(shape))


OPS: tuple[type[ResampleOp], ...] = (ResampleOp,)
