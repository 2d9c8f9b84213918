"""Convolutions and transposed convolutions over any number of spatial dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from weft.dialects.expr import Expr, maximum, minimum, product
from weft.dialects.graph.core.accumulate import fill, round_totals, start_totals, widen
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.conv_taps import (
    Taps,
    backward_taps,
    forward_taps,
    phase_padding,
    phase_taps,
    with_bias,
)
from weft.dialects.graph.core.filter_slope import columns, filter_convolved, slides_under
from weft.dialects.graph.core.op import ints
from weft.dialects.graph.core.sharding_rule import ShardingRule, convolution_rule
from weft.dialects.graph.core.types import (
    I32,
    NUMBERS,
    Shape,
    ShapeAttr,
    TensorType,
    tensor,
    type_of,
)
from weft.dialects.graph.core.window import Window, WindowOp, spatial_names, static, tap_names
from weft.dialects.loop.builder import Buffers, LoopBuilder
from weft.dialects.weights import Array


class ConvolutionOp(WindowOp):
    """What both convolutions share: image `[n, c, spatial...]`, filter, optional bias `[m]`.

    Channels fall into `group` groups that are convolved apart.
    """

    REUSES_OPERANDS: ClassVar = True
    image: SSAValue = operand_def(TensorType)
    filter: SSAValue = operand_def(TensorType)
    bias: SSAValue | None = opt_operand_def(TensorType)
    group: IntegerAttr[Any] = prop_def(IntegerAttr)
    result: SSAValue = result_def(TensorType)

    @property
    def groups(self) -> int:
        """How many groups the channels fall into."""
        return self.group.value.data

    def window(self) -> Window:
        """The window that slides over the image, or that each of its elements scatters."""
        return self.window_over(type_of(self.image).shape[2:], type_of(self.filter).shape[2:])

    def check_operands(self) -> bool:
        """Raises where operands do not go together; whether their ranks are known."""
        tensor_types = self.tensor_types()
        self.check_elements()
        listed = " and ".join(map(str, tensor_types))
        self.require(self.groups > 0, "a positive group", self.groups)
        if not (tensor_types[0].has_rank and tensor_types[1].has_rank):
            return False
        self.require(tensor_types[0].rank > 2, "an image of rank 3 or more", listed)
        self.require(
            tensor_types[0].rank == tensor_types[1].rank,
            "an image and a filter of one rank",
            listed,
        )
        return True

    def check_elements(self) -> None:
        """Operands are of one numeric type."""
        self.require_one_element(NUMBERS, "numeric operands")

    def check_bias(self, channels: Expr) -> None:
        """The bias has an element for each channel of the result."""
        if self.bias is not None and type_of(self.bias).has_rank:
            tensor_type = type_of(self.bias)
            self.require(
                tensor_type.shape == (channels,), f"a bias of {channels} elements", tensor_type
            )

    def contract(
        self,
        b: LoopBuilder,
        total: SSAValue,
        image: SSAValue,
        filters: tuple[SSAValue, bool],
        taps: Taps,
    ) -> None:
        """The nest `total[n, o, p] += image[n, c, source(p, t)] * filter[o, c, place(p, t)]`.

        The filter is indexed `[o, c, ...]`, or transposed: `[c, o, ...]`.
        """
        coefficients, is_transposed = filters
        batch, channels = self.result_type.shape[:2]
        per_group = channels // self.groups
        depth = type_of(self.image).shape[1] // self.groups
        grouped = self.groups > 1 and per_group != 1
        single = self.groups > 1 and depth == 1
        outer = (batch, self.groups, per_group) if grouped else (batch, channels)
        names = ("ngo" if grouped else "ng" if self.groups > 1 else "no") + taps.names
        inner = taps.kernel if single else (depth, *taps.kernel)
        inner_names = ("" if single else "c") + tap_names(len(taps.kernel))
        with (
            b.loops((*outer, *taps.positions), names) as index,
            b.reduce(inner, "add", inner_names) as reduced,
        ):
            position, tap = index[len(outer) :], reduced[len(inner) - len(taps.kernel) :]
            group = index[1] if self.groups > 1 else Expr.of(0)
            c = Expr.of(0) if single else reduced[0]
            o = index[2] if grouped else index[1] - group
            channel = group * per_group + o
            x = b.load(image, (index[0], group * depth + c, *taps.source(position, tap)))
            row = (group * depth + c, o) if is_transposed else (channel, c)
            w = b.load(coefficients, (*row, *taps.index_at(position, tap)))
            target = (index[0], channel, *position)
            sums = b.load(total, target)
            b.store(total, target, sums + x.cast(sums.element) * w.cast(sums.element))

    def finish(
        self,
        b: LoopBuilder,
        total: SSAValue,
        operands: Sequence[SSAValue],
        results: Sequence[SSAValue],
    ) -> None:
        """Adds the bias, if there is one, and brings the totals into the result."""
        shape = self.result_type.shape
        if self.bias is None:
            round_totals(b, shape, total, results[0])
            return
        with b.loops(shape, "no" + spatial_names(len(shape) - 2)) as index:
            b.store(results[0], index, b.load(total, index) + b.load(operands[2], (index[1],)))

    def in_groups(self, x: Array, channel_axis: int) -> Array:
        """An array with the axis of channels split into groups and channels of a group."""
        shape = x.shape
        size = shape[channel_axis] // self.groups
        return x.reshape(*shape[:channel_axis], self.groups, size, *shape[channel_axis + 1 :])

    def grouped(self, x: Term, channel_axis: int, spatial: int) -> Term:
        """A value with that axis split into groups and channels, and the last dims joined."""
        shape = x.shape
        size = shape[channel_axis] // self.groups
        inner = shape[channel_axis + 1 : len(shape) - spatial]
        joined = product(shape[len(shape) - spatial :])
        return x.reshape((*shape[:channel_axis], self.groups, size, *inner, joined))

    def bias_slope(self, dy: Term) -> list[SSAValue]:
        """The bias's cotangent, where there is a bias."""
        axes = [axis for axis in range(len(dy.shape)) if axis != 1]
        return [] if self.bias is None else [dy.sum(axes).value]


