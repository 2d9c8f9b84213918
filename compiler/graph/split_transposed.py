"""graph -> graph: a transposed convolution with strides and a known filter becomes a convolution
that computes a block of `stride` results where one element of the image lies, as channels:

    conv_transpose(x, w) -> slice(reshape(transpose(reshape(conv(x, w')))))

with `w'[o, p, c, t] = w[c, o, (last - t) * stride + p]`, which reads no zeros between elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from dialects.context import weights_of
from dialects.graph import OPS_BY_NAME, ConstantOp
from dialects.graph.algebra import Term
from dialects.graph.builder import GraphBuilder
from dialects.graph.conv import ConvTransposeOp
from dialects.weights import Array, WeightStore


@dataclass(frozen=True)
class SplitTransposedPass(ModulePass):
    """Rewrites transposed convolutions of stride above 1 whose filter, and bias, are constants.

    Leaves those with dilations, and those whose result reaches beyond the last block.
    """

    name = "weft-split-transposed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvTransposeOp)]:
            parameters = [_constant(value, weights) for value in conv.operands[1:]]
            known = [array for array in parameters if array is not None]
            if len(known) == len(parameters) and _fits(conv):
                _rewrite(conv, known, weights)


def _constant(value: SSAValue, weights: WeightStore) -> Array | None:
    owner = value.owner
    return owner.array(weights) if isinstance(owner, ConstantOp) else None


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


def _rewrite(conv: ConvTransposeOp, parameters: list[Array], weights: WeightStore) -> None:
    window, groups = conv.window(), conv.groups
    filters, *bias = parameters
    blocks = prod(window.strides)
    b = GraphBuilder(InsertPoint.before(conv), OPS_BY_NAME, conv.location)
    folded = _filters_of_blocks(filters, groups, window.strides)
    arrays = [folded, *(np.repeat(array, blocks) for array in bias)]
    name = conv.onnx_name or "conv_transpose"
    stored = [
        b.builder.insert(
            ConstantOp.stored(f"{name}.{role}", array, weights, conv.location)
        ).results[0]
        for role, array in zip(("filter", "bias"), arrays, strict=False)
    ]
    pads = [taps - 1 for taps in folded.shape[2:]] * 2
    computed = Term(b, b.conv(conv.image, *stored, group=groups, pads=pads))
    rank = len(window.axes)
    batch, channels, *positions = computed.shape
    split = computed.reshape((batch, channels // blocks, *window.strides, *positions))
    places = [place for axis in window.axes for place in (2 + rank + axis, 2 + axis)]
    dims = [dim * step for dim, step in zip(positions, window.strides, strict=True)]
    result = split.transpose([0, 1, *places]).reshape((batch, channels // blocks, *dims))
    for axis, size in enumerate(conv.result_type.shape[2:]):
        result = result.part(2 + axis, window.before[axis], size)
    result.value.name_hint = conv.result.name_hint
    conv.result.replace_all_uses_with(result.value)
    conv.detach()
    conv.erase()


def _filters_of_blocks(filters: Array, groups: int, strides: tuple[int, ...]) -> Array:
    """`[c, o, k...]` as `[group * o * stride..., c / group, taps...]`, with zeros behind the last
    elements and the taps in descending order.
    """
    rank = len(strides)
    channels, per_group, *kernel = filters.shape
    taps = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    missing = [(0, t * s - k) for t, s, k in zip(taps, strides, kernel, strict=True)]
    padded: Array = np.pad(filters, [(0, 0), (0, 0), *missing])
    split = [size for pair in zip(taps, strides, strict=True) for size in pair]
    split_up: Array = padded.reshape(groups, channels // groups, per_group, *split)
    parts: Array = np.flip(split_up, tuple(3 + 2 * axis for axis in range(rank)))
    phases = [4 + 2 * axis for axis in range(rank)]
    order = [0, 2, *phases, 1, *(phase - 1 for phase in phases)]
    shape = (groups * per_group * prod(strides), channels // groups, *taps)
    return np.ascontiguousarray(parts.transpose(order).reshape(shape))
