"""Pooling: each element of the result is the maximum or mean of a window of the operand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, Float32Type, Float64Type
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from weft.dialects.expr import Expr, product, row_major_strides
from weft.dialects.graph.core.accumulate import fill, lowest, round_totals, start_totals, widen
from weft.dialects.graph.core.algebra import Term, counted, size_term
from weft.dialects.graph.core.batching import merged
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import GraphOp, OnnxName, ints
from weft.dialects.graph.core.sharding_rule import ShardingRule
from weft.dialects.graph.core.types import (
    FLOATS,
    I64,
    NUMBERS,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.core.window import Window, WindowOp, spatial_names, static, tap_names
from weft.dialects.graph.ops.reduce import (
    COMBINE,
    ReduceMaxOp,
    ReduceMeanOp,
    ReductionOp,
    evaluate_mean,
    mean_of,
)
from weft.dialects.graph.ops.search import beats
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.loop.scalar import Number, Scalar, compute_type
from weft.dialects.weights import Array


class PoolOp(WindowOp):
    """A window of the attribute `kernel` over `[n, c, spatial...]`, each channel apart.

    With `ceil_mode` a last window may stick out at the end. A subclass says with what the terms are
    combined (`KIND`), what of each element (`term`), and what becomes of the total (`finish`).
    """

    ELEMENTS: ClassVar[tuple[Attribute, ...]] = FLOATS
    COMBINER: ClassVar[str] = "add"
    FINISHES: ClassVar[bool] = True
    REUSES_OPERANDS: ClassVar = True
    operand: SSAValue = operand_def(TensorType)
    kernel: DenseArrayBase = prop_def(DenseArrayBase)
    ceil_mode: BoolAttr = prop_def(BoolAttr)
    result: SSAValue = result_def(TensorType)

    def window(self) -> Window:
        """The window that slides over the operand."""
        kernel = tuple(Expr.of(extent) for extent in ints(self.kernel))
        spatial = type_of(self.operand).shape[2:]
        return self.window_over(spatial, kernel, ceil=bool(self.ceil_mode.value.data))

    def result_element(self) -> Attribute:
        """The element type of the result."""
        return type_of(self.operand).element

    def start(self, element: Attribute) -> Number:
        """What stands for the elements outside the operand, and what totals start from."""
        return 0

    def term(self, x: Scalar) -> Scalar:
        """What of an element enters the total."""
        return x

    def finish(
        self, b: LoopBuilder, total: Scalar, window: Window, position: Sequence[Expr]
    ) -> Scalar:
        """The result at a position from the total there."""
        return total

    def infer(self) -> Sequence[TensorType]:
        source = type_of(self.operand)
        self.require(source.element in self.ELEMENTS, "elements that it can pool", source.element)
        if not source.has_rank:
            return [tensor(None, self.result_element())]
        self.require(source.rank > 2, "an operand of rank 3 or more", source)
        window = self.window()
        for axis in window.axes:
            widest = max(window.before[axis].constant or 0, window.after[axis].constant or 0)
            inside = widest < (window.reach(axis).constant or 0)
            self.require(inside, "pads narrower than the window", f"{widest} and {source}")
        return [tensor((*source.shape[:2], *self.positions(window)), self.result_element())]

    def sharding_rule(self) -> ShardingRule | None:
        factors = ("n", "c", *[None] * len(self.window().axes))
        return ShardingRule((factors,), (factors,))

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.fitting(self.window())

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        tensor_type, shape, window = type_of(self.operand), self.result_type.shape, self.window()
        start = self.start(tensor_type.element)
        padded = window.pad(b, operands[0], tensor_type.shape[:2], tensor_type.element, start)
        final = None if self.FINISHES else results[0]
        total = start_totals(b, shape, tensor_type.element, start, final)
        rank = len(shape) - 2
        names, combine = "nc" + spatial_names(rank), COMBINE[self.COMBINER]
        with (
            b.loops(shape, names) as index,
            b.reduce(window.kernel, self.COMBINER, tap_names(rank)) as taps,
        ):
            x = self.term(b.load(padded, (*index[:2], *window.source(index[2:], taps))))
            b.store(total, index, combine(b.load(total, index), x))
        if not self.FINISHES:
            round_totals(b, shape, total, results[0])
            return
        with b.loops(shape, names) as index:
            b.store(results[0], index, self.finish(b, b.load(total, index), window, index[2:]))

    def spread(self, b: GraphBuilder, terms: Term) -> Term:
        """What each position gives to every element of its window, added up over positions."""
        window = self.window()
        rank = len(window.axes)
        lead, positions = terms.shape[:2], terms.shape[2:]
        windows = terms.reshape((*lead, *[1] * rank, *positions))
        windows = windows.expand((*lead, *window.kernel, *positions))
        spatial = ShapeAttr(window.spatial)
        return terms.of(b.fold(windows.value, spatial=spatial, **window.attributes()))

    def reads(self, window: Window, padded: Array) -> list[Array]:
        """What each tap reads of the padded operand over all positions."""
        taps = np.ndindex(*ints(self.kernel))
        return [padded[(..., *window.slices(tap))] for tap in taps]


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """The greatest element of each window; NaN where there is one."""

    name = "graph.max_pool"
    ELEMENTS: ClassVar = NUMBERS
    COMBINER: ClassVar = "max"
    FINISHES: ClassVar = False

    def start(self, element: Attribute) -> Number:
        return lowest(element)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """The cotangents go to the first greatest element of each window."""
        attributes = dict(self.properties)
        counts = {"column_major": False, "per_plane": True}
        positions = Term(b, b.max_pool_indices(self.operand, **counts, **attributes))
        dy, tensor_type = Term(b, cotangents[0]), type_of(self.operand)
        plane, count = product(tensor_type.shape[2:]), product(dy.shape[2:])
        zeros = Term(b, b.filled(0, self.operand)).reshape([*tensor_type.shape[:2], plane])
        total = b.scatter_elements(
            zeros.value,
            positions.reshape([*dy.shape[:2], count]).value,
            dy.reshape([*dy.shape[:2], count]).value,
            axis=2,
            reduction="add",
        )
        return [dy.of(total).reshape(tensor_type.shape).value]

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, x = self.window(), operands[0]
        least = np.array(lowest(self.result_type.element)).astype(x.dtype)
        padded = np.pad(x, window.pad_widths(), constant_values=least)
        result = np.full(self.result_type.static_shape or (), least)
        for read in self.reads(window, padded):
            result = np.maximum(result, read)
        return [result]


@irdl_op_definition
class MaxPoolIndicesOp(PoolOp):
    """Where in the whole tensor the first greatest element of each window is.

    Positions count in row-major order; with `column_major` the spatial dims count the other way,
    and with `per_plane` each channel of each sample counts from 0.
    """

    name = "graph.max_pool_indices"
    ELEMENTS: ClassVar = NUMBERS
    column_major: BoolAttr = prop_def(BoolAttr)
    per_plane: BoolAttr | None = opt_prop_def(BoolAttr)

    @property
    def counts_planes(self) -> bool:
        """Whether positions count within a plane."""
        return self.per_plane is not None and self.per_plane.value.data != 0

    def result_element(self) -> Attribute:
        return I64

    def steps(self) -> list[Expr]:
        """How far apart, in the count of positions, two neighbours along each dim are."""
        shape = type_of(self.operand).shape
        spatial = shape[2:]
        inner = row_major_strides(spatial)
        if self.column_major.value.data:
            inner = row_major_strides(spatial[::-1])[::-1]
        if self.counts_planes:
            return [Expr.of(0), Expr.of(0), *inner]
        return [product((shape[1], *spatial)), product(spatial), *inner]

    def sharding_rule(self) -> ShardingRule | None:
        """There is none of indices that count in the whole tensor."""
        return super().sharding_rule() if self.counts_planes else None

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, x = self.window(), operands[0]
        steps = static(self.steps())
        grid = np.indices(x.shape, np.int64)
        count = sum((axis * step for axis, step in zip(grid, steps, strict=True)), np.int64(0))
        widths = window.pad_widths()
        positions = np.pad(np.asarray(count), widths, constant_values=-1)
        shape = self.result_type.static_shape or ()
        best, found = np.zeros(shape, x.dtype), np.full(shape, -1, np.int64)
        reads = zip(
            self.reads(window, np.pad(x, widths)), self.reads(window, positions), strict=True
        )
        for value, position in reads:
            better = (value > best) | (np.isnan(value) & ~np.isnan(best))
            wins = (position >= 0) & ((found < 0) | better)
            best, found = np.where(wins, value, best), np.where(wins, position, found)
        return [found]

    def vmap(self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder) -> Sequence[SSAValue]:
        """Positions count in each sample apart."""
        results = merged(self, operands, b)
        assert results is not None, "it has one operand"
        (found,) = results
        if self.counts_planes:
            return [found]
        numbers = counted(b, size).reshape([size, *[1] * self.result_type.rank])
        return [(Term(b, found) - numbers * size_term(b, type_of(self.operand).size, I64)).value]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Looks at the taps inside the operand alone, in order: of a row of positions each tap of
        the last axis at once.
        """
        tensor_type, shape, window = type_of(self.operand), self.result_type.shape, self.window()
        best = b.temporary(shape, compute_type(tensor_type.element), "best")
        fill(b, best, shape, 0, tensor_type.element)
        fill(b, results[0], shape, -1, I64)
        rank = len(shape) - 2
        *outer, last = window.axes
        names, taps = spatial_names(rank), tap_names(rank)
        with b.loops(shape[:-1], "nc" + names[:-1]) as row:
            first = [window.taps_before_input(axis, row[axis + 2]) for axis in outer]
            ends = [window.taps_below(axis, row[axis + 2], window.spatial[axis]) for axis in outer]
            counts = [end - start for start, end in zip(first, ends, strict=True)]
            with b.loops((*counts, window.kernel[last]), taps) as steps:
                begin, count = window.positions_inside(last, steps[-1])
                with b.loops([count], names[-1:]) as (step,):
                    inner = [start + each for start, each in zip(first, steps[:-1], strict=True)]
                    index = (*row, begin + step)
                    padded = window.source(index[2:], (*inner, steps[-1]))
                    spatial = [i - front for i, front in zip(padded, window.before, strict=True)]
                    self._visit(b, (operands[0], best, results[0]), index, (*row[:2], *spatial))

    def _visit(
        self,
        b: LoopBuilder,
        buffers: tuple[SSAValue, SSAValue, SSAValue],
        index: Sequence[Expr],
        indices: Sequence[Expr],
    ) -> None:
        source, best, found = buffers
        x, bound, position = b.load(source, indices), b.load(best, index), b.load(found, index)
        count = sum((i * step for i, step in zip(indices, self.steps(), strict=True)), Expr.of(0))
        wins = position.compare("lt", 0) | beats(x, bound)
        b.store(best, index, wins.select(x, bound))
        b.store(found, index, wins.select(b.index(count, I64), position))