class SlidingConvolutionOp(ConvolutionOp):
    """What convolutions of windows share that slide over the image."""

    @property
    def total_element(self) -> Attribute:
        """The element type of the result."""
        return type_of(self.image).element

    @property
    def fill_value(self) -> int:
        """What is outside of the image."""
        return 0

    def infer(self) -> Sequence[TensorType]:
        image, filters = self.tensor_types()[:2]
        if not self.check_operands():
            return [tensor(None, self.total_element)]
        channels = filters.shape[0]
        got = f"{image} and {filters} in {self.groups} groups"
        matches = filters.shape[1] * self.groups == image.shape[1]
        self.require(matches, "a filter of the image's channels over the groups", got)
        self.require(channels % self.groups == 0, "groups of equally many filters", got)
        self.check_bias(channels)
        positions = self.positions(self.window())
        return [tensor((image.shape[0], channels, *positions), self.total_element)]

    def sharding_rule(self) -> ShardingRule | None:
        depth, has_bias = type_of(self.filter).shape[1], self.bias is not None
        return convolution_rule(len(self.window().axes), self.groups, depth, has_bias)

    def local_properties(self, results: Sequence[TensorType]) -> Mapping[str, Attribute]:
        """Ranks have as many groups as they have of the result's channels."""
        channels, own = (each.shape[1].constant for each in (self.result_type, results[0]))
        if channels is None or own is None or self.groups == 1:
            return self.properties
        return {
            **self.properties,
            "group": IntegerAttr(self.groups * own // channels, self.group.type),
        }

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        return self.fitting(self.window())

    def reference(self, *operands: Array) -> Sequence[Array]:
        wide = np.int32 if self.total_element == I32 else operands[0].dtype
        image, filters, *bias = (widen(operand.astype(wide)) for operand in operands)
        window = self.window()
        x = self.in_groups(np.pad(image, window.pad_widths(), constant_values=self.fill_value), 1)
        w = self.in_groups(filters, 0)
        positions = static(self.result_type.shape)[2:]
        y = np.zeros((len(x), *w.shape[:2], *positions), x.dtype)
        for taps in np.ndindex(*w.shape[3:]):
            read = x[(..., *window.slices(taps))]
            y += np.einsum("ngc...,goc->ngo...", read, w[(..., *taps)])
        return [with_bias(y, bias, wide)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        image, window = type_of(self.image), self.window()
        padded = window.pad(b, operands[0], image.shape[:2], image.element, self.fill_value)
        final = results[0] if self.bias is None else None
        total = start_totals(b, self.result_type.shape, self.total_element, 0, final)
        taps = forward_taps(window, self.result_type.shape[2:])
        self.contract(b, total, padded, (operands[1], False), taps)
        self.finish(b, total, operands, results)


@irdl_op_definition
class ConvOp(SlidingConvolutionOp):
    """`y[n, o, p] = bias[o] + sum_ct x[n, c, p * stride + t * dilation - pad] * w[o, c, t]`.

    The filter is `[m, c / group, kernel...]`. Outside the image is zero.
    """

    name = "graph.conv"

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """`dx` adds up windows of the filter times `dy`, `dw` sums windows of `x` times `dy`."""
        window, dy = self.window(), Term(b, cotangents[0])
        x, filters = Term(b, self.image), type_of(self.filter)
        if slides_under(window, dy, filters, self.groups):
            dw = filter_convolved(b, x, dy, window, self.groups)
        else:
            slopes = self.grouped(dy, 1, len(window.axes))
            taken = columns(b, x, window, self.groups, self.result_type.shape[2:])
            found = b.einsum(slopes.value, taken.value, equation="ngop,ngctp->goct")
            dw = dy.of(found).reshape(filters.shape)
        return [self._image_slope(b, dy, window), dw.value, *self.bias_slope(dy)]

    def _image_slope(self, b: GraphBuilder, dy: Term, window: Window) -> SSAValue:
        """What windows that move by one element scatter is a convolution of `dy` with the filter
        turned round, its channels exchanged; windows with other strides are added up.
        """
        image, reaches = type_of(self.image), [window.reach(axis) - 1 for axis in window.axes]
        sides = (*window.before, *window.after)
        pads = [reach - side for reach, side in zip(reaches * 2, sides, strict=True)]
        lows = [pad.range({})[0] for pad in pads]
        if set(window.strides) <= {1} and all(low is not None and low >= 0 for low in lows):
            return b.conv(
                dy.value,
                self._flipped_filter(b),
                strides=[1] * len(reaches),
                dilations=list(window.dilations),
                pads=ShapeAttr(tuple(pads)),
                group=self.group,
            )
        slopes, rank = self.grouped(dy, 1, len(reaches)), len(reaches)
        w = self.grouped(Term(b, self.filter), 0, rank)
        windows = dy.of(b.einsum(slopes.value, w.value, equation="ngop,goct->ngctp"))
        positions = self.result_type.shape[2:]
        windows = windows.reshape((*image.shape[:2], *window.kernel, *positions))
        spatial = ShapeAttr(window.spatial)
        return b.fold(windows.value, spatial=spatial, **window.attributes())

    def _flipped_filter(self, b: GraphBuilder) -> SSAValue:
        """The filter `[c, m / group, kernel...]` whose taps are in reverse."""
        w = Term(b, self.filter)
        outputs, inputs, *kernel = w.shape
        groups, taps = self.groups, range(3, 3 + len(kernel))
        grouped = w.reshape((groups, outputs // groups, inputs, *kernel))
        turned = grouped.transpose((0, 2, 1, *taps)).reshape(
            (inputs * groups, outputs // groups, *kernel)
        )
        for axis, taps in enumerate(kernel, 2):
            turned = turned if taps == 1 else turned.flip(axis)
        return turned.value


@irdl_op_definition
class ConvTransposeOp(ConvolutionOp):
    """The transpose of a convolution as a linear map: each element of the image scatters a window.

    The filter is `[c, m / group, kernel...]`. A spatial dim becomes
    `stride * (dim - 1) + output_padding + (kernel - 1) * dilation + 1` less the pads.
    """

    name = "graph.conv_transpose"
    output_padding: DenseArrayBase | None = opt_prop_def(DenseArrayBase)

    def extra(self, rank: int) -> tuple[int, ...]:
        """How many elements each spatial dim of the result has at its end beyond the windows."""
        return (0,) * rank if self.output_padding is None else ints(self.output_padding)

    def infer(self) -> Sequence[TensorType]:
        image, filters = self.tensor_types()[:2]
        if not self.check_operands():
            return [tensor(None, image.element)]
        got = f"{image} and {filters} in {self.groups} groups"
        self.require(filters.shape[0] == image.shape[1], "a filter of the image's channels", got)
        self.require(image.shape[1] % self.groups == 0, "groups of equally many channels", got)
        channels = filters.shape[1] * self.groups
        self.check_bias(channels)
        return [tensor((image.shape[0], channels, *self._spatial(self.window())), image.element)]

    def _spatial(self, window: Window) -> list[Expr]:
        extra = self.extra(len(window.axes))
        fits = len(extra) == len(window.axes) and all(size >= 0 for size in extra)
        self.require(fits, f"{len(window.axes)} output paddings of 0 or more", list(extra))
        dims: list[Expr] = []
        for axis in window.axes:
            full = (window.spatial[axis] - 1) * window.strides[axis] + window.reach(axis)
            dims.append(full + extra[axis] - window.before[axis] - window.after[axis])
            left = dims[-1].constant
            self.require(left is None or left > 0, "a result that the pads leave", str(dims[-1]))
        return dims

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """The filter has taps, and pads leave something of the result."""
        extents = (*self.window().kernel, *self._spatial(self.window()))
        return [pair for extent in extents for pair in at_least(extent, 1)]

    def reference(self, *operands: Array) -> Sequence[Array]:
        image, filters, *bias = (widen(operand) for operand in operands)
        window, spatial = self.window(), static(self.result_type.shape)[2:]
        x, w = self.in_groups(image, 1), self.in_groups(filters, 0)
        before, after = static(window.before), static(window.after)
        full = [dim + sum(pads) for dim, *pads in zip(spatial, before, after, strict=True)]
        y = np.zeros((*x.shape[:2], w.shape[2], *full), x.dtype)
        for taps in np.ndindex(*w.shape[3:]):
            steps = zip(taps, window.dilations, window.strides, x.shape[3:], strict=True)
            written = [slice(t * d, t * d + s * (dim - 1) + 1, s) for t, d, s, dim in steps]
            y[(..., *written)] += np.einsum("ngc...,gco->ngo...", x, w[(..., *taps)])
        kept = [slice(start, start + dim) for start, dim in zip(before, spatial, strict=True)]
        return [with_bias(y[(..., *kept)], bias, operands[0].dtype)]

    def lower(self, b: LoopBuilder, operands: Buffers, results: Buffers) -> None:
        """Each phase of the strides as a convolution of its own, where the strides divide the
        filter; else spreads the image by the strides and convolves it with the flipped filter.
        """
        element, window = self.result_type.element, self.window()
        if self._has_phases(window):
            self._lower_phases(b, operands, results)
            return
        spread = self._spread(b, operands[0], element, window)
        final = results[0] if self.bias is None else None
        total = start_totals(b, self.result_type.shape, element, 0, final)
        dense = _dense(window, self.result_type.shape[2:])
        taps = backward_taps(dense, self.result_type.shape[2:])
        self.contract(b, total, spread, (operands[1], True), taps)
        self.finish(b, total, operands, results)

    def vjp(self, cotangents: Sequence[SSAValue], b: GraphBuilder) -> Sequence[SSAValue | None]:
        """Both sum windows of `dy`: `dx` times the filter, `dw` times `x`."""
        dy, window = Term(b, cotangents[0]), self.window()
        image, filters = type_of(self.image), type_of(self.filter)
        scattered = Window(
            dy.shape[2:],
            window.kernel,
            window.strides,
            window.dilations,
            window.before,
            window.after,
        )
        taken = columns(b, dy, scattered, self.groups, image.shape[2:])
        w = self.grouped(Term(b, self.filter), 0, len(window.axes))
        x = self.grouped(Term(b, self.image), 1, len(window.axes))
        dx = b.einsum(taken.value, w.value, equation="ngotp,gcot->ngcp")
        dw = b.einsum(taken.value, x.value, equation="ngotp,ngcp->gcot")
        gradients = [dy.of(dx).reshape(image.shape), dy.of(dw).reshape(filters.shape)]
        return [*(gradient.value for gradient in gradients), *self.bias_slope(dy)]

    def _has_phases(self, window: Window) -> bool:
        """Whether every phase of the strides has equally many taps and positions."""
        positions = self.result_type.shape[2:]
        sizes = zip(window.kernel, positions, window.strides, strict=True)
        divided = all(k % stride == 0 and dim % stride == 0 for k, dim, stride in sizes)
        return divided and set(window.dilations) == {1} and set(window.strides) != {1}

    def _lower_phases(
        self, b: LoopBuilder, operands: Sequence[SSAValue], results: Sequence[SSAValue]
    ) -> None:
        """The result at `s*m + r` is
        `sum_ct x[n, c, m + (r + pad) div s - t] * w[c, o, s*t + (r + pad) mod s]`.
        """
        tensor_type, window, shape = type_of(self.image), self.window(), self.result_type.shape
        taps, padding = phase_taps(window, shape[2:]), phase_padding(window, shape[2:])
        image = padding.pad(b, operands[0], tensor_type.shape[:2], tensor_type.element, 0)
        total = start_totals(b, (*shape[:2], *taps.positions), tensor_type.element, 0)
        self.contract(b, total, image, (operands[1], True), taps)
        rank = len(window.axes)
        with b.loops((*shape[:2], *taps.positions), "no" + taps.names) as index:
            steps = zip(index[2 : 2 + rank], window.strides, index[2 + rank :], strict=True)
            target = (*index[:2], *(m * stride + r for m, stride, r in steps))
            bias = [] if self.bias is None else [b.load(operands[2], (index[1],))]
            b.store(results[0], target, sum(bias, b.load(total, index)))

    def _spread(
        self, b: LoopBuilder, source: SSAValue, element: Attribute, window: Window
    ) -> SSAValue:
        """Zeros with image element `i` at `front + i * stride`, where that lies inside."""
        lead = type_of(self.image).shape[:2]
        dense = _dense(window, self.result_type.shape[2:])
        shape = (*lead, *dense.spatial)
        target = b.temporary(shape, element, "spread")
        fill(b, target, shape, 0, element)
        first: list[Expr] = []
        counts: list[Expr] = []
        fronts = [window.reach(axis) - 1 - window.before[axis] for axis in window.axes]
        for axis, front in enumerate(fronts):
            stride = window.strides[axis]
            first.append(maximum([0, (-front).ceildiv(stride)]))
            end = minimum([window.spatial[axis], (dense.spatial[axis] - front).ceildiv(stride)])
            counts.append(end - first[-1])
        with b.loops((*lead, *counts)) as index:
            image = [i + start for i, start in zip(index[2:], first, strict=True)]
            steps = zip(fronts, image, window.strides, strict=True)
            position = [front + i * stride for front, i, stride in steps]
            b.store(target, (*index[:2], *position), b.load(source, (*index[:2], *image)))
        return target


def _dense(window: Window, output: Shape) -> Window:
    """The window of stride 1 without padding that takes these output positions."""
    ones, zeros = (1,) * len(output), (Expr.of(0),) * len(output)
    spatial = tuple(dim + window.reach(axis) - 1 for axis, dim in enumerate(output))
    return Window(spatial, window.kernel, ones, window.dilations, zeros, zeros)


OPS = (ConvOp, ConvTransposeOp)
