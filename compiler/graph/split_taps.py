"""graph -> graph: a convolution whose taps read far apart is a sum over its taps, each a product
over the positions at which it reads the image.

    conv(x, w, b) {dilations = 12, pads = 12}
    ->  w[:, :, 1, 1] @ x  +  pad(w[:, :, 0, 0] @ x[:, :, :h - 12, :w - 12])  +  ...  +  b

Nothing is multiplied with padding, nor is the image copied into it; the operands of one tap stay in
the caches. A 3 x 3 convolution of 960 channels to 256 with dilations of 12 on 14 x 14 pixels took
12.2 ms on one core, and takes 1.4; on 64 x 64 pixels 265 and 166.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.compiler.graph.winograd import LIKELY
from weft.dialects.context import weights_of
from weft.dialects.expr import Atom, Expr, Symbol, maximum
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.core.window import Window
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.weights import WeightStore

LEAST_CHANNELS = 128
"""Terms of a product, beside which adding up the products of all taps costs little."""

MOST_LIVE = 0.85
"""The share of the multiplications with elements of the image, not its padding, from which on one
product is as fast: on 14 x 14 pixels dilations of 2 (0.82) take 6.7 ms in one and 4.5 in nine, on
64 x 64 those of 4 (0.92) take 165 and 189.
"""

MOST_LIKELY = 64
"""Pixels of an image with so many channels along an axis, where only a call knows them."""


class SplitTapsPass(ModulePass):
    """Rewrites the convolutions of many channels by constant filters, with strides of 1, of whose
    multiplications enough are with padding.
    """

    name = "weft-split-taps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            if conv.result_type.has_rank and conv.groups == 1 and constant_of(conv.filter, weights):
                reads = _reads(conv.window())
                if reads is not None and _pays(conv, reads):
                    _rewrite(conv, reads, weights)


class _Read(Struct, frozen=True):
    """What a tap reads along an axis of some size: at each position the element that is `shift` in
    front of it.
    """

    size: Expr
    shift: int

    @property
    def count(self) -> Expr:
        """How many elements of the image it reads, which are neighbours."""
        return maximum([0, self.size - abs(self.shift)])

    @property
    def start(self) -> Expr:
        """The first of them."""
        return self.size - self.count if self.shift < 0 else Expr.of(0)

    @property
    def pads(self) -> tuple[Expr, Expr]:
        """How many positions, in front of the others and behind them, read padding."""
        outside, none = self.size - self.count, Expr.of(0)
        return (outside, none) if self.shift > 0 else (none, outside)


def _reads(window: Window) -> list[list[_Read]] | None:
    """What each tap reads along each axis; None for strides, for results of another size than the
    image, and where no two taps are apart.
    """
    known = [*window.kernel, *window.before]
    same = all(window.output(axis) == window.spatial[axis] for axis in window.axes)
    if set(window.strides) != {1} or set(window.dilations) == {1} or not same:
        return None
    if any(each.constant is None for each in known):
        return None
    found: list[list[_Read]] = []
    for size, before, taps, step in zip(
        window.spatial, window.before, window.kernel, window.dilations, strict=True
    ):
        shifts = [before.evaluate({}) - tap * step for tap in range(taps.evaluate({}))]
        found.append([_Read(size, shift) for shift in shifts])
    return found


def _pays(conv: ConvOp, reads: Sequence[Sequence[_Read]]) -> bool:
    """Whether padding is enough of what a convolution of enough channels multiplies."""
    channels = type_of(conv.filter).shape[1].constant
    if channels is None or channels < LEAST_CHANNELS:
        return False
    live = 1.0
    for size, of_axis in zip(conv.window().spatial, reads, strict=True):
        likely = size.constant or _likely(size)
        live *= sum(max(0, likely - abs(read.shift)) for read in of_axis)
        live /= likely * len(of_axis)
    return 0 < live <= MOST_LIVE


def _likely(size: Expr) -> int:
    image: dict[Atom, int] = {atom: LIKELY for atom in size.atoms() if isinstance(atom, Symbol)}
    return max(1, min(MOST_LIKELY, size.evaluate(image)))


def _rewrite(conv: ConvOp, reads: Sequence[Sequence[_Read]], weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    image, filters, *bias = (Term(b, value) for value in conv.operands)
    taps = list(product(*map(enumerate, reads)))
    # The product of a tap that no position has in the padding is what the others are added to.
    taps.sort(key=lambda tap: sum(read.shift != 0 for _, read in tap))
    total: Term | None = None
    for tap in taps:
        if any(read.count == 0 for _, read in tap):
            continue
        part = _product(image, filters, tap, f"{conv.onnx_name or 'conv'}.filter", weights)
        total = part if total is None else total + part
    assert total is not None, "a convolution that pays reads an element"
    for each in bias:
        total = total + each.reshape((each.shape[0], *(1 for _ in reads)))
    total.value.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(total.value)
    conv.detach()
    conv.erase()


def _product(
    image: Term, filters: Term, tap: Sequence[tuple[int, _Read]], name: str, weights: WeightStore
) -> Term:
    """What one tap adds to the result."""
    b = image.b
    for axis, (place, read) in enumerate(tap):
        image = image.part(2 + axis, read.start, read.count)
        filters = filters.part(2 + axis, place, 1)
    names = [".".join([name, *(str(place) for place, _ in tap)])]
    (kept,) = evaluate_constants([filters.value], names, weights)
    ones, none = [1 for _ in tap], [0 for _ in tap]
    result = b.conv(
        image.value, kept, group=1, strides=ones, dilations=ones, pads=shape_attr([*none, *none])
    )
    if not any(read.shift != 0 for _, read in tap):
        return image.of(result)
    before, behind = zip(*(read.pads for _, read in tap), strict=True)
    return image.of(b.pad(result, pads=shape_attr([0, 0, *before, 0, 0, *behind]), mode="constant"))
