"""graph -> graph: a transposed convolution with strides and a known filter becomes a convolution
that computes a block of `stride` results where one element of the image lies, as channels:

    conv_transpose(x, w) -> slice(reshape(transpose(reshape(conv(x, w')))))

with `w'[o, p, c, t] = w[c, o, (last - t) * stride + p]`, which reads no zeros between elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.ops.conv import ConvTransposeOp
from weft.dialects.weights import WeightStore


@dataclass(frozen=True)
class DecomposeTransposedConvPass(ModulePass):
    """Rewrites transposed convolutions of stride above 1 whose filter, and bias, are constants.

    Leaves those with dilations, and those whose result reaches beyond the last block.
    """

    name = "weft-decompose-transposed-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvTransposeOp)]:
            taps_are_constant = all(constant_of(value, weights) for value in conv.operands[1:])
            if taps_are_constant and _fits(conv):
                _rewrite(conv, weights)


def _fits(conv: ConvTransposeOp) -> bool:
    """Whether blocks of the strides hold all of the result, and are more than an element."""
    window = conv.window()
    if max(window.strides) == 1 or max(window.dilations) > 1:
        return False
    for axis, extra in enumerate(conv.extra(len(window.axes))):
        kernel, stride = window.kernel[axis].constant, window.strides[axis]
        beyond = (window.after[axis] - extra).constant
        if kernel is None or beyond is None or kernel - beyond > -(-kernel // stride) * stride:
            return False
    return True


def _rewrite(conv: ConvTransposeOp, weights: WeightStore) -> None:
    window, groups = conv.window(), conv.groups
    blocks = prod(window.strides)
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    filters, *bias = (Term(b, value) for value in conv.operands[1:])
    folded = _filters_of_blocks(filters, groups, window.strides)
    parts = [folded, *(_repeated(each, blocks) for each in bias)]
    name = conv.onnx_name or "conv_transpose"
    names = [f"{name}.{role}" for role in ("filter", "bias")[: len(parts)]]
    stored = evaluate_constants([part.value for part in parts], names, weights)
    pads = [(dim - 1).evaluate({}) for dim in folded.shape[2:]] * 2
    computed = Term(b, b.conv(conv.image, *stored, group=groups, pads=pads))
    rank = len(window.axes)
    batch, channels, *positions = computed.shape
    split = computed.reshape((batch, channels // blocks, *window.strides, *positions))
    indices = [position for axis in window.axes for position in (2 + rank + axis, 2 + axis)]
    dims = [dim * step for dim, step in zip(positions, window.strides, strict=True)]
    result = split.transpose([0, 1, *indices]).reshape((batch, channels // blocks, *dims))
    for axis, size in enumerate(conv.result_type.shape[2:]):
        result = result.part(2 + axis, window.before[axis], size)
    result.value.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result.value)
    conv.detach()
    conv.erase()


def _repeated(bias: Term, blocks: int) -> Term:
    """Each element as often as there are results in a block."""
    (count,) = bias.shape
    return bias.insert(1).expand((count, blocks)).reshape((count * blocks,))


def _filters_of_blocks(filters: Term, groups: int, strides: tuple[int, ...]) -> Term:
    """`[c, o, k...]` as `[group * o * stride..., c / group, taps...]`, with zeros behind the last
    elements and the taps in descending order.
    """
    rank = len(strides)
    channels, per_group, *kernel = filters.shape
    taps = [dim.ceildiv(step) for dim, step in zip(kernel, strides, strict=True)]
    ends = [count * step for count, step in zip(taps, strides, strict=True)]
    missing = [end - dim for end, dim in zip(ends, kernel, strict=True)]
    pads = shape_attr([*(0 for _ in filters.shape), 0, 0, *missing])
    padded = filters.of(filters.b.pad(filters.value, pads=pads, mode="constant"))
    split = [size for pair in zip(taps, strides, strict=True) for size in pair]
    parts = padded.reshape((groups, channels // groups, per_group, *split))
    for axis in range(rank):
        parts = parts.flip(3 + 2 * axis)
    phases = [4 + 2 * axis for axis in range(rank)]
    order = [0, 2, *phases, 1, *(phase - 1 for phase in phases)]
    shape = (groups * per_group * prod(strides), channels // groups, *taps)
    return parts.transpose(order).reshape(shape)
