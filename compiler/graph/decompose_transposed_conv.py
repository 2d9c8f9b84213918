"""graph -> graph: a transposed convolution becomes a convolution, or a product whose windows are
added up.

Where the strides divide the filter, one convolution may compute a block of `stride` results where
one element of the image lies, as channels, and reads no zeros between elements:

    conv_transpose(x, w) -> slice(reshape(transpose(reshape(conv(x, w')))))

with `w'[o, p, c, t] = w[c, o, (last - t) * stride + p]`. The results of a block, its phases, sum up
equally many taps. Those of other filters do not, or not any; these are sums of windows, as are
small images of many channels, which a convolution would enlarge:

    conv_transpose(x, w) -> fold(einsum(w, x))

so that nothing is done to a filter that a call gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.expr import Expr, product
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.conv import ConvTransposeOp
from weft.dialects.weights import WeightStore

ADDED = 50
"""The multiply-adds in whose time an element of windows is added up."""

CUT = 60
"""Those in whose time an element of the result is copied where an edge of it is cut off, which
adding up windows does in passing.
"""

REORDERED = 100
"""Those in whose time an element of a filter is turned round in a call."""

ASSUMED_SIZE = 32
"""What is taken for sizes that only a call knows."""


class DecomposeTransposedConvPass(ModulePass):
    """Rewrites transposed convolutions; those of stride 1 become a convolution of the filter
    flipped.

    Leaves those of which only a call knows whether they cut windows off or add to them.
    """

    name = "weft-decompose-transposed-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvTransposeOp)]:
            if _is_dense(conv):
                _replace(conv, _as_convolution(conv, weights))
            elif _fits(conv) and _saves_time(conv, is_stored=_is_stored(conv, weights)):
                _replace(conv, _joined_phases(conv, weights))
            elif (ends := _ends(conv)) is not None:
                _replace(conv, _added_windows(conv, ends, weights))


class _Ends(NamedTuple):
    """At the end of an axis: how much of the windows is cut off, how much is added behind them."""

    cut: Expr
    added: Expr


def _ends(conv: ConvTransposeOp) -> list[_Ends] | None:
    """The ends of all axes; None where it is not known which of the two an axis has."""
    window, found = conv.window(), list[_Ends]()
    for after, extra in zip(window.after, conv.extra(len(window.axes)), strict=True):
        size = after.constant
        if extra and size is None:
            return None
        found.append(_Ends(after - min(extra, size or 0), Expr.of(max(0, extra - (size or 0)))))
    return found


def _added_windows(conv: ConvTransposeOp, ends: Sequence[_Ends], weights: WeightStore) -> Term:
    """Each element of the image times the filter, added up where its window is."""
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    window, rank = conv.window(), len(ends)
    batch, channels, *spatial = conv.result_type.shape
    windows = _products(b, conv, weights).reshape(
        (batch, channels, *window.kernel, *type_of(conv.image).shape[2:])
    )
    result = b.fold(
        windows.value,
        spatial=shape_attr([dim - end.added for dim, end in zip(spatial, ends, strict=True)]),
        strides=list(window.strides),
        dilations=list(window.dilations),
        pads=shape_attr([*window.before, *(end.cut for end in ends)]),
    )
    if any(end.added != 0 for end in ends):
        pads = [*[0] * (rank + 4), *(end.added for end in ends)]
        result = b.pad(result, pads=shape_attr(pads), mode="constant")
    total = windows.of(result)
    for bias in conv.operands[2:]:
        total += windows.of(bias).reshape((channels, *[1] * rank))
    return total


def _products(b: GraphBuilder, conv: ConvTransposeOp, weights: WeightStore) -> Term:
    """`[n, group, o, taps, positions]`: sums over the channels of a group, if there are several."""
    rank = len(conv.window().axes)
    images = conv.grouped(Term(b, conv.image), 1, rank)
    filters, equation = conv.grouped(Term(b, conv.filter), 0, rank), "gcot,ngcp->ngotp"
    if _is_stored(conv, weights):
        # The terms of each sum next to each other.
        filters, equation = filters.transpose([0, 2, 3, 1]), "gotc,ngcp->ngotp"
    (stored,) = _stored(conv, [filters], weights)
    if images.shape[2] != 1:
        return images.of(b.einsum(stored, images.value, equation=equation))
    groups, outputs = images.shape[1], type_of(conv.filter).shape[1]
    batch, *_, positions = images.shape
    taps = images.of(stored).reshape((1, groups, outputs, product(conv.window().kernel), 1))
    return taps * images.reshape((batch, groups, 1, 1, positions))


def _is_dense(conv: ConvTransposeOp) -> bool:
    """Whether it steps by one element, so that it is a convolution, of pads that are known."""
    sizes = [dim.constant for dim in (*conv.window().kernel, *_dense_pads(conv))]
    return max(conv.window().strides) == 1 and all(size is not None and size >= 0 for size in sizes)


def _dense_pads(conv: ConvTransposeOp) -> list[Expr]:
    """The pads of the convolution that it is where it steps by one element."""
    window = conv.window()
    reaches = [window.reach(axis) - 1 for axis in window.axes]
    before = [reach - pad for reach, pad in zip(reaches, window.before, strict=True)]
    behind = [
        reach - pad + extra
        for reach, pad, extra in zip(
            reaches, window.after, conv.extra(len(window.axes)), strict=True
        )
    ]
    return [*before, *behind]


def _as_convolution(conv: ConvTransposeOp, weights: WeightStore) -> Term:
    """The convolution with the filter flipped, its channels exchanged."""
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    filters, *bias = (Term(b, value) for value in conv.operands[1:])
    window = conv.window()
    flipped = _filter_of(filters, conv.groups, window.strides)
    pads = [pad.evaluate({}) for pad in _dense_pads(conv)]
    stored = _stored(conv, [flipped, *bias], weights)
    dilations = list(window.dilations)
    return Term(b, b.conv(conv.image, *stored, group=conv.groups, pads=pads, dilations=dilations))


def _fits(conv: ConvTransposeOp) -> bool:
    """Whether blocks of the strides hold all of the result, are more than an element, and all of
    their elements sum up equally many taps.
    """
    window = conv.window()
    if max(window.strides) == 1 or max(window.dilations) > 1:
        return False
    for axis, extra in enumerate(conv.extra(len(window.axes))):
        kernel, beyond = window.kernel[axis].constant, (window.after[axis] - extra).constant
        if kernel is None or kernel % window.strides[axis] or beyond is None or beyond < 0:
            return False
    return True


def _saves_time(conv: ConvTransposeOp, *, is_stored: bool) -> bool:
    """Whether the convolution takes less than the product and adding up its windows: it computes
    blocks beyond the image's edges too, turns a filter round that is not stored, and leaves edges
    that are cut off in a pass of their own.
    """
    window, image = conv.window(), type_of(conv.image).shape
    sizes = [dim.constant or ASSUMED_SIZE for dim in image[2:]]
    taps = [
        dim.evaluate({}) // step for dim, step in zip(window.kernel, window.strides, strict=True)
    ]
    blocks = prod(size + count - 1 for size, count in zip(sizes, taps, strict=True))
    terms = (image[1].constant or ASSUMED_SIZE) // conv.groups
    positions = prod(sizes) * (image[0].constant or 1)
    turned = 0.0 if is_stored else REORDERED * terms / positions
    is_cut = any(pad != 0 for pad in (*window.before, *window.after))
    cut = CUT / prod(taps) if is_cut else 0.0
    return terms * (blocks / prod(sizes) - 1) + turned + cut < ADDED


def _joined_phases(conv: ConvTransposeOp, weights: WeightStore) -> Term:
    """The result, of blocks side by side."""
    window, rank = conv.window(), len(conv.window().axes)
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    split = _blocks(b, conv, weights)
    batch, channels = split.shape[:2]
    positions = split.shape[2 + rank :]
    indices = [position for axis in window.axes for position in (2 + rank + axis, 2 + axis)]
    dims = [dim * step for dim, step in zip(positions, window.strides, strict=True)]
    result = split.transpose([0, 1, *indices]).reshape((batch, channels, *dims))
    for axis, size in enumerate(conv.result_type.shape[2:]):
        result = result.part(2 + axis, window.before[axis], size)
    return result


def _replace(conv: ConvTransposeOp, result: Term) -> None:
    result.value.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result.value)
    conv.detach()
    conv.erase()


def _blocks(b: GraphBuilder, conv: ConvTransposeOp, weights: WeightStore) -> Term:
    """The blocks `[n, m, stride..., position...]`, by one convolution."""
    filters, *bias = (Term(b, value) for value in conv.operands[1:])
    image, window = Term(b, conv.image), conv.window()
    taps = [
        dim.evaluate({}) // step for dim, step in zip(window.kernel, window.strides, strict=True)
    ]
    phases = prod(window.strides)
    operands = [
        _filter_of(filters, conv.groups, window.strides),
        *(_repeated(each, phases) for each in bias),
    ]
    positions = [dim + count - 1 for dim, count in zip(image.shape[2:], taps, strict=True)]
    pads = [count - 1 for count in taps] * 2
    blocks = b.conv(conv.image, *_stored(conv, operands, weights), group=conv.groups, pads=pads)
    channels = filters.shape[1] * conv.groups
    return image.of(blocks).reshape((image.shape[0], channels, *window.strides, *positions))


def _is_stored(conv: ConvTransposeOp, weights: WeightStore) -> bool:
    """Whether the filter, and the bias if there is one, are constants."""
    return all(constant_of(value, weights) is not None for value in conv.operands[1:])


def _stored(
    conv: ConvTransposeOp, operands: Sequence[Term], weights: WeightStore
) -> list[SSAValue]:
    """The filter and the bias, as constants where those of the whole are."""
    values = [each.value for each in operands]
    if not _is_stored(conv, weights):
        return values
    name = conv.onnx_name or "conv_transpose"
    names = [f"{name}.{role}" for role in ("filter", "bias")[: len(values)]]
    return evaluate_constants(values, names, weights)


def _repeated(bias: Term, phases: int) -> Term:
    """Each element as often as there are phases."""
    (count,) = bias.shape
    return bias.insert(1).expand((count, phases)).reshape((count * phases,))


def _filter_of(filters: Term, groups: int, strides: Sequence[int]) -> Term:
    """`[c, o, k...]` as `[group * o * phase..., c / group, taps...]`, the taps in reverse."""
    channels, per_group, *kernel = filters.shape
    taps = [dim // step for dim, step in zip(kernel, strides, strict=True)]
    split = [size for pair in zip(taps, strides, strict=True) for size in pair]
    parts = filters.reshape((groups, channels // groups, per_group, *split))
    of_taps = [3 + 2 * axis for axis in range(len(strides))]
    for axis, count in zip(of_taps, taps, strict=True):
        parts = parts if count == 1 else parts.flip(axis)
    order = [0, 2, *(axis + 1 for axis in of_taps), 1, *of_taps]
    shape = (groups * per_group * prod(strides), channels // groups, *taps)
    return parts.transpose(order).reshape(shape)
