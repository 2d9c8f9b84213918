"""onnxruntime's pieces of transformers beside attention: activations with a bias, normalisations of
sums, and embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, normal_axis
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.algebra import Term, counted
from weft.dialects.graph.core.types import F32, I32, type_of
from weft.dialects.graph.ops.normalize import EPSILON

SMALL_EPSILON = 9.999999960041972e-13
"""The default of these operators: the f32 next to 1e-12."""


# Activations ------------------------------------------------------------------------------------


def import_gelu(approximate: str, node: OnnxNode) -> Sequence[SSAValue]:
    """The operand, and a bias if there is one, through a GELU."""
    bias = node.optional(1)
    value = node.operand(0) if bias is None else node.b.add(node.operand(0), bias)
    return [node.b.gelu(value, approximate=approximate)]


def import_swish(node: OnnxNode) -> Sequence[SSAValue]:
    """`x * sigmoid(alpha * x)`."""
    return [node.b.swish(node.operand(0), alpha=node.real("alpha", 1.702))]


# Normalisations ---------------------------------------------------------------------------------


def import_rms_norm(node: OnnxNode) -> Sequence[SSAValue]:
    """`x / sqrt(mean(x^2) + epsilon) * scale`, of the scale's type; in f32 where the types
    differ.
    """
    if node.integer("stash_type", 1) != 1:
        raise UnsupportedError(f"requires a stash_type of 1, got {node.integer('stash_type', 1)}")
    x, scale = node.operand(0), node.operand(1)
    element = type_of(scale).element
    axis = normal_axis(node.integer("axis", -1), len(node.shape()))
    if node.type().element != element:
        x, scale = node.cast(x, F32), node.cast(scale, F32)
    result = node.b.rms_norm(x, scale, axis=axis, epsilon=node.real("epsilon", EPSILON))
    return [node.cast(result, element)]


def import_skip_norm(name: str, node: OnnxNode) -> Sequence[SSAValue]:
    """The normalised sum of two tensors and a bias, and that sum as the fourth result. Operands
    are both tensors, the scale, a shift for a `layer_norm`, and the bias.
    """
    for position in (1, 2):
        if node.uses(position):
            raise UnsupportedError(f"requires no statistics as results, got result {position}")
    rank, last = len(node.shape()), len(node.operands) - 1
    parameters = [2, 3] if name == "layer_norm" else [2]
    total = node.b.add(node.operand(0), node.operand(1))
    if parameters[-1] < last and node.optional(last) is not None:
        total = node.b.add(total, node.operand(last))
    operands = [node.optional(position) for position in parameters]
    epsilon = node.real("epsilon", SMALL_EPSILON)
    result = node.b.op(name, total, *operands, axis=rank - 1, epsilon=epsilon).results[0]
    return [result, total, total, total]  # of which the second and third are not used


def import_embeddings(node: OnnxNode) -> Sequence[SSAValue]:
    """The normalised sum of a word's, its position's and its segment's embeddings; in how many
    positions of each row the mask is 1; and the sum.
    """
    steps = node.shape()[1]
    words = Term(node.b, node.operand(2)).take(Term(node.b, node.operand(0)), 0)
    positions = Term(node.b, node.operand(3))
    given = node.optional(8)
    total = words + positions.take(counted(node.b, steps) if given is None else words.of(given), 0)
    if node.optional(1) is not None:
        total = total + Term(node.b, node.operand(4)).take(words.of(node.operand(1)), 0)
    epsilon = node.real("epsilon", SMALL_EPSILON)
    result = node.b.layer_norm(
        total.value, node.operand(5), node.operand(6), axis=2, epsilon=epsilon
    )
    mask = node.optional(7)
    if mask is None:
        counts = Term(node.b, node.scalar(0, I32)).expand(node.shape()[:1])
    else:
        counts = words.of(mask).equals(1).cast(I32).sum([1])
    return [result, counts.value, total.value]


IMPORTERS = {
    **importers(
        {
            "BiasGelu": Signature(partial(import_gelu, "none"), "a:F:* b:F:."),
            "EmbedLayerNormalization": Signature(
                import_embeddings,
                "input_ids:L:bs segment_ids?:L:bs word:F:.h position:F:.h segment?:F:.h gamma:F:h "
                "beta:F:h mask?:L:bs position_ids?:L:bs|1s",
                "epsilon mask_index_type",
            ),
            "FastGelu": Signature(partial(import_gelu, "tanh"), "x:F:* bias?:F:."),
            "Gelu": Signature(partial(import_gelu, "none"), "x:F:*"),
            "QuickGelu": Signature(import_swish, "x:F:*", "alpha"),
            "SkipLayerNormalization": Signature(
                partial(import_skip_norm, "layer_norm"),
                "x:F:bsh|sh skip:F:bsh|1sh|sh gamma:F:h beta?:F:h bias?:F:h",
                "epsilon",
            ),
            "SkipSimplifiedLayerNormalization": Signature(
                partial(import_skip_norm, "rms_norm"),
                "x:F:bsh|sh skip:F:bsh|1sh|sh gamma:F:h bias?:F:h",
                "epsilon",
            ),
        }
    ),
    **importers(
        {
            "SimplifiedLayerNormalization": Signature(
                import_rms_norm, "x:F1:* scale:F2:*", "axis epsilon stash_type"
            )
        },
        domain="",
    ),
}
