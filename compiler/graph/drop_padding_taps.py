"""graph -> graph: taps of a convolution that read nothing but padding, at any position, go.

    conv(x, w) {dilations = 36, pads = 36}   ->   conv(x, w[:, :, 1:2, 1:2])

where `x` is smaller than 36: of 3 x 3 taps the middle one alone reads an element of it.
"""

from __future__ import annotations

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


class DropPaddingTapsPass(ModulePass):
    """Cuts the filter to the taps that read an element of the image, and the image to the elements
    that are read. Leaves axes whose sizes are not constant, and those that read padding alone.
    """

    name = "weft-drop-padding-taps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            if conv.result_type.has_rank:
                _rewrite(conv, weights_of(ctx))


def _rewrite(conv: ConvOp, weights: WeightStore) -> None:
    window = conv.window()
    live = {axis: taps for axis in window.axes if (taps := _live_taps(window, axis))}
    if not live:
        return
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    image, filters, *bias = (Term(b, value) for value in conv.operands)
    before, after = list(window.before), list(window.after)
    for axis, taps in live.items():
        filters = filters.part(2 + axis, taps.start, len(taps))
        first, last = _reach(window, axis, taps)
        size = window.spatial[axis].evaluate({})
        start, stop = max(0, first), min(size - 1, last) + 1
        image = image.part(2 + axis, start, stop - start)
        before[axis], after[axis] = Expr.of(start - first), Expr.of(last + 1 - stop)
    kept = filters.value
    if constant_of(conv.filter, weights):
        names = [f"{conv.onnx_name or 'conv'}.filter"]
        (kept,) = evaluate_constants([kept], names, weights)
    result = b.conv(
        image.value,
        kept,
        *(each.value for each in bias),
        group=conv.groups,
        strides=list(window.strides),
        dilations=list(window.dilations),
        pads=ShapeAttr((*before, *after)),
    )
    result.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result)
    conv.detach()
    conv.erase()


def _live_taps(window: Window, axis: int) -> range | None:
    """The taps from the first to the last that reads an element of the input at some position;
    None where that are all, or no tap does, or sizes are not constant.
    """
    sizes = window.spatial[axis], window.kernel[axis], window.before[axis], window.output(axis)
    if any(size.constant is None for size in sizes):
        return None
    size, kernel, before, count = (each.evaluate({}) for each in sizes)
    stride, dilation = window.strides[axis], window.dilations[axis]
    live = [
        tap
        for tap in range(kernel)
        # the first position whose tap is not in front of the input
        if (p := max(0, -((tap * dilation - before) // stride))) < count
        and p * stride + tap * dilation - before < size
    ]
    return range(live[0], live[-1] + 1) if live and live[-1] - live[0] + 1 < kernel else None


def _reach(window: Window, axis: int, taps: range) -> tuple[int, int]:
    """The least and the greatest index that these taps read, in the padding or not."""
    before, count = window.before[axis].evaluate({}), window.output(axis).evaluate({})
    first = taps.start * window.dilations[axis] - before
    last = (taps.stop - 1) * window.dilations[axis] - before
    return first, last + (count - 1) * window.strides[axis]
