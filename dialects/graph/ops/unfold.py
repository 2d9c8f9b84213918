"""The windows of a tensor as dims of their own, and the sum of windows: `im2col` and `col2im`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr, product
from weft.dialects.graph.core.accumulate import fill, widen
from weft.dialects.graph.core.broadcast import agreed_shape, differing
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ANY_ELEMENT
from weft.dialects.graph.core.op import ints
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import NUMBERS, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.core.window import Window, WindowOp, spatial_names, static, tap_names
from weft.dialects.graph.reindexing.slicing import exprs
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import compute_type
from weft.dialects.weights import Array


def batch_and_channels(op: UnfoldOp | FoldOp) -> ShardingRule:
    """The rule of what keeps the first two dims."""
    ranks = type_of(op.operand).rank, type_of(op.result).rank
    operand, result = (("n", "c", *[None] * (rank - 2)) for rank in ranks)
    return ShardingRule((operand,), (result,))


@irdl_op_definition
class UnfoldOp(WindowOp):
    """`y[n, c, t..., p...] = x[n, c, p * stride + t * dilation - pad]`: a dim for each tap.

    Outside the operand is zero.
    """

    name = "graph.unfold"
    operand: SSAValue = operand_def(TensorType)
    kernel: DenseArrayBase | ShapeAttr = prop_def(DenseArrayBase | ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def window(self) -> Window:
        """The window that slides over the operand."""
        given = self.kernel
        kernel = exprs(given) if isinstance(given, ShapeAttr) else map(Expr.of, ints(given))
        return self.window_over(type_of(self.operand).shape[2:], tuple(kernel))

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in ANY_ELEMENT, "elements that it can move", source)
        if not source.has_rank:
            return [tensor(None, source.element)]
        self.require(source.rank > 2, "an operand of rank 3 or more", source)
        window = self.window()
        shape = (*source.shape[:2], *window.kernel, *self.positions(window))
        return [tensor(shape, source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        return batch_and_channels(self)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.fitting(self.window())

    def reference(self, *operands: Array) -> Sequence[Array]:
        window = self.window()
        padded = np.pad(operands[0], window.pad_widths())
        result = np.empty(static(self.result_type.shape), padded.dtype)
        for taps in np.ndindex(*static(window.kernel)):
            result[(slice(None), slice(None), *taps)] = padded[(..., *window.slices(taps))]
        return [result]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type, window = type_of(self.operand), self.window()
        padded = window.pad(b, operands[0], tensor_type.shape[:2], tensor_type.element, 0)
        rank = len(window.axes)
        names = "nc" + tap_names(rank) + spatial_names(rank)
        with b.loops(self.result_type.shape, names) as index:
            position = window.source(index[2 + rank :], index[2 : 2 + rank])
            b.store(results[0], index, b.load(padded, (*index[:2], *position)))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        spatial = ShapeAttr(type_of(self.operand).shape[2:])
        steps = {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        return [b.fold(cotangents[0], spatial=spatial, **steps)]


@irdl_op_definition
class FoldOp(WindowOp):
    """Windows `[n, c, t..., p...]` added up where they came from in `[n, c, spatial...]`.

    It is the transpose of `unfold`: `y[n, c, p * stride + t * dilation - pad] += x[n, c, t, p]`.
    """

    name = "graph.fold"
    operand: SSAValue = operand_def(TensorType)
    spatial: ShapeAttr = prop_def(ShapeAttr)
    result: SSAValue = result_def(TensorType)

    def window(self) -> Window:
        """The window that each position adds."""
        spatial = exprs(self.spatial)
        return self.window_over(spatial, type_of(self.operand).shape[2 : 2 + len(spatial)])

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in NUMBERS, "numeric elements", source)
        if not source.has_rank:
            return [tensor(None, source.element)]
        rank = 2 + 2 * len(exprs(self.spatial))
        self.require(rank > 2 and source.rank == rank, f"an operand of rank {rank}", source)
        window = self.window()
        positions = tuple(self.positions(window))
        got = f"{source} for {', '.join(map(str, positions))}"
        agreed = agreed_shape([source.shape[2 + len(window.axes) :], positions])
        self.require(agreed is not None, "a window for each position", got)
        return [tensor((*source.shape[:2], *window.spatial), source.element)]

    def sharding_rule(self) -> ShardingRule | None:
        return batch_and_channels(self)

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        window = self.window()
        given = type_of(self.operand).shape[2 + len(window.axes) :]
        return [*self.fitting(window), *differing(given, tuple(self.positions(window)))]

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, x = self.window(), widen(operands[0])
        widths = window.pad_widths()
        shape = static(self.result_type.shape)
        total = np.zeros(
            [dim + sum(pads) for dim, pads in zip(shape, widths, strict=True)], x.dtype
        )
        for taps in np.ndindex(*static(window.kernel)):
            total[(..., *window.slices(taps))] += x[(slice(None), slice(None), *taps)]
        kept = [slice(start, start + dim) for dim, (start, _) in zip(shape, widths, strict=True)]
        return [total[tuple(kept)].astype(operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Adds in a buffer of whole windows, whose last axis goes by the phases of its stride where
        sizes are known: what neighbouring windows add to is next to each other there.
        """
        tensor_type, window = type_of(self.operand), self.window()
        lead, wide, rank = (
            tensor_type.shape[:2],
            compute_type(tensor_type.element),
            len(window.axes),
        )
        padded = (*lead, *(window.padded(axis) for axis in window.axes))
        # A thread keeps one channel of them in its caches, if their number is known.
        step = 1 if product(padded).constant is None else window.strides[-1]
        by_phases = (*padded[:-1], Expr.of(step), padded[-1].ceildiv(step))
        direct = wide == tensor_type.element and not window.is_padded
        whole = results[0] if direct else b.temporary(padded, wide, "whole")
        total = whole if step == 1 else b.temporary(by_phases, wide, "total")
        fill(b, total, padded if step == 1 else by_phases, 0, wide)

        def element(index: Sequence[Expr]) -> tuple[Expr, ...]:
            *outer, last = index
            return (*outer, last) if step == 1 else (*outer, last % step, last // step)

        positions = tensor_type.shape[2 + rank :]
        with (
            b.loops(lead, "nc") as (n, c),
            b.reduce(window.kernel, "add", tap_names(rank)) as taps,
            b.loops(positions, spatial_names(rank)) as position,
        ):
            target = element((n, c, *window.source(position, taps)))
            x = b.load(operands[0], (n, c, *taps, *position))
            b.store(total, target, b.load(total, target) + x)
        if step > 1:
            with b.loops(padded, "nc" + spatial_names(rank)) as index:
                b.store(whole, index, b.load(total, element(index)))
        if direct:
            return
        with b.loops(self.result_type.shape, "nc" + spatial_names(rank)) as index:
            inner = [i + front for i, front in zip(index[2:], window.before, strict=True)]
            b.store(results[0], index, b.load(whole, (*index[:2], *inner)))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        kernel = ShapeAttr(self.window().kernel)
        steps = {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        return [b.unfold(cotangents[0], kernel=kernel, **steps)]


OPS = (UnfoldOp, FoldOp)
