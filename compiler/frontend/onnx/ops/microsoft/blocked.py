"""onnxruntime's convolutions and poolings in blocks of channels, on the images as ONNX has them.

Images stay in rows, for the graph has no layouts: what comes into blocks is padded to whole ones,
what leaves them is cut. Filters, which the file stores in blocks, are brought back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.channel_blocks import BLOCK, DOMAIN, is_blocked
from weft.compiler.frontend.onnx.node import OnnxNode, dims_attr
from weft.compiler.frontend.onnx.ops.microsoft.fused import CONVOLUTION, import_convolution
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.resize import choice, import_resize, repeated
from weft.compiler.frontend.onnx.ops.windows import import_average_pool, import_max_pool
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.algebra import Term


def import_reorder_input(node: OnnxNode) -> Sequence[SSAValue]:
    """An image with whole blocks of channels, the last filled with zeros."""
    value = Term(node.b, node.operand(0))
    if node.flag("channels_last"):
        value = value.transpose([0, 3, 1, 2])
    missing = -value.shape[1] % node.attribute(BLOCK).i
    if missing == 0:
        return [value.value]
    pads = dims_attr([0, 0, 0, 0, 0, missing, 0, 0])
    return [node.b.pad(value.value, pads=pads, mode="constant")]


def import_reorder_output(node: OnnxNode) -> Sequence[SSAValue]:
    """An image of so many channels, without those that fill its last block."""
    value = Term(node.b, node.operand(0)).part(1, 0, node.attribute("channels").i)
    return [(value.transpose([0, 2, 3, 1]) if node.flag("channels_last") else value).value]


def import_blocked_convolution(node: OnnxNode) -> Sequence[SSAValue]:
    """A convolution whose filter is stored in blocks."""
    node.operands = [node.operand(0), _filter(node).value, *node.operands[2:]]
    return import_convolution(node)


def _filter(node: OnnxNode) -> Term:
    """The filter `[m, c, h, w]`, stored as `[m/b][c/b][h][w][b of c][b of m]`, or as
    `[m/b][c][h][w][b of m]` where it reads no blocks.
    """
    results, inputs, height, width = node.static_shape(1)
    size, groups = node.attribute(BLOCK).i, node.integer("group", 1)
    inner = size if is_blocked(size, results, inputs, groups) else 1
    if results % size or inputs % inner:
        rule = f"requires a filter of whole blocks of {size} channels"
        raise ModelError(f"{rule}, got {node.type(1)}")
    stored = Term(node.b, node.operand(1)).reshape(
        (results // size, inputs // inner, height, width, inner, size)
    )
    return stored.transpose([0, 5, 1, 4, 2, 3]).reshape((results, inputs, height, width))


def import_global_average_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """The mean of each channel."""
    return [node.b.global_average_pool(node.operand(0))]


def import_global_max_pool(node: OnnxNode) -> Sequence[SSAValue]:
    """The greatest element of each channel."""
    return [node.b.global_max_pool(node.operand(0))]


def import_upsample(node: OnnxNode) -> Sequence[SSAValue]:
    """Each pixel so many times, or pixels between them."""
    scales = node.integers("scales", [1, 1, 1, 1])
    if len(scales) != 4 or scales[:2] != [1, 1] or min(scales) < 1:
        raise UnsupportedError(f"requires whole scales of height and width, got {scales}")
    if choice(node, "mode", "nearest", ("nearest", "linear")) == "nearest":
        return [repeated(Term(node.b, node.operand(0)), {2: scales[2], 3: scales[3]}).value]
    node.operands = [node.operand(0), None, node.constant(np.array(scales, np.float32))]
    return import_resize(node)


_WINDOW = f"auto_pad ceil_mode dilations kernel_shape! pads strides {BLOCK}!"

IMPORTERS = importers(
    {
        "AveragePool": Signature(import_average_pool, "x:S:....", f"{_WINDOW} count_include_pad"),
        "Conv": Signature(
            import_blocked_convolution,
            "x:S:n... w:S:m... b?:S:m sum?:S:nm..",
            f"{CONVOLUTION} {BLOCK}!",
        ),
        "GlobalAveragePool": Signature(import_global_average_pool, "x:S:....", f"{BLOCK}!"),
        "GlobalMaxPool": Signature(import_global_max_pool, "x:S:....", f"{BLOCK}!"),
        "MaxPool": Signature(import_max_pool, "x:S:....", f"{_WINDOW} storage_order"),
        "ReorderInput": Signature(import_reorder_input, "x:S:....", f"channels_last {BLOCK}!"),
        "ReorderOutput": Signature(
            import_reorder_output, "x:S:....", f"channels! channels_last {BLOCK}!"
        ),
        "Upsample": Signature(
            import_upsample, "x:S:....", f"coordinate_transformation_mode mode scales {BLOCK}!"
        ),
    },
    DOMAIN,
)
