"""graph -> graph: a convolution of few terms is one of a single tap over what its taps read.

    conv(x, w)   ->   conv(reshape(concat(x[:, :, None, :-1], x[:, :, None, 1:])), reshape(w))

All pixels of an image are one loop then, whose vectors and tiles do not end with the rows, and what
registers hold is stored as it is. Of few terms, stores of short rows are most of what a convolution
takes: 8 taps of 1 channel to 240 of 20 x 13 x 3 take 245 us, and 55 over the unfolded image.
"""

from __future__ import annotations

from itertools import product
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.context import weights_of
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, joined, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, type_of
from weft.dialects.graph.core.window import Window
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.weights import WeightStore

STORE = 21
"""Terms in whose time a convolution stores a result, more than a product over all pixels takes."""

COPY = 60
"""Terms in whose time an element that a tap reads is copied, and its padding."""

PRODUCT = 1.1
"""The time of a term, read from the copy, over that of one of the image.

All three are fitted to 80 drawn convolutions of 8 to 3,456 terms and 16 to 240 channels, and to
first layers of networks: what is unfolded by them took 0.44 to 0.77 of the time where rows are
short, and 0.62 to 1.01 where they are long and only a call knows so. Of 81 terms and more nothing
is to be had, or a convolution takes up to 3.4 times as long.
"""

F32_BYTES = 4


class UnfoldConvolutionsPass(ModulePass):
    """Rewrites the convolutions whose image is copied for less than its short rows cost."""

    name = "weft-unfold-convolutions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvOp)]:
            if conv.result_type.has_rank and _pays(conv, target):
                _rewrite(conv, weights_of(ctx))


def _pays(conv: ConvOp, target: Target) -> bool:
    """Whether stores of short rows take longer than the copies, of filters that are known to have
    few terms. Rows whose length only a call knows may be short.
    """
    window, filters = conv.window(), type_of(conv.filter)
    results, terms = filters.shape[0].constant, prod(filters.shape[1:], start=Expr.of(1)).constant
    if filters.element != F32 or not results or not terms or terms == filters.shape[1].constant:
        return False
    row = window.output(-1).constant
    if row is not None and row >= target.lanes(F32_BYTES):
        return False
    copies = COPY * terms * conv.groups / results
    return PRODUCT * terms + copies <= terms + STORE


def _rewrite(conv: ConvOp, weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    image, filters, *bias = (Term(b, value) for value in conv.operands)
    window = conv.window()
    ones = [1 for _ in window.axes]
    terms = filters.reshape((filters.shape[0], prod(filters.shape[1:], start=Expr.of(1)), *ones))
    if constant_of(conv.filter, weights):
        names = [f"{conv.onnx_name or 'conv'}.filter"]
        (kept,) = evaluate_constants([terms.value], names, weights)
        terms = terms.of(kept)
    result = b.conv(
        _unfolded(image, window).value,
        terms.value,
        *(each.value for each in bias),
        group=conv.groups,
        strides=ones,
        dilations=ones,
        pads=shape_attr([0 for _ in (*ones, *ones)]),
    )
    result.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result)
    conv.detach()
    conv.erase()


def _unfolded(image: Term, window: Window) -> Term:
    """What each tap of a window reads of each channel: `[n, channels * taps, positions...]`."""
    n, channels, *_ = image.shape
    if window.is_padded:
        pads = shape_attr([0, 0, *window.before, 0, 0, *window.after])
        image = image.of(image.b.pad(image.value, pads=pads, mode="constant"))
    outputs = [window.output(axis) for axis in window.axes]
    counts = [size.evaluate({}) for size in window.kernel]
    taps: list[Term] = []
    for tap in product(*map(range, counts)):
        part = image
        for axis, place in enumerate(tap):
            first, step = place * window.dilations[axis], window.strides[axis]
            part = part.part(2 + axis, first, outputs[axis], step)
        taps.append(part.reshape((n, channels, 1, *outputs)))
    return joined(taps, 2).reshape((n, channels * prod(counts), *outputs))
