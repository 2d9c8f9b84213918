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
from msgspec.structs import replace
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.compiler.graph.winograd import LIKELY
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.context import weights_of
from weft.dialects.expr import Atom, Expr, Symbol, maximum, minimum
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.core.window import Window
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.weights import WeightStore

ADDITION, FAR_ADDITION = 8, 50
"""Terms of a product, in whose time its result is added to another; the latter where results are
larger than half of the second cache. On 16 x 16 pixels 32 channels with dilations of 8 (a share of
0.44) take 29 us in one product and 19 in nine, 64 channels of 64 x 64 with dilations of 24 (0.56)
4.2 and 5.1 ms.
"""

MOST_TAKEN = 0.95
"""The share of the time of one product, additions included, up to which taps are split."""

NONE = Expr.of(0), Expr.of(0)

MOST_LIVE = 0.85
"""The share of the multiplications with elements of the image, not its padding, from which on one
product is as fast: on 14 x 14 pixels dilations of 2 (0.82) take 6.7 ms in one and 4.5 in nine, on
64 x 64 those of 4 (0.92) take 165 and 189.
"""

MOST_LIKELY = 64
"""Pixels of an image with so many channels along an axis, where only a call knows them."""


class SplitTapsPass(ModulePass):
    """Rewrites the convolutions of many channels by constant filters of whose multiplications
    enough are with padding.
    """

    name = "weft-split-taps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            if conv.result_type.has_rank and conv.groups == 1 and constant_of(conv.filter, weights):
                reads = _reads(conv.window())
                if reads is not None and _pays(conv, target_of(op)):
                    _rewrite(conv, reads, weights)


class _Read(Struct, frozen=True):
    """What a tap reads along an axis: at position `q` of so many the element `step * q - shift` of
    so many.
    """

    size: Expr
    positions: Expr
    step: int
    shift: int

    @property
    def _end(self) -> Expr:
        """The positions up to the last that reads an element."""
        end = (self.size - 1 + self.shift) // self.step + 1
        return maximum([0, minimum([self.positions, end])])

    @property
    def _first(self) -> int:
        """The first position that may read an element."""
        return max(0, -(-self.shift // self.step))

    @property
    def count(self) -> Expr:
        """How many positions read an element, which are neighbours."""
        return maximum([0, self._end - self._first])

    @property
    def start(self) -> Expr:
        """The first element that is read."""
        return minimum([self.size, self._first * self.step - self.shift])

    @property
    def length(self) -> Expr:
        """The elements from that one to the last that is read."""
        return maximum([0, (self.count - 1) * self.step + 1])

    @property
    def pads(self) -> tuple[Expr, Expr]:
        """How many positions, in front of the others and behind them, read padding."""
        return self._end - self.count, self.positions - self._end


def _reads(window: Window) -> list[list[_Read]] | None:
    """What each tap reads along each axis; None where no two taps are apart, and where taps or pads
    are not known.
    """
    known = [*window.kernel, *window.before, *window.after]
    if set(window.dilations) == {1} or any(each.constant is None for each in known):
        return None
    found: list[list[_Read]] = []
    for axis, before in enumerate(window.before):
        place = window.spatial[axis], window.output(axis), window.strides[axis]
        taps = range(window.kernel[axis].evaluate({}))
        shifts = [before.evaluate({}) - tap * window.dilations[axis] for tap in taps]
        found.append([_Read(*place, shift) for shift in shifts])
    return found


def _pays(conv: ConvOp, target: Target) -> bool:
    """Whether padding is enough of what a convolution of enough channels multiplies."""
    results, channels, *_ = type_of(conv.filter).shape
    window, live, result_bytes = conv.window(), 1.0, 4 * (results.constant or 1)
    sizes = tuple(Expr.of(size.constant or _likely(size)) for size in window.spatial)
    reads = _reads(replace(window, spatial=sizes))
    if reads is None or channels.constant is None:
        return False
    for of_axis in reads:
        positions = of_axis[0].positions.evaluate({})
        live *= sum(read.count.evaluate({}) for read in of_axis) / max(1, positions * len(of_axis))
        result_bytes *= positions
    addition = ADDITION if 2 * result_bytes <= target.l2_bytes else FAR_ADDITION
    return 0 < live <= min(MOST_LIVE, MOST_TAKEN - addition / channels.constant)


def _likely(size: Expr) -> int:
    image: dict[Atom, int] = {atom: LIKELY for atom in size.atoms() if isinstance(atom, Symbol)}
    return max(1, min(MOST_LIKELY, size.evaluate(image)))


def _rewrite(conv: ConvOp, reads: Sequence[Sequence[_Read]], weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    image, filters, *bias = (Term(b, value) for value in conv.operands)
    taps = list(product(*map(enumerate, reads)))
    # The product of a tap that no position has in the padding is what the others are added to.
    taps.sort(key=lambda tap: sum(read.pads != NONE for _, read in tap))
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
        image = image.part(2 + axis, read.start, read.length)
        filters = filters.part(2 + axis, place, 1)
    names = [".".join([name, *(str(place) for place, _ in tap)])]
    (kept,) = evaluate_constants([filters.value], names, weights)
    ones, none = [1 for _ in tap], [0 for _ in tap]
    steps = [read.step for _, read in tap]
    result = b.conv(
        image.value, kept, group=1, strides=steps, dilations=ones, pads=shape_attr([*none, *none])
    )
    if all(read.pads == NONE for _, read in tap):
        return image.of(result)
    before, behind = zip(*(read.pads for _, read in tap), strict=True)
    return image.of(b.pad(result, pads=shape_attr([0, 0, *before, 0, 0, *behind]), mode="constant"))
