"""Windows that slide over the spatial dims of a tensor `[n, channels, spatial...]`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def

from weft.dialects.expr import Expr, ExprLike, maximum, minimum
from weft.dialects.graph.core.accumulate import fill
from weft.dialects.graph.core.assumptions import at_least
from weft.dialects.graph.core.batching import merged
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.op import AttributeValue, GraphOp, ints
from weft.dialects.graph.core.types import Shape, ShapeAttr
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.scalar import Number


class Window(Struct, frozen=True):
    """Where the taps of a window lie; every tuple has an entry per spatial dim.

    Tap `t` of output position `p` reads the input at `p * stride + t * dilation - before`.
    """

    spatial: Shape
    kernel: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: Shape
    after: Shape
    ceil: bool = False

    @property
    def axes(self) -> range:
        """The spatial dims, counted from zero."""
        return range(len(self.spatial))

    def reach(self, axis: int) -> Expr:
        """How many elements the window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def least(self, axis: int) -> Expr:
        """How many elements it has to find: of an image of none, one that spans a single element
        takes no position.
        """
        return Expr.of(0) if self.reach(axis) == 1 else self.reach(axis)

    def output(self, axis: int) -> Expr:
        """How many positions the window takes: those inside the padded dim.

        With `ceil` also a last one that sticks out but starts before the padding at the end.
        """
        stride, start = self.strides[axis], self.spatial[axis] + self.before[axis]
        room = start + self.after[axis] - self.reach(axis)
        if not self.ceil:
            return room // stride + 1
        return minimum([room.ceildiv(stride) + 1, start.ceildiv(stride)])

    def padded(self, axis: int) -> Expr:
        """The dim with its padding, and with what a last window that sticks out needs."""
        extent = self.before[axis] + self.spatial[axis] + self.after[axis]
        if not self.ceil:
            return extent
        needed = (self.output(axis) - 1) * self.strides[axis] + self.reach(axis)
        return maximum([extent, needed])

    @property
    def is_padded(self) -> bool:
        """Whether a tap may lie outside the input."""
        return any(self.padded(axis) != self.spatial[axis] for axis in self.axes)

    def source(self, position: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
        """The spatial index, in the padded input, of a tap of the window at a position."""
        steps = zip(position, self.strides, taps, self.dilations, strict=True)
        return [p * stride + tap * dilation for p, stride, tap, dilation in steps]

    def taps_below(self, axis: int, position: Expr, limit: Expr) -> Expr:
        """How many taps, counted from the first, lie before an input index."""
        start = position * self.strides[axis] - self.before[axis]
        return minimum([self.kernel[axis], (limit - start).ceildiv(self.dilations[axis])])

    def taps_before_input(self, axis: int, position: Expr) -> Expr:
        """How many taps of the window at a position are in the padding at the front."""
        start = position * self.strides[axis] - self.before[axis]
        return maximum([0, (-start).ceildiv(self.dilations[axis])])

    def positions_inside(self, axis: int, tap: Expr) -> tuple[Expr, Expr]:
        """The first position of the window at which a tap is inside the input, and how many are."""
        offset = tap * self.dilations[axis] - self.before[axis]
        stride = self.strides[axis]
        first = maximum([0, (-offset).ceildiv(stride)])
        end = minimum([self.output(axis), (self.spatial[axis] - offset).ceildiv(stride)])
        return first, maximum([0, end - first])

    def attributes(self) -> dict[str, AttributeValue]:
        """Strides, dilations and all padding, as operators of the same windows take them."""
        after = [self.padded(axis) - self.spatial[axis] - self.before[axis] for axis in self.axes]
        return {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": ShapeAttr((*self.before, *after)),
        }

    def slices(self, taps: Sequence[int]) -> tuple[slice, ...]:
        """What one tap reads of the padded input over all positions; every dim is static."""
        slices: list[slice] = []
        for axis, tap in enumerate(taps):
            start = tap * self.dilations[axis]
            steps = static([self.output(axis)])[0] - 1
            slices.append(slice(start, start + steps * self.strides[axis] + 1, self.strides[axis]))
        return tuple(slices)

    def pad_widths(self) -> list[tuple[int, int]]:
        """The padding of `[n, channels, spatial...]` as NumPy takes it; every dim is static."""
        before = static(self.before)
        padded = static([self.padded(axis) for axis in self.axes])
        rest = zip(padded, static(self.spatial), before, strict=True)
        after = [extent - dim - front for extent, dim, front in rest]
        return [(0, 0), (0, 0), *zip(before, after, strict=True)]

    def pad(
        self, b: LoopBuilder, source: SSAValue, lead: Shape, element: Attribute, value: Number
    ) -> SSAValue:
        """The input `[*lead, spatial...]` within its padding of one value, if there is any."""
        if not self.is_padded:
            return source
        shape = (*lead, *(self.padded(axis) for axis in self.axes))
        padded = b.temporary(shape, element, "padded")
        fill(b, padded, shape, value, element)
        with b.loops((*lead, *self.spatial)) as index:
            inner = zip(index[len(lead) :], self.before, strict=True)
            target = [*index[: len(lead)], *(i + front for i, front in inner)]
            b.store(padded, target, b.load(source, index))
        return padded


class WindowOp(GraphOp):
    """An operator whose window has `strides` and `dilations` (1 unless given) and `pads`.

    `pads` lists the padding before each spatial dim, then that after each, 0 unless given.
    """

    strides: DenseArrayBase | None = opt_prop_def(DenseArrayBase)
    dilations: DenseArrayBase | None = opt_prop_def(DenseArrayBase)
    pads: DenseArrayBase | ShapeAttr | None = opt_prop_def(DenseArrayBase | ShapeAttr)

    def window_over(self, spatial: Shape, kernel: Shape, *, ceil: bool = False) -> Window:
        """The window on these spatial dims, after a check of the attributes."""
        rank = len(spatial)
        self.require(len(kernel) == rank, f"a kernel of {rank} dims", len(kernel))
        strides = (1,) * rank if self.strides is None else ints(self.strides)
        dilations = (1,) * rank if self.dilations is None else ints(self.dilations)
        pads = self.padding(rank)
        for name, steps in (("strides", strides), ("dilations", dilations)):
            fits = len(steps) == rank and all(step > 0 for step in steps)
            self.require(fits, f"{rank} positive {name}", list(steps))
        fits = len(pads) == 2 * rank and all((pad.constant or 0) >= 0 for pad in pads)
        self.require(fits, f"{2 * rank} pads of 0 or more", [str(pad) for pad in pads])
        fits = all(dim.constant is None or dim.constant > 0 for dim in kernel)
        self.require(fits, "a kernel of at least one tap", [str(dim) for dim in kernel])
        return Window(spatial, kernel, strides, dilations, pads[:rank], pads[rank:], ceil)

    def padding(self, rank: int) -> Shape:
        """The padding before each spatial dim, then that after each."""
        if self.pads is None:
            return (Expr.of(0),) * (2 * rank)
        if isinstance(self.pads, ShapeAttr):
            return self.pads.data or ()
        return tuple(Expr.of(pad) for pad in ints(self.pads))

    def positions(self, window: Window) -> list[Expr]:
        """How many positions the window takes along each spatial dim; it has to fit."""
        for axis in window.axes:
            room = (window.padded(axis) - window.least(axis)).constant
            got = f"{window.reach(axis)} of {window.padded(axis)} along spatial dim {axis}"
            self.require(room is None or room >= 0, "a window within the padded input", got)
        return [window.output(axis) for axis in window.axes]

    def fitting(self, window: Window) -> list[tuple[Expr, Expr]]:
        """The pairs that are equal where a window has taps and fits."""
        taps = [pair for extent in window.kernel for pair in at_least(extent, 1)]
        return taps + [
            pair
            for axis in window.axes
            for pair in at_least(window.padded(axis), window.least(axis))
        ]

    def vmap(
        self, operands: Sequence[SSAValue], size: Expr, b: GraphBuilder
    ) -> Sequence[SSAValue] | None:
        return merged(self, operands, b)


def same_pads(
    spatial: Sequence[ExprLike],
    kernel: Sequence[ExprLike],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    upper: bool,
) -> list[Expr]:
    """The pads, all before and then all after, that give `ceil(dim / stride)` positions.

    An odd element goes to the end, or to the front with `upper` unset.
    """
    totals: list[Expr] = []
    for dim, taps, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        reach = (Expr.of(taps) - 1) * dilation + 1
        covered = (Expr.of(dim).ceildiv(stride) - 1) * stride + reach
        totals.append(maximum([0, covered - dim]))
    return _split(totals, upper=upper)


def transposed_pads(
    spatial: Sequence[ExprLike],
    kernel: Sequence[ExprLike],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output: Sequence[ExprLike],
    *,
    upper: bool,
) -> list[Expr]:
    """The pads with which a transposed convolution gives these dims, split as by `same_pads`."""
    totals: list[Expr] = []
    for axis, dim in enumerate(spatial):
        reach = (Expr.of(kernel[axis]) - 1) * dilations[axis] + 1
        full = (Expr.of(dim) - 1) * strides[axis] + output_padding[axis] + reach
        totals.append(maximum([0, full - output[axis]]))
    return _split(totals, upper=upper)


def _split(totals: Sequence[Expr], *, upper: bool) -> list[Expr]:
    halves = [total // 2 for total in totals]
    others = [total - half for total, half in zip(totals, halves, strict=True)]
    return [*halves, *others] if upper else [*others, *halves]


def static(exprs: Sequence[Expr]) -> list[int]:
    """The expressions as ints; they have to be constant."""
    values = [expr.constant for expr in exprs]
    assert None not in values, "a reference is evaluated on static shapes"
    return [value for value in values if value is not None]


def spatial_names(rank: int) -> str:
    """The customary names of the loops over that many spatial dims."""
    return "dhw"[3 - rank :] if rank <= 3 else "ijklmpqxyz"[:rank]


def tap_names(rank: int) -> str:
    """The customary names of the loops over a window's taps."""
    return "trs"[3 - rank :] if rank <= 3 else "tuvwrsabef"[:rank]
