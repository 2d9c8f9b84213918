"""What onnxruntime's optimiser fuses of diffusion models, on images whose channels come last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode
from weft.compiler.frontend.onnx.ops.microsoft.quantised import of_channels_last
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.ops.windows import convolution
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.types import F32


def import_group_norm(node: OnnxNode) -> Sequence[SSAValue]:
    """Groups of channels brought to mean 0 and variance 1, in f32, and maybe their swish."""
    return [_normal(node, Term(node.b, node.operand(0))).value]


def import_skip_group_norm(node: OnnxNode) -> Sequence[SSAValue]:
    """The same of a sum of two images and a bias, and that sum."""
    x, skip = (Term(node.b, node.operand(position)) for position in (0, 3))
    channels = _channels(node)
    if len(skip.shape) == 2:
        skip = skip.insert(1, 2) if channels == 3 else skip.insert(2, 3)
    total = x + skip
    if node.optional(4) is not None:
        bias = Term(node.b, node.operand(4))
        total = total + (bias if channels == 3 else bias.insert(1, 2))
    return [_normal(node, total).value, total.value]


def _channels(node: OnnxNode) -> int:
    """The axis of channels of images of rank 4."""
    return 3 if node.flag("channels_last", default=True) else 1


def _normal(node: OnnxNode, image: Term) -> Term:
    is_last = _channels(node) == 3
    wide = image.cast(F32).transpose([0, 3, 1, 2] if is_last else range(4))
    parameters = [node.operand(position) for position in (1, 2)]
    options = {"groups": node.attribute("groups").i, "epsilon": node.real("epsilon", 1e-5)}
    normal = wide.of(node.b.group_norm(wide.value, *parameters, **options))
    if node.flag("activation"):
        normal = wide.of(node.b.swish(normal.value, alpha=1.0))
    return normal.cast(image.type.element).transpose([0, 2, 3, 1] if is_last else range(4))


def import_convolution(node: OnnxNode) -> Sequence[SSAValue]:
    """A convolution whose filters have their channels last too; the image is as ONNX has it."""
    filters = Term(node.b, node.operand(1)).transpose([0, 3, 1, 2])
    return [convolution(node, filters.shape[2:], node.operand(0), filters.value, node.optional(2))]


def import_sum(node: OnnxNode) -> Sequence[SSAValue]:
    """`x + bias + skip`."""
    return [node.b.add(node.b.add(node.operand(0), node.operand(1)), node.operand(2))]


def import_gated_gelu(node: OnnxNode) -> Sequence[SSAValue]:
    """The first half of the columns times the gelu of the second one, both with their bias."""
    total = Term(node.b, node.operand(0)) + Term(node.b, node.operand(1))
    axis, columns = len(total.shape) - 1, total.shape[-1]
    if (columns % 2) != 0:
        raise ModelError(f"requires two halves of columns, got {columns}")
    left, right = (total.part(axis, start, columns // 2) for start in (0, columns // 2))
    return [(left * right.of(node.b.gelu(right.value, approximate="none"))).value]


_NORM = "activation! channels_last epsilon groups!"

IMPORTERS = importers(
    {
        "BiasAdd": Signature(import_sum, "x:F:bsc bias:F:c skip:F:bsc"),
        "BiasSplitGelu": Signature(import_gated_gelu, "x:F:bsc bias:F:c"),
        "GroupNorm": Signature(import_group_norm, "x:F:.... gamma:S:c beta:S:c", _NORM),
        "NhwcConv": Signature(
            partial(of_channels_last, import_convolution),
            "x:F:nhwc w:F:m... b?:F:m",
            "auto_pad dilations group kernel_shape pads strides",
        ),
        "SkipGroupNorm": Signature(
            import_skip_group_norm,
            "x:F:.... gamma:S:c beta:S:c skip:F:....|.c bias?:F:c",
            _NORM,
        ),
    }
)
