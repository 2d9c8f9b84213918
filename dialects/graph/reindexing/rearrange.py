"""Operators that repeat, reverse or regroup a tensor's elements, or keep a triangle of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from weft.dialects.expr import Expr
from weft.dialects.graph.core.batching import again, merged
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName
from weft.dialects.graph.core.sharding_rule import ShardingRule, whole_but
from weft.dialects.graph.core.types import I32, I64, Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.gather import bounded, subscript
from weft.dialects.graph.reindexing.movement import IndexMapOp
from weft.dialects.graph.reindexing.slicing import exprs, numbers
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


@irdl_op_definition
class TileOp(IndexMapOp):
    """The operand repeated `repeats[i]` times along axis `i`."""

    name = "graph.tile"
    repeats: ShapeAttr = prop_def(ShapeAttr)

    def infer(self) -> Sequence[TensorType]:
        source, repeats = type_of(self.operand), exprs(self.repeats)
        if not source.has_rank:
            return [source]
        self.require(len(repeats) == source.rank, f"{source.rank} repeats", len(repeats))
        dims = [dim * count for dim, count in zip(source.shape, repeats, strict=True)]
        return [tensor(dims, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, repeats = operands[0], numbers(self, self.repeats)
        pairs = list(zip(repeats, x.shape, strict=True))
        apart = x.reshape([side for dim in x.shape for side in (1, dim)])
        # np.tile takes its time for very many copies of nothing.
        copies = np.broadcast_to(apart, [side for pair in pairs for side in pair])
        return [copies.reshape([count * dim for count, dim in pairs])]

    def fold(self) -> Sequence[SSAValue] | None:
        """Once along every axis."""
        return [self.operand] if all(count == 1 for count in exprs(self.repeats)) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        source = type_of(self.operand)
        pairs = zip(exprs(self.repeats), source.shape, strict=True)
        apart = ShapeAttr(tuple(dim for pair in pairs for dim in pair))
        copies = b.reshape(cotangents[0], shape=apart)
        return [b.reduce_sum(copies, axes=list(range(0, 2 * source.rank, 2)), keepdims=False)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        dims = type_of(self.operand).shape
        pairs = zip(index, dims, strict=True)  # an axis of no elements has no index to divide
        return [position % dim if dim.constant != 0 else position for position, dim in pairs]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        repeats = ShapeAttr((Expr.of(1), *exprs(self.repeats)))
        return again(self, operands, b, repeats=repeats)


class BlockOp(IndexMapOp):
    """What moves blocks of pixels to channels and back.

    `DCR` puts the position in the block before the channel, `CRD` behind it.
    """

    blocksize: IntegerAttr[Any] = prop_def(IntegerAttr)
    mode: StringAttr = prop_def(StringAttr)

    @property
    def block(self) -> int:
        """The side of a block."""
        return self.blocksize.value.data

    @property
    def block_first(self) -> bool:
        """Whether the position in the block comes before the channel."""
        return self.mode.data == "DCR"

    @abstractmethod
    def regrouped(self, batch: Expr, channels: Expr, height: Expr, width: Expr) -> Shape:
        """The dims of the result; raises TypeInferenceError where blocks do not divide a dim."""

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        if not source.has_rank:
            return [source]
        self.require(self.mode.data in ("DCR", "CRD"), "a mode DCR or CRD", self.mode.data)
        self.require(self.block > 0, "a blocksize above 0", self.block)
        self.require(source.rank == 4, "an operand of rank 4", source)
        return [tensor(self.regrouped(*source.shape), source.element)]

    def divided(self, dim: Expr, divisor: int) -> Expr:
        """The quotient of a dim, which must be exact."""
        self.require(dim // divisor * divisor == dim, f"a dim that {divisor} divides", dim)
        return dim // divisor

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)


@irdl_op_definition
class DepthToSpaceOp(BlockOp):
    """`[n, c * b * b, h, w]` to `[n, c, h * b, w * b]`: channels become the pixels of blocks."""

    name = "graph.depth_to_space"
    ONNX: ClassVar = OnnxName(
        "DepthToSpace", {"blocksize": ("blocksize", None), "mode": ("mode", "DCR")}
    )

    def regrouped(self, batch: Expr, channels: Expr, height: Expr, width: Expr) -> Shape:
        depth = self.divided(channels, self.block**2)
        return (batch, depth, height * self.block, width * self.block)

    def reference(self, *operands: Array) -> Sequence[Array]:
        batch, channels, height, width = operands[0].shape
        size, depth = self.block, channels // self.block**2
        split = (size, size, depth) if self.block_first else (depth, size, size)
        order = (0, 3, 4, 1, 5, 2) if self.block_first else (0, 1, 4, 2, 5, 3)
        blocks = operands[0].reshape(batch, *split, height, width).transpose(order)
        return [blocks.reshape(batch, depth, height * size, width * size)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.space_to_depth(cotangents[0], blocksize=self.blocksize, mode=self.mode)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        batch, channel, row, column = index
        within = row % self.block * self.block + column % self.block
        depth = self.result_type.shape[1]
        source = within * depth + channel if self.block_first else channel * self.block**2 + within
        return [batch, source, row // self.block, column // self.block]


@irdl_op_definition
class SpaceToDepthOp(BlockOp):
    """`[n, c, h * b, w * b]` to `[n, c * b * b, h, w]`: the pixels of blocks become channels."""

    name = "graph.space_to_depth"
    ONNX: ClassVar = OnnxName(
        "SpaceToDepth", {"blocksize": ("blocksize", None), "mode": ("mode", "DCR")}
    )

    def regrouped(self, batch: Expr, channels: Expr, height: Expr, width: Expr) -> Shape:
        rows, columns = self.divided(height, self.block), self.divided(width, self.block)
        return (batch, channels * self.block**2, rows, columns)

    def reference(self, *operands: Array) -> Sequence[Array]:
        batch, channels, height, width = operands[0].shape
        size = self.block
        rows, columns = height // size, width // size
        order = (0, 3, 5, 1, 2, 4) if self.block_first else (0, 1, 3, 5, 2, 4)
        blocks = operands[0].reshape(batch, channels, rows, size, columns, size).transpose(order)
        return [blocks.reshape(batch, channels * size**2, rows, columns)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.depth_to_space(cotangents[0], blocksize=self.blocksize, mode=self.mode)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        batch, channel, row, column = index
        depth = type_of(self.operand).shape[1]
        if self.block_first:
            within, source = channel // depth, channel % depth
        else:
            within, source = channel % self.block**2, channel // self.block**2
        down, across = within // self.block, within % self.block
        return [batch, source, row * self.block + down, column * self.block + across]


@irdl_op_definition
class TriluOp(GraphOp):
    """Matrices (on the last two axes) where `column - row >= k`, or `<= k` if lower, and 0 else."""

    name = "graph.trilu"
    operand: SSAValue = operand_def(TensorType)
    upper: BoolAttr = prop_def(BoolAttr)
    k: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(not source.has_rank or source.rank > 1, "an operand of rank 2 or more", source)
        return [source]

    def reference(self, *operands: Array) -> Sequence[Array]:
        steps: list[Array] = [np.arange(dim) for dim in operands[0].shape[-2:]]
        offset = steps[1] - steps[0].reshape(-1, 1)
        diagonal = int(self.k.value.data)
        kept = offset >= diagonal if self.upper.value.data else offset <= diagonal
        return [np.where(kept, operands[0], np.zeros((), operands[0].dtype))]

    def sharding_rule(self) -> ShardingRule | None:
        rank = self.result_type.rank
        factors = whole_but(rank, (rank - 2, rank - 1))
        return ShardingRule((factors,), (factors,))

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.trilu(cotangents[0], upper=self.upper, k=self.k)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        return again(self, operands, b)

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        predicate = "ge" if self.upper.value.data else "le"
        with b.loops(self.result_type.shape) as index:
            x = b.load(operands[0], index)
            kept = b.index(index[-1] - index[-2], I64).compare(predicate, self.k.value.data)
            b.store(results[0], index, kept.select(x, x.constant(0)))


@irdl_op_definition
class ReverseSequenceOp(GraphOp):
    """The first `lengths[b]` elements along the time axis reversed, for each `b` of the batch."""

    name = "graph.reverse_sequence"
    operand: SSAValue = operand_def(TensorType)
    lengths: SSAValue = operand_def(TensorType)
    batch_axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    time_axis: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName(
        "ReverseSequence", {"batch_axis": ("batch_axis", 1), "time_axis": ("time_axis", 0)}
    )

    @property
    def axes(self) -> tuple[int, int]:
        """The batch axis and the time axis."""
        return self.batch_axis.value.data, self.time_axis.value.data

    def infer(self) -> Sequence[TensorType]:
        source, lengths = self.tensor_types()
        self.require(lengths.element in (I32, I64), "lengths of i32 or i64", lengths)
        self.require(sorted(self.axes) == [0, 1], "the axes 0 and 1", list(self.axes))
        if source.has_rank and lengths.has_rank:
            self.require(source.rank > 1, "an operand of rank 2 or more", source)
            batch = source.shape[self.axes[0]]
            self.require(lengths.shape == (batch,), f"{batch} lengths", lengths)
        return [source]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, lengths = operands
        batch, time = self.axes
        steps, each = np.arange(int(x.shape[time])), lengths[:, None]
        turned = bounded(np.where(steps < each, each - 1 - steps, steps), x.shape[time])
        index = (turned if batch == 0 else turned.T).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
        return [np.take_along_axis(x, index, time)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        axes = {"batch_axis": self.batch_axis, "time_axis": self.time_axis}
        return [b.reverse_sequence(cotangents[0], self.lengths, **axes), None]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        batch, time = self.axes
        with b.loops(self.result_type.shape) as index:
            length, step = b.load(operands[1], [index[batch]]).cast(I64), b.index(index[time], I64)
            turned = (step < length).select(length - 1 - step, step)
            source = list(index)
            source[time] = subscript(b, turned, self.result_type.shape[time])
            b.store(results[0], index, b.load(operands[0], source))


OPS: tuple[type[GraphOp], ...] = (
    TileOp, DepthToSpaceOp, SpaceToDepthOp, TriluOp, ReverseSequenceOp,
)  # fmt: skip
