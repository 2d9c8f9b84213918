"""graph -> graph: convolutions keep the taps and the elements of the image that they need.

    conv(x, w) {dilations = 36, pads = 36}   ->   conv(x, w[:, :, 1:2, 1:2])

where `x` is smaller than 36: of 3 x 3 taps the middle one alone reads an element of it. Where steps
and dilations have a common divisor, no tap reads the elements between its multiples:

    conv(x, w) {strides = 3, dilations = 3}   ->   conv(x[:, :, ::3, ::3], w)
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr
from weft.dialects.graph.core.window import Window
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.weights import WeightStore


class CropConvolutionsPass(ModulePass):
    """Cuts the filter to the taps that read an element of the image, and the image to the elements
    that are read. Leaves axes whose sizes are not constant, those that read padding alone, and the
    steps of a single tap without padding, whose image nothing copies.
    """

    name = "weft-crop-convolutions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            if conv.result_type.has_rank:
                _rewrite(conv, weights_of(ctx))


class _Axis(NamedTuple):
    """What is needed along an axis: the taps, the elements of the image, and how many steps of
    padding are in front of these and behind them.
    """

    taps: range
    elements: range
    before: int
    after: int


def _rewrite(conv: ConvOp, weights: WeightStore) -> None:
    window = conv.window()
    needed = {axis: part for axis in window.axes if (part := _needed(window, axis)) is not None}
    if not needed:
        return
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    image, filters, *bias = (Term(b, value) for value in conv.operands)
    before, after = list(window.before), list(window.after)
    strides, dilations = list(window.strides), list(window.dilations)
    for axis, (taps, elements, front, behind) in needed.items():
        filters = filters.part(2 + axis, taps.start, len(taps))
        image = image.part(2 + axis, elements.start, len(elements), elements.step)
        before[axis], after[axis] = Expr.of(front), Expr.of(behind)
        strides[axis] //= elements.step
        dilations[axis] = max(1, dilations[axis] // elements.step)
    kept = filters.value
    if constant_of(conv.filter, weights):
        names = [f"{conv.onnx_name or 'conv'}.filter"]
        (kept,) = evaluate_constants([kept], names, weights)
    result = b.conv(
        image.value,
        kept,
        *(each.value for each in bias),
        group=conv.groups,
        strides=strides,
        dilations=dilations,
        pads=ShapeAttr((*before, *after)),
    )
    result.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result)
    conv.detach()
    conv.erase()


def _needed(window: Window, axis: int) -> _Axis | None:
    """What is needed along an axis; None where that is all, or sizes are not constant."""
    sizes = window.spatial[axis], window.kernel[axis], window.before[axis], window.output(axis)
    if any(size.constant is None for size in sizes):
        return None
    size, kernel, before, count = (each.evaluate({}) for each in sizes)
    stride, dilation = window.strides[axis], window.dilations[axis]
    taps = _live_taps(range(-before, -before + kernel * dilation, dilation), stride, count, size)
    if not taps:
        return None
    # The least and the greatest index that is read, in the padding or not, and those in the image.
    first = taps.start * dilation - before
    last = (taps.stop - 1) * dilation - before + (count - 1) * stride
    step = gcd(stride, dilation)
    if len(taps) == 1:
        step = stride if first < 0 or last >= size else 1
    if len(taps) == kernel and step == 1:
        return None
    start = max(first, first % step)
    elements = range(start, min(size - 1, last) + 1, step)
    return _Axis(taps, elements, (start - first) // step, (last - elements[-1]) // step)


def _live_taps(firsts: Iterable[int], stride: int, count: int, size: int) -> range:
    """Of the taps that read these elements at the first of `count` positions, those from the first
    to the last one that reads an element of the image at some position.
    """
    live = [
        tap
        for tap, first in enumerate(firsts)
        # the first position whose tap is not in front of the image
        if (position := max(0, -(first // stride))) < count and first + position * stride < size
    ]
    return range(live[0], live[-1] + 1) if live else range(0)
