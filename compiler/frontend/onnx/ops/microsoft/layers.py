"""onnxruntime's pieces of transformers beside attention: activations with a bias, normalisations of
sums, and embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, normal_axis
from weft.compiler.frontend.onnx.ops.microsoft.quantised import whole
from weft.compiler.frontend.onnx.ops.microsoft.signature import Signature, importers
from weft.compiler.frontend.onnx.rules import ONE
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
    total = _summed(node, node.optional(8), lambda at, rows: _table(node, at).take(rows, 0))
    scale, shift = (_table(node, position) for position in (5, 6))
    return [*_normalised(node, total, scale, shift), total.value]


def import_quantised_embeddings(node: OnnxNode) -> Sequence[SSAValue]:
    """The same of quantised tables, scales and shifts, without the sum. Rows are taken first."""

    def real(position: int, x: Term) -> Term:
        zero, scale = whole(node, position + 11).cast(I32), whole(node, position + 6)
        return (x.cast(I32) - zero).cast(F32) * scale

    total = _summed(node, None, lambda at, rows: real(at, _table(node, at).take(rows, 0)))
    scale, shift = (real(position, _table(node, position)) for position in (5, 6))
    return _normalised(node, total, scale, shift)


def _table(node: OnnxNode, position: int) -> Term:
    return Term(node.b, node.operand(position))


def _summed(
    node: OnnxNode, positions: SSAValue | None, rows_of: Callable[[int, Term], Term]
) -> Term:
    """The sum of the rows of words, of positions, which count from 0 unless they are given, and of
    segments where there are some.
    """
    words = _table(node, 0)
    given = counted(node.b, words.shape[1]) if positions is None else words.of(positions)
    total = rows_of(2, words) + rows_of(3, given)
    return total if node.optional(1) is None else total + rows_of(4, _table(node, 1))


def _normalised(node: OnnxNode, total: Term, scale: Term, shift: Term) -> list[SSAValue]:
    """The norm of a sum of embeddings, and in how many positions of each row the mask is 1."""
    epsilon, mask = node.real("epsilon", SMALL_EPSILON), node.optional(7)
    result = node.b.layer_norm(total.value, scale.value, shift.value, axis=2, epsilon=epsilon)
    if mask is None:
        counts = Term(node.b, node.scalar(0, I32)).expand(node.shape()[:1])
    else:
        counts = total.of(mask).equals(1).cast(I32).sum([1])
    return [result, counts.value]


_TABLES = (
    "input_ids:L:bs segment_ids?:L:bs word:{0}:.h position:{0}:.h segment?:{0}:.h gamma:{0}:h "
    "beta:{0}:h mask?:L:bs "
)
_PARAMETERS = " ".join(
    f"{name}:{{0}}:{ONE}" for name in ("word", "position", "segment?", "gamma", "beta")
)
"""A scale or a zero point of each table, and of the norm's scale and shift."""

IMPORTERS = {
    **importers(
        {
            "BiasGelu": Signature(partial(import_gelu, "none"), "a:F:* b:F:."),
            "EmbedLayerNormalization": Signature(
                import_embeddings,
                f"{_TABLES.format('F')}position_ids?:L:bs|1s",
                "epsilon mask_index_type",
            ),
            "FastGelu": Signature(partial(import_gelu, "tanh"), "x:F:* bias?:F:."),
            "Gelu": Signature(partial(import_gelu, "none"), "x:F:*"),
            "QEmbedLayerNormalization": Signature(
                import_quantised_embeddings,
                f"{_TABLES.format('Q')}{_PARAMETERS.format('S')} {_PARAMETERS.format('Q')}",
                "epsilon",
            ),
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
