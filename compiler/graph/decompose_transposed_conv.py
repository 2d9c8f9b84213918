"""graph -> graph: a transposed convolution with strides becomes convolutions that compute a block
of `stride` results where one element of the image lies, as channels:

    conv_transpose(x, w) -> slice(reshape(transpose(concat(reshape(conv(x, w')), ...))))

with `w'[o, p, c, t] = w[c, o, (last - t) * stride + p]`, which reads no zeros between elements. The
results of a block, its phases, sum up equally many taps where the stride divides the filter. Else
some phases have one tap less than others, which are a convolution of their own; those without any
tap are what the bias is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term, joined, shape_attr
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.ops.conv import ConvTransposeOp
from weft.dialects.weights import WeightStore


class DecomposeTransposedConvPass(ModulePass):
    """Rewrites transposed convolutions whose filter's taps are known; those of stride 1 become a
    convolution of the filter flipped.

    Leaves those of larger strides with dilations, and those whose result reaches beyond the last
    block.
    """

    name = "weft-decompose-transposed-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for conv in [inner for inner in op.walk() if isinstance(inner, ConvTransposeOp)]:
            if _is_dense(conv):
                _replace(conv, _as_convolution(conv, weights))
            elif _fits(conv):
                _replace(conv, _joined_phases(conv, weights))


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
    phases = [_Phases(0, 1, dim.evaluate({})) for dim in window.kernel]
    flipped = _filter_of(filters, conv.groups, window.strides, phases)
    pads = [pad.evaluate({}) for pad in _dense_pads(conv)]
    stored = _stored(conv, [flipped, *bias], phases, weights)
    dilations = list(window.dilations)
    return Term(b, b.conv(conv.image, *stored, group=conv.groups, pads=pads, dilations=dilations))


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


class _Phases(NamedTuple):
    """Phases of an axis that sum up equally many taps: so many as `size`, from the first one on."""

    first: int
    size: int
    taps: int


def _phases_of(conv: ConvTransposeOp) -> list[list[_Phases]]:
    """The phases of each axis, by their taps."""
    window = conv.window()
    found: list[list[_Phases]] = []
    for kernel, stride in zip(window.kernel, window.strides, strict=True):
        taps, more = divmod(kernel.evaluate({}), stride)
        longer = [_Phases(0, more, taps + 1)] if more else []
        found.append([*longer, _Phases(more, stride - more, taps)])
    return found


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
    """The blocks `[n, m, stride..., position...]`, joined of the convolutions of their phases."""
    of_axes = _phases_of(conv)
    summed = [[each for each in of_axis if each.taps] for of_axis in of_axes]
    empty = [sum(each.size for each in of_axis if not each.taps) for of_axis in of_axes]
    operands = conv.operands[1:2] if any(empty) else conv.operands[1:]
    found = {each: _convolved(b, conv, operands, each, weights) for each in product(*summed)}
    for axis in reversed(range(len(summed))):
        found = {
            outer: joined([found[*outer, inner] for inner in summed[axis]], 2 + axis)
            for outer in product(*summed[:axis])
        }
    return _with_empty_phases(found[()], conv, empty)


def _with_empty_phases(blocks: Term, conv: ConvTransposeOp, empty: Sequence[int]) -> Term:
    """The blocks with so many phases without taps on each axis, which are what the bias is."""
    if not any(empty):
        return blocks
    rank = len(blocks.shape)
    pads = shape_attr([*(0 for _ in range(rank + 2)), *empty, *(0 for _ in empty)])
    padded = blocks.of(blocks.b.pad(blocks.value, pads=pads, mode="constant"))
    bias = [blocks.of(value) for value in conv.operands[2:]]
    return (
        padded + bias[0].reshape((bias[0].shape[0], *(1 for _ in range(rank - 2))))
        if bias
        else padded
    )


def _convolved(
    b: GraphBuilder,
    conv: ConvTransposeOp,
    stored: Sequence[SSAValue],
    phases: Sequence[_Phases],
    weights: WeightStore,
) -> Term:
    """The results `[n, m, phase..., position...]` of phases with equally many taps, of the filter
    and perhaps the bias that are stored.
    """
    filters, *bias = (Term(b, value) for value in stored)
    image, strides = Term(b, conv.image), conv.window().strides
    counts, taps = [each.size for each in phases], [each.taps for each in phases]
    most = [max(each.taps for each in of_axis) for of_axis in _phases_of(conv)]
    positions = [dim + reach - 1 for dim, reach in zip(image.shape[2:], most, strict=True)]
    channels = filters.shape[1] * conv.groups
    shape = (image.shape[0], channels, *counts, *positions)
    folded = _filter_of(filters, conv.groups, strides, phases)
    operands = [folded, *(_repeated(each, prod(counts)) for each in bias)]
    pads = [each - 1 for each in (*taps, *most)]
    filters_and_bias = _stored(conv, operands, phases, weights)
    return Term(b, b.conv(conv.image, *filters_and_bias, group=conv.groups, pads=pads)).reshape(
        shape
    )


def _stored(
    conv: ConvTransposeOp,
    operands: Sequence[Term],
    phases: Sequence[_Phases],
    weights: WeightStore,
) -> list[SSAValue]:
    """The filter and the bias of phases, as constants where those of the whole are."""
    values = [each.value for each in operands]
    if not all(constant_of(value, weights) for value in conv.operands[1:]):
        return values
    places = "".join(f".{each.first}" for each in phases if each.first)
    name = f"{conv.onnx_name or 'conv_transpose'}{places}"
    names = [f"{name}.{role}" for role in ("filter", "bias")[: len(values)]]
    return evaluate_constants(values, names, weights)


def _repeated(bias: Term, phases: int) -> Term:
    """Each element as often as there are phases."""
    (count,) = bias.shape
    return bias.insert(1).expand((count, phases)).reshape((count * phases,))


def _filter_of(
    filters: Term, groups: int, strides: Sequence[int], phases: Sequence[_Phases]
) -> Term:
    """`[c, o, k...]` as `[group * o * phase..., c / group, taps...]`, the taps in descending order:
    those of some phases alone.
    """
    rank = len(strides)
    channels, per_group, *kernel = filters.shape
    taps = [dim.ceildiv(step) for dim, step in zip(kernel, strides, strict=True)]
    ends = [count * step for count, step in zip(taps, strides, strict=True)]
    missing = [end - dim for end, dim in zip(ends, kernel, strict=True)]
    padded = filters
    if any(end != 0 for end in missing):
        pads = shape_attr([*(0 for _ in filters.shape), 0, 0, *missing])
        padded = filters.of(filters.b.pad(filters.value, pads=pads, mode="constant"))
    split = [size for pair in zip(taps, strides, strict=True) for size in pair]
    parts = padded.reshape((groups, channels // groups, per_group, *split))
    for axis, each in enumerate(phases):
        parts = parts.part(3 + 2 * axis, 0, each.taps)
        parts = parts.flip(3 + 2 * axis) if each.taps > 1 else parts
        parts = parts.part(4 + 2 * axis, each.first, each.size)
    inner = [4 + 2 * axis for axis in range(rank)]
    order = [0, 2, *inner, 1, *(phase - 1 for phase in inner)]
    count = prod(each.size for each in phases)
    shape = (groups * per_group * count, channels // groups, *(each.taps for each in phases))
    return parts.transpose(order).reshape(shape)