@irdl_op_definition
class AveragePoolOp(PoolOp):
    """The mean of each window's elements inside the operand, or inside the padding too.

    What of a window sticks out beyond the padding never counts.
    """

    name = "graph.average_pool"
    count_include_pad: BoolAttr = prop_def(BoolAttr)

    def counts(self, window: Window, position: Sequence[Expr]) -> Sequence[Expr]:
        """How many elements of the window at a position count along each axis."""
        includes = bool(self.count_include_pad.value.data)
        if not window.is_padded or (includes and not window.ceil):
            return window.kernel
        counts: list[Expr] = []
        for axis, index in enumerate(position):
            end = window.spatial[axis] + (window.after[axis] if includes else 0)
            taps = window.taps_below(axis, index, end)
            counts.append(taps if includes else taps - window.taps_before_input(axis, index))
        return counts

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Each element of a window gets an equal part."""
        dy = Term(b, cotangents[0])
        return [self.spread(b, dy / self._counts(b)).value]

    def _counts(self, b: GraphBuilder) -> Term:
        """How many elements of each window count: the sum of ones where they do."""
        window = self.window()
        one = Term(b, b.constant_of(1, self.result_type.element))
        counted = one.expand((1, 1, *window.spatial))
        if self.count_include_pad.value.data:
            zeros = [Expr.of(0)] * 2
            pads = ShapeAttr((*zeros, *window.before, *zeros, *window.after))
            counted = one.of(b.pad(counted.value, one.value, pads=pads, mode="constant"))
            inner = [window.before[axis] + window.after[axis] for axis in window.axes]
            spatial = [dim + extra for dim, extra in zip(window.spatial, inner, strict=True)]
            none = (Expr.of(0),) * len(spatial)
            padded = [window.padded(axis) for axis in window.axes]
            beyond = tuple(whole - dim for whole, dim in zip(padded, spatial, strict=True))
            attributes = window.attributes() | {"pads": ShapeAttr((*none, *beyond))}
        else:
            attributes = window.attributes()
        kernel = ShapeAttr(window.kernel)
        taps = one.of(b.unfold(counted.value, kernel=kernel, **attributes))
        return taps.sum(range(2, 2 + len(window.axes)))

    def finish(
        self, b: LoopBuilder, total: Scalar, window: Window, position: Sequence[Expr]
    ) -> Scalar:
        counts = self.counts(window, position)
        exact = isinstance(total.element, Float32Type | Float64Type)
        if not exact or product(counts).constant is not None:
            return mean_of(b, total, product(counts))
        count = b.index(counts[0], total.element)
        for each in counts[1:]:
            count = count * b.index(each, total.element)
        return total / count

    def reference(self, *operands: Array) -> Sequence[Array]:
        window, x = self.window(), widen(operands[0])
        widths = window.pad_widths()
        counted = np.ones(x.shape[2:], x.dtype)
        pads = list(zip(static(window.before), static(window.after), strict=True))
        includes = int(bool(self.count_include_pad.value.data))
        counted = np.pad(counted, pads, constant_values=includes)
        beyond = [(0, w - a) for (_, w), (_, a) in zip(widths[2:], pads, strict=True)]
        count = sum(self.reads(window, np.pad(counted, beyond)))
        total = sum(self.reads(window, np.pad(x, widths)))
        with np.errstate(all="ignore"):
            return [np.asarray(total / count).astype(operands[0].dtype)]


class GlobalPoolOp(ReductionOp):
    """All spatial dims of `[n, c, spatial...]` reduced to dims of 1."""

    ELEMENTS: ClassVar = FLOATS

    @property
    def keeps_dims(self) -> bool:
        return True

    def reduced(self) -> tuple[int, ...]:
        return tuple(range(2, type_of(self.operand).rank))

    @abstractmethod
    def as_reduction(self) -> type[GraphOp] | None:
        """The reduction that computes the same, if there is one."""

    def fold(self) -> GraphOp | None:
        """A reduction over the spatial axes."""
        reduction = self.as_reduction()
        if reduction is None or not type_of(self.operand).has_rank:
            return None
        axes = list(self.reduced())
        return reduction.of(self.operand, axes=axes, keepdims=True, location=self.location)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """That of the reduction."""
        reduction = self.as_reduction()
        if reduction is None:
            return super().vjp(cotangents, b)
        name = reduction.name.removeprefix("graph.")
        op = b.op(name, self.operand, axes=list(self.reduced()), keepdims=True)
        return op.vjp(cotangents, b)

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)


@irdl_op_definition
class GlobalAveragePoolOp(GlobalPoolOp):
    """The mean of each channel."""

    name = "graph.global_average_pool"
    ONNX: ClassVar = OnnxName("GlobalAveragePool")
    FINISHES: ClassVar = True

    def as_reduction(self) -> type[GraphOp]:
        return ReduceMeanOp

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return evaluate_mean(x, axes)

    def finish(self, b: LoopBuilder, total: Scalar) -> Scalar:
        return mean_of(b, total, self.count())


@irdl_op_definition
class GlobalMaxPoolOp(GlobalPoolOp):
    """The greatest element of each channel."""

    name = "graph.global_max_pool"
    ONNX: ClassVar = OnnxName("GlobalMaxPool")
    COMBINER: ClassVar = "max"

    def as_reduction(self) -> type[GraphOp]:
        return ReduceMaxOp

    def start(self, element: Attribute) -> Number:
        return lowest(element)

    def evaluate(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.max(x, axis=axes, keepdims=True, initial=-np.inf)


OPS = (MaxPoolOp, MaxPoolIndicesOp, AveragePoolOp, GlobalAveragePoolOp, GlobalMaxPoolOp)
