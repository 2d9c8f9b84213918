"""Operators that take parts of tensors, or put them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from weft.dialects.expr import Expr
from weft.dialects.graph.core.accumulate import fill
from weft.dialects.graph.core.assumptions import at_least, box_within
from weft.dialects.graph.core.axis import from_front
from weft.dialects.graph.core.batching import again, all_spread
from weft.dialects.graph.core.broadcast import agreed_shape, differing
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName, ints
from weft.dialects.graph.core.sharding_rule import Factors, ShardingRule, whole_but
from weft.dialects.graph.core.types import Shape, ShapeAttr, TensorType, tensor, type_of
from weft.dialects.graph.reindexing.movement import IndexMapOp, assumed_dims
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


def numbers(op: GraphOp, attribute: ShapeAttr) -> list[int]:
    """The plain numbers of a list of expressions, which must be static."""
    constants = [expr.constant for expr in attribute.data or ()]
    constants_ = [number for number in constants if number is not None]
    op.require(len(constants_) == len(constants), "static numbers to be evaluated", attribute)
    return constants_


def exprs(attribute: ShapeAttr) -> tuple[Expr, ...]:
    """The expressions of a list of them."""
    assert attribute.data is not None, "an attribute lists its expressions"
    return attribute.data


def below_zero(expr: Expr) -> bool:
    """Whether the value is negative whatever the sizes are."""
    _, high = expr.range({})
    return high is not None and high < 0


def require_range(op: GraphOp, dim: Expr, start: Expr, size: Expr, step: int) -> None:
    """Refuses indices `start, start + step, ...` that certainly leave an axis of that size."""
    rule = f"indices within an axis of {dim}"
    op.require(step != 0, "steps other than 0", step)
    op.require(not below_zero(size), "sizes of 0 or more", size)
    low, _ = size.range({})
    for index in (start, start + (size - 1) * step) if low is not None and low > 0 else ():
        outside = below_zero(index) or below_zero(dim - 1 - index)
        op.require(not outside, rule, f"{index} of {size} from {start} by {step}")


def positions(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Any:
    """The index arrays of a strided box."""
    boxes = zip(starts, sizes, steps, strict=True)
    return np.ix_(*(start + step * np.arange(size) for start, size, step in boxes))


class StridedOp(GraphOp):
    """What names a box of a tensor: a first index and a step for each axis."""

    starts: ShapeAttr = prop_def(ShapeAttr)
    steps: DenseArrayBase = prop_def(DenseArrayBase)

    def require_box(self, dims: Shape, sizes: Shape) -> None:
        """The box of that size is in a tensor of those dims."""
        starts, steps = exprs(self.starts), ints(self.steps)
        same = len(dims) == len(sizes) == len(starts) == len(steps)
        got = f"{len(starts)} starts, {len(sizes)} sizes and {len(steps)} steps"
        self.require(same, f"a start, a size and a step for each of {len(dims)} axes", got)
        for dim, start, size, step in zip(dims, starts, sizes, steps, strict=True):
            require_range(self, dim, start, size, step)

    def within(self, dims: Shape, sizes: Shape) -> list[tuple[Expr, Expr]]:
        """The pairs that are equal where the box is in a tensor of those dims."""
        axes = zip(dims, exprs(self.starts), sizes, ints(self.steps), strict=True)
        return [pair for axis in axes for pair in box_within(*axis)]

    def kept_axes(self, dims: Shape, sizes: Shape) -> Factors:
        """A factor for each axis of a tensor of those dims along which the box is all of it."""
        axes = zip(dims, sizes, exprs(self.starts), ints(self.steps), strict=True)
        moved = [at for at, axis in enumerate(axes) if axis != (axis[0], axis[0], 0, 1)]
        return whole_but(len(dims), moved)

    def inside(self, index: Sequence[Expr]) -> list[Expr]:
        """Where in the large tensor an element of the box lies."""
        steps = zip(exprs(self.starts), index, ints(self.steps), strict=True)
        return [start + position * step for start, position, step in steps]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        given = all_spread(self, operands, size, b)
        starts = ShapeAttr((Expr.of(0), *exprs(self.starts)))
        named = {key: getattr(self, key, None) for key in ("sizes", "shape")}
        dims = {key: ShapeAttr((size, *exprs(each))) for key, each in named.items() if each}
        return again(self, given, b, starts=starts, steps=[1, *ints(self.steps)], **dims)


@irdl_op_definition
class SliceOp(StridedOp, IndexMapOp):
    """`y[i] = x[start + i * step]` along each axis, `sizes` being the result's dims.

    Starts count from the front and are in bounds; steps may be negative.
    """

    name = "graph.slice"
    sizes: ShapeAttr = prop_def(ShapeAttr)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        if source.has_rank:
            self.require_box(source.shape, exprs(self.sizes))
        return [TensorType(self.sizes, source.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.within(type_of(self.operand).shape, exprs(self.sizes))

    def reference(self, *operands: Array) -> Sequence[Array]:
        starts, sizes = numbers(self, self.starts), numbers(self, self.sizes)
        return [operands[0][positions(starts, sizes, ints(self.steps))]]

    def sharding_rule(self) -> ShardingRule | None:
        kept = self.kept_axes(type_of(self.operand).shape, exprs(self.sizes))
        return ShardingRule((kept,), (kept,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "sizes": results[0].dims}

    def fold(self) -> Sequence[SSAValue] | None:
        """The whole tensor."""
        whole = self.result_type == type_of(self.operand) and all(s == 1 for s in ints(self.steps))
        return [self.operand] if whole else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        (elements,) = operands
        ends = [exprs(self.starts), exprs(self.sizes)]
        if elements is None or not all(len(e) == 1 and e[0].constant is not None for e in ends):
            return None
        (start,), (size,) = numbers(self, self.starts), numbers(self, self.sizes)
        (step,) = ints(self.steps)
        return [elements[start + step * position] for position in range(size)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        shape = type_of(self.operand).dims
        return [b.scatter_slice(cotangents[0], shape=shape, starts=self.starts, steps=self.steps)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        return self.inside(index)


@irdl_op_definition
class ScatterSliceOp(StridedOp, IndexMapOp):
    """Zeros of the dims `shape`, but `y[start + i * step] = x[i]`: the transpose of `slice`."""

    name = "graph.scatter_slice"
    shape: ShapeAttr = prop_def(ShapeAttr)

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require_box(exprs(self.shape), source.shape)
        return [TensorType(self.shape, source.element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.within(exprs(self.shape), type_of(self.operand).shape)

    def reference(self, *operands: Array) -> Sequence[Array]:
        result = np.zeros(numbers(self, self.shape), operands[0].dtype)
        starts = numbers(self, self.starts)
        result[positions(starts, operands[0].shape, ints(self.steps))] = operands[0]
        return [result]

    def sharding_rule(self) -> ShardingRule | None:
        kept = self.kept_axes(exprs(self.shape), type_of(self.operand).shape)
        return ShardingRule((kept,), (kept,))

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        return {**self.properties, "shape": results[0].dims}

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        sizes = type_of(self.operand).dims
        return [b.slice(cotangents[0], starts=self.starts, sizes=sizes, steps=self.steps)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        raise AssertionError("only the box of the result comes from the operand")

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type = self.result_type
        fill(b, results[0], tensor_type.shape, 0, tensor_type.element)
        with b.loops(type_of(self.operand).shape) as index:
            b.store(results[0], self.inside(index), b.load(operands[0], index))


class AlongAxisOp(GraphOp):
    """What `concat` and `split` share: parts that lie one after the other along an axis."""

    axis: IntegerAttr[Any] = prop_def(IntegerAttr)

    def sharding_rule(self) -> ShardingRule | None:
        rank = type_of(self.results[0]).rank
        factors = whole_but(rank, (self.position(rank),))
        return ShardingRule((factors,) * len(self.operands), (factors,) * len(self.results))

    def position(self, rank: int) -> int:
        """The axis counted from the front."""
        return from_front(self, self.axis.value.data, rank)

    def moved(self, index: Sequence[Expr], offset: Expr) -> list[Expr]:
        """An index of a part as one of the whole."""
        position = self.position(len(index))
        return [i + offset if axis == position else i for axis, i in enumerate(index)]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        axis = self.position(type_of(self.operands[0]).rank)
        return again(self, all_spread(self, operands, size, b), b, axis=axis + 1)


def offsets(sizes: Sequence[Expr]) -> list[Expr]:
    """Where each part begins."""
    starts = [Expr.of(0)]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size)
    return starts


def _with_dim(shape: Shape, axis: int, dim: Expr) -> Shape:
    """The shape with another dim at an axis."""
    return (*shape[:axis], dim, *shape[axis + 1 :])


@irdl_op_definition
class ConcatOp(AlongAxisOp):
    """The operands one after the other along `axis`."""

    name = "graph.concat"
    inputs: Sequence[SSAValue] = var_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Concat", {"axis": ("axis", None)})

    def infer(self) -> Sequence[TensorType]:
        tensor_types = self.tensor_types()
        self.require(bool(tensor_types), "one operand or more", "none")
        listed = " and ".join(map(str, dict.fromkeys(tensor_types)))
        self.require(len({each.element for each in tensor_types}) == 1, "one element type", listed)
        if not all(each.has_rank for each in tensor_types):
            return [tensor(None, tensor_types[0].element)]
        self.require(len({each.rank for each in tensor_types}) == 1, "operands of one rank", listed)
        axis, total = self.position(tensor_types[0].rank), sum(self.sizes(), Expr.of(0))
        shape = agreed_shape([_with_dim(each.shape, axis, total) for each in tensor_types])
        self.require(shape is not None, f"operands that differ along axis {axis} alone", listed)
        return [tensor(shape, tensor_types[0].element)]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """All dims but those along the axis are the result's."""
        result = self.result_type
        if not result.has_rank:
            return []
        parts = zip(self.tensor_types(), self.part_shapes(), strict=True)
        return [pair for each, part in parts for pair in differing(each.shape, part)]

    def sizes(self) -> list[Expr]:
        """The size of each operand along the axis."""
        return [each.shape[self.position(each.rank)] for each in self.tensor_types()]

    def part_shapes(self) -> list[Shape]:
        """The shape of each operand in the result's dims."""
        shape = self.result_type.shape
        axis = self.position(len(shape))
        return [_with_dim(shape, axis, size) for size in self.sizes()]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.concatenate(operands, self.axis.value.data)]

    def fold(self) -> Sequence[SSAValue] | None:
        """A single operand is the result."""
        return [self.inputs[0]] if len(self.inputs) == 1 else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        parts = [operand for operand in operands if operand is not None]
        return [e for k in parts for e in k] if len(parts) == len(operands) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        sizes = ShapeAttr(tuple(self.sizes()))
        parts = b.op("split", cotangents[0], axis=self.axis, sizes=sizes).results
        own = [each.dims for each in self.tensor_types()]
        return [assumed_dims(b, part, dims) for part, dims in zip(parts, own, strict=True)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        parts = zip(operands, self.part_shapes(), offsets(self.sizes()), strict=True)
        for operand, shape, offset in parts:
            with b.loops(shape) as index:
                b.store(results[0], self.moved(index, offset), b.load(operand, index))


@irdl_op_definition
class SplitOp(AlongAxisOp):
    """Parts of the given sizes along `axis`, a result each."""

    name = "graph.split"
    sizes: ShapeAttr = prop_def(ShapeAttr)
    operand: SSAValue = operand_def(TensorType)
    parts: Sequence[SSAValue] = var_result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        source, sizes = type_of(self.operand), exprs(self.sizes)
        if not source.has_rank:
            return [source for _ in sizes]
        axis = self.position(source.rank)
        dim, total = source.shape[axis], sum(sizes, Expr.of(0))
        self.require(total == dim, f"sizes that sum to {dim}", total)
        self.require(not any(map(below_zero, sizes)), "sizes of 0 or more", self.sizes)
        return [
            tensor((*source.shape[:axis], size, *source.shape[axis + 1 :]), source.element)
            for size in sizes
        ]

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """No part has fewer than 0 elements."""
        return [pair for size in exprs(self.sizes) for pair in at_least(size, 0)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        ends = np.cumsum(numbers(self, self.sizes))[:-1]
        return np.split(operands[0], ends, self.axis.value.data)

    def fold(self) -> Sequence[SSAValue] | None:
        """A single part is the operand."""
        return [self.operand] if len(self.results) == 1 else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.concat(*cotangents, axis=self.axis)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        for part, result, offset in zip(
            self.parts, results, offsets(exprs(self.sizes)), strict=True
        ):
            with b.loops(type_of(part).shape) as index:
                b.store(result, index, b.load(operands[0], self.moved(index, offset)))


OPS: tuple[type[GraphOp], ...] = (SliceOp, ScatterSliceOp, ConcatOp, SplitOp)
