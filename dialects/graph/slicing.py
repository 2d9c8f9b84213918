"""Operators that take parts of tensors, put them together, or put something around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from dialects.errors import WeftError
from dialects.expr import Expr, maximum, minimum
from dialects.graph.accumulate import fill
from dialects.graph.builder import GraphBuilder
from dialects.graph.movement import IndexMapOp
from dialects.graph.op import GraphOp, OnnxName, ints
from dialects.graph.types import Shape, ShapeAttr, TensorType, tensor, type_of
from dialects.loop.builder import LoopBuilder
from dialects.weights import Array


def numbers(op: GraphOp, attribute: ShapeAttr) -> list[int]:
    """The plain numbers of a list of expressions, which must be static."""
    constants = [expr.constant for expr in attribute.data or ()]
    known = [number for number in constants if number is not None]
    op.require(len(known) == len(constants), "static numbers to be evaluated", attribute)
    return known


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
        """The box of that size lies in a tensor of those dims."""
        starts, steps = exprs(self.starts), ints(self.steps)
        same = len(dims) == len(sizes) == len(starts) == len(steps)
        got = f"{len(starts)} starts, {len(sizes)} sizes and {len(steps)} steps"
        self.require(same, f"a start, a size and a step for each of {len(dims)} axes", got)
        for dim, start, size, step in zip(dims, starts, sizes, steps, strict=True):
            require_range(self, dim, start, size, step)

    def inside(self, index: Sequence[Expr]) -> list[Expr]:
        """Where in the large tensor an element of the box lies."""
        steps = zip(exprs(self.starts), index, ints(self.steps), strict=True)
        return [start + position * step for start, position, step in steps]


@irdl_op_definition
class SliceOp(StridedOp, IndexMapOp):
    """`y[i] = x[start + i * step]` along each axis, `sizes` being the result's dims.

    Starts count from the front and are in bounds; steps may be negative.
    """

    name = "graph.slice"
    sizes: ShapeAttr = prop_def(ShapeAttr)
    HAS_VJP: ClassVar = True

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        if source.has_rank:
            self.require_box(source.shape, exprs(self.sizes))
        return [TensorType(self.sizes, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        starts, sizes = numbers(self, self.starts), numbers(self, self.sizes)
        return [operands[0][positions(starts, sizes, ints(self.steps))]]

    def fold(self) -> Sequence[SSAValue] | None:
        """The whole tensor."""
        whole = self.result_type == type_of(self.operand) and all(s == 1 for s in ints(self.steps))
        return [self.operand] if whole else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        (known,) = operands
        ends = [exprs(self.starts), exprs(self.sizes)]
        if known is None or not all(len(e) == 1 and e[0].constant is not None for e in ends):
            return None
        (start,), (size,) = numbers(self, self.starts), numbers(self, self.sizes)
        (step,) = ints(self.steps)
        return [known[start + step * position] for position in range(size)]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        shape = type_of(self.operand).dims
        return [b.place(cotangents[0], shape=shape, starts=self.starts, steps=self.steps)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        return self.inside(index)


@irdl_op_definition
class PlaceOp(StridedOp, IndexMapOp):
    """Zeros of the dims `shape`, but `y[start + i * step] = x[i]`: the transpose of `slice`."""

    name = "graph.place"
    shape: ShapeAttr = prop_def(ShapeAttr)
    HAS_VJP: ClassVar = True

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require_box(exprs(self.shape), source.shape)
        return [TensorType(self.shape, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        result = np.zeros(numbers(self, self.shape), operands[0].dtype)
        starts = numbers(self, self.starts)
        result[positions(starts, operands[0].shape, ints(self.steps))] = operands[0]
        return [result]

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        sizes = type_of(self.operand).dims
        return [b.slice(cotangents[0], starts=self.starts, sizes=sizes, steps=self.steps)]

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        raise AssertionError("only the box of the result comes from the operand")

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        kind = self.result_type
        fill(b, results[0], kind.shape, 0, kind.element)
        with b.loops(type_of(self.operand).shape) as index:
            b.store(results[0], self.inside(index), b.load(operands[0], index))


class AlongAxisOp(GraphOp):
    """What `concat` and `split` share: parts that lie one after the other along an axis."""

    axis: IntegerAttr[Any] = prop_def(IntegerAttr)

    def position(self, rank: int) -> int:
        """The axis counted from the front."""
        axis = self.axis.value.data
        self.require(-rank <= axis < rank, f"an axis from {-rank} to {rank - 1}", axis)
        return axis % rank

    def moved(self, index: Sequence[Expr], offset: Expr) -> list[Expr]:
        """An index of a part as one of the whole."""
        position = self.position(len(index))
        return [i + offset if axis == position else i for axis, i in enumerate(index)]


def offsets(sizes: Sequence[Expr]) -> list[Expr]:
    """Where each part begins."""
    starts = [Expr.of(0)]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size)
    return starts


@irdl_op_definition
class ConcatOp(AlongAxisOp):
    """The operands one after the other along `axis`."""

    name = "graph.concat"
    inputs: Sequence[SSAValue] = var_operand_def(TensorType)
    result: SSAValue = result_def(TensorType)
    ONNX: ClassVar = OnnxName("Concat", {"axis": ("axis", None)})
    HAS_VJP: ClassVar = True

    def infer(self) -> Sequence[TensorType]:
        kinds = self.tensor_types()
        self.require(bool(kinds), "one operand or more", "none")
        listed = " and ".join(map(str, dict.fromkeys(kinds)))
        self.require(len({kind.element for kind in kinds}) == 1, "one element type", listed)
        if not all(kind.has_rank for kind in kinds):
            return [tensor(None, kinds[0].element)]
        self.require(len({kind.rank for kind in kinds}) == 1, "operands of one rank", listed)
        axis = self.position(kinds[0].rank)
        others = {(*kind.shape[:axis], *kind.shape[axis + 1 :]) for kind in kinds}
        self.require(len(others) == 1, f"operands that differ along axis {axis} alone", listed)
        shape = list(kinds[0].shape)
        shape[axis] = sum(self.sizes(), Expr.of(0))
        return [tensor(shape, kinds[0].element)]

    def sizes(self) -> list[Expr]:
        """The size of each operand along the axis."""
        return [kind.shape[self.position(kind.rank)] for kind in self.tensor_types()]

    def reference(self, *operands: Array) -> Sequence[Array]:
        return [np.concatenate(operands, self.axis.value.data)]

    def fold(self) -> Sequence[SSAValue] | None:
        """A single operand is the result."""
        return [self.inputs[0]] if len(self.inputs) == 1 else None

    def fold_dims(self, *operands: Sequence[Expr] | None) -> Sequence[Expr] | None:
        known = [operand for operand in operands if operand is not None]
        return [e for k in known for e in k] if len(known) == len(operands) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        sizes = ShapeAttr(tuple(self.sizes()))
        return b.op("split", cotangents[0], axis=self.axis, sizes=sizes).results

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        parts = zip(operands, self.tensor_types(), offsets(self.sizes()), strict=True)
        for operand, kind, offset in parts:
            with b.loops(kind.shape) as index:
                b.store(results[0], self.moved(index, offset), b.load(operand, index))


@irdl_op_definition
class SplitOp(AlongAxisOp):
    """Parts of the given sizes along `axis`, a result each."""

    name = "graph.split"
    sizes: ShapeAttr = prop_def(ShapeAttr)
    operand: SSAValue = operand_def(TensorType)
    parts: Sequence[SSAValue] = var_result_def(TensorType)
    HAS_VJP: ClassVar = True

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

    def reference(self, *operands: Array) -> Sequence[Array]:
        ends = np.cumsum(numbers(self, self.sizes))[:-1]
        return np.split(operands[0], ends, self.axis.value.data)

    def fold(self) -> Sequence[SSAValue] | None:
        """A single part is the operand."""
        return [self.operand] if len(self.results) == 1 else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        return [b.concat(*cotangents, axis=self.axis)]

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        for part, result, offset in zip(
            self.parts, results, offsets(exprs(self.sizes)), strict=True
        ):
            with b.loops(type_of(part).shape) as index:
                b.store(result, index, b.load(operands[0], self.moved(index, offset)))


MODES = ("constant", "edge", "reflect", "wrap")


@irdl_op_definition
class PadOp(IndexMapOp):
    """Elements before and behind each axis; negative numbers crop.

    `pads` lists those before each axis, then those behind. Modes: `constant` (the scalar `value`,
    0 without one), `edge`, `reflect` (about the outermost element), `wrap`.
    """

    name = "graph.pad"
    operand: SSAValue = operand_def(TensorType)  # again, for it comes first
    value: SSAValue | None = opt_operand_def(TensorType)
    pads: ShapeAttr = prop_def(ShapeAttr)
    mode: StringAttr = prop_def(StringAttr)
    HAS_VJP: ClassVar = True

    @property
    def before(self) -> tuple[Expr, ...]:
        """How many elements come before each axis."""
        return exprs(self.pads)[: len(exprs(self.pads)) // 2]

    @property
    def behind(self) -> tuple[Expr, ...]:
        """How many elements come behind each axis."""
        return exprs(self.pads)[len(exprs(self.pads)) // 2 :]

    def infer(self) -> Sequence[TensorType]:
        source, *value = self.tensor_types()
        mode = self.mode.data
        self.require(mode in MODES, f"a mode out of {', '.join(MODES)}", mode)
        self.require(value in ([], [tensor([], source.element)]), "a scalar value", value)
        if not source.has_rank:
            return [source]
        count = len(exprs(self.pads))
        self.require(count == 2 * source.rank, f"{2 * source.rank} pads", count)
        sides = zip(source.shape, self.before, self.behind, strict=True)
        dims = [dim + before + behind for dim, before, behind in sides]
        self.require(not any(map(below_zero, dims)), "dims of 0 or more", self.pads)
        empty = [dim for dim, new in zip(source.shape, dims, strict=True) if dim == 0 != new]
        self.require(mode == "constant" or not empty, "elements to pad with", source)
        return [tensor(dims, source.element)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        x, *value = operands
        before, shape = numbers(self, self.pads)[: x.ndim], self.result_type.static_shape or ()
        indices = [np.arange(size) - start for size, start in zip(shape, before, strict=True)]
        kept = [(i >= 0) & (i < dim) for i, dim in zip(indices, x.shape, strict=True)]
        if self.mode.data == "constant":
            result = np.full(shape, value[0] if value else 0, x.dtype)
            targets = [np.flatnonzero(k) for k in kept]
            result[np.ix_(*targets)] = x[
                np.ix_(*(i[k] for i, k in zip(indices, kept, strict=True)))
            ]
            return [result]
        sources = [self._source(i, dim) for i, dim in zip(indices, x.shape, strict=True)]
        return [x[np.ix_(*sources)]]

    def _source(self, index: Array, dim: int) -> Array:
        if self.mode.data == "edge":
            return np.clip(index, 0, dim - 1)
        if self.mode.data == "wrap":
            return index % dim
        turned = index % max(2 * (dim - 1), 1)
        return np.minimum(turned, 2 * (dim - 1) - turned)

    def fold(self) -> Sequence[SSAValue] | None:
        """Nothing to add."""
        return [self.operand] if all(pad == 0 for pad in exprs(self.pads)) else None

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        if self.mode.data != "constant":
            return [self._with_borders(cotangents[0], b)]
        cropped = ShapeAttr(tuple(-pad for pad in exprs(self.pads)))
        kept = b.pad(cotangents[0], pads=cropped, mode="constant")
        if self.value is None:
            return [kept]
        axes = list(range(self.result_type.rank))
        total, inside = (
            b.reduce_sum(part, axes=axes, keepdims=False) for part in (cotangents[0], kept)
        )
        return [kept, b.sub(total, inside)]

    def _with_borders(self, cotangent: SSAValue, b: GraphBuilder) -> SSAValue:
        """The cotangents of elements, those of their copies on the borders added."""
        for axis, (before, behind) in enumerate(zip(self.before, self.behind, strict=True)):
            dim = type_of(self.operand).shape[axis]
            self._require_single(before, behind, dim)
            total = _part(b, cotangent, axis, before, dim)
            for start, size, front in ((Expr.of(0), before, True), (before + dim, behind, False)):
                if size == 0:
                    continue
                border = _part(b, cotangent, axis, start, size)
                if self.mode.data == "edge":
                    border = b.reduce_sum(border, axes=[axis], keepdims=True)
                place, step = self._origin(before if front else None, dim)
                total = b.add(total, _placed(b, border, axis, dim, place, step))
            cotangent = total
        return cotangent

    def _origin(self, before: Expr | None, dim: Expr) -> tuple[Expr, int]:
        """The index that a border's first element is a copy of, and the step to the next one's; the
        border in front has `before` elements.
        """
        match self.mode.data:
            case "edge":
                return (Expr.of(0) if before is not None else dim - 1), 1
            case "wrap":
                return (dim - before if before is not None else Expr.of(0)), 1
            case _:
                return (before if before is not None else dim - 2), -1

    def _require_single(self, before: Expr, behind: Expr, dim: Expr) -> None:
        """Refuses borders that copy an element twice, or crop."""
        most = {"wrap": dim, "reflect": dim - 1}.get(self.mode.data)
        rests = [before, behind] + ([] if most is None else [most - before, most - behind])
        if any((each.range({})[0] or 0) < 0 or each.range({})[0] is None for each in rests):
            rule = f"borders within 0 and {most or 'any size'}, in mode {self.mode.data}"
            raise WeftError(f"{self.name} requires {rule}, to be differentiated, got {self.pads}")

    def source_index(self, index: Sequence[Expr]) -> Sequence[Expr]:
        dims = type_of(self.operand).shape
        axes = zip(index, self.before, dims, strict=True)
        return [self._source_expr(position - before, dim) for position, before, dim in axes]

    def _source_expr(self, index: Expr, dim: Expr) -> Expr:
        if self.mode.data == "edge":
            return maximum([minimum([index, dim - 1]), 0])
        if self.mode.data == "wrap":
            return index % dim
        last = 2 * (dim - 1)
        turned = index % maximum([last, 1])
        return minimum([turned, last - turned])

    def lower(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        if self.mode.data != "constant":
            super().lower(b, operands, results)
            return
        kind = self.result_type
        with b.loops(kind.shape) as index:
            around = b.load(operands[1], []) if len(operands) > 1 else b.constant(0, kind.element)
            b.store(results[0], index, around)
        self._lower_inside(b, operands[0], results[0])

    def _lower_inside(self, b: LoopBuilder, operand: SSAValue, result: SSAValue) -> None:
        """Copies what is not cropped."""
        skipped = [maximum([-before, 0]) for before in self.before]
        dropped = [maximum([-behind, 0]) for behind in self.behind]
        dims = type_of(self.operand).shape
        kept = [d - first - last for d, first, last in zip(dims, skipped, dropped, strict=True)]
        with b.loops(kept) as index:
            source = [i + first for i, first in zip(index, skipped, strict=True)]
            target = [
                i + maximum([before, 0]) for i, before in zip(index, self.before, strict=True)
            ]
            b.store(result, target, b.load(operand, source))


def _part(b: GraphBuilder, x: SSAValue, axis: int, start: Expr, size: Expr) -> SSAValue:
    """The elements along one axis from `start` on."""
    dims = list(type_of(x).shape)
    starts = [Expr.of(0)] * len(dims)
    dims[axis], starts[axis] = size, start
    sizes = ShapeAttr(tuple(dims))
    return b.slice(x, starts=ShapeAttr(tuple(starts)), sizes=sizes, steps=[1] * len(dims))


def _placed(b: GraphBuilder, x: SSAValue, axis: int, dim: Expr, start: Expr, step: int) -> SSAValue:
    """Zeros, `dim` along one axis, but the elements there from `start` on."""
    dims = list(type_of(x).shape)
    starts, steps = [Expr.of(0)] * len(dims), [1] * len(dims)
    dims[axis], starts[axis], steps[axis] = dim, start, step
    return b.place(x, shape=ShapeAttr(tuple(dims)), starts=ShapeAttr(tuple(starts)), steps=steps)


OPS: tuple[type[GraphOp], ...] = (SliceOp, PlaceOp, ConcatOp, SplitOp, PadOp)
