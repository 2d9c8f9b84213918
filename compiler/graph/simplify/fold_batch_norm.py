"""graph -> graph: a batch normalisation with known parameters becomes a
scale and a shift of each channel.

Behind a convolution that nobody else reads, both go into its filter and bias:

    batch_norm(conv(x, w), scale, bias, mean, variance) -> conv(x, w * factor, bias - mean * factor)

with `factor = scale / sqrt(variance + epsilon)`.
Anywhere else it becomes a product and a sum, which fuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.dialects.context import weights_of
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F64, type_of
from weft.dialects.graph.ops.conv import ConvOp
from weft.dialects.graph.ops.normalize import BatchNormOp
from weft.dialects.weights import WeightStore


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Rewrites every batch normalisation whose parameters are constants."""

    name = "weft-fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for norm in [inner for inner in op.walk() if isinstance(inner, BatchNormOp)]:
            if all(constant_of(value, weights) for value in norm.operands[1:]):
                _rewrite(norm, weights)


def _rewrite(norm: BatchNormOp, weights: WeightStore) -> None:
    b = GraphBuilder(InsertPoint.before(norm), OPS_BY_NAME, norm.location)
    scale, bias, mean, variance = (Term(b, value).cast(F64) for value in norm.operands[1:])
    factor = scale / (variance + norm.epsilon.value.data).math("sqrt")
    shift = bias - mean * factor
    result = _into_convolution(norm, factor, shift, weights, b)
    if result is None:
        dims = (*factor.shape, *(1,) * (norm.result_type.rank - 2))
        parts = {"scale": factor.reshape(dims), "shift": shift.reshape(dims)}
        scaled, shifted = _settled(norm, parts, weights)
        result = b.add(b.mul(norm.operand, scaled), shifted)
    result.name_hint = norm.result.name_hint
    norm.result.replace_all_uses_with(result)
    norm.detach()
    norm.erase()


def _into_convolution(
    norm: BatchNormOp, factor: Term, shift: Term, weights: WeightStore, b: GraphBuilder
) -> SSAValue | None:
    """The convolution with scaled filters and another bias,
    or None where it is not the norm's alone.
    """
    conv = norm.operand.owner
    if not isinstance(conv, ConvOp) or not norm.operand.has_one_use():
        return None
    is_constant = constant_of(conv.filter, weights) is not None
    if not is_constant or (conv.bias is not None and constant_of(conv.bias, weights) is None):
        return None
    filters = Term(b, conv.filter)
    dims = (*factor.shape, *(1,) * (len(filters.shape) - 1))
    scaled = filters * factor.cast(type_of(conv.filter).element).reshape(dims)
    if conv.bias is not None:
        shift = Term(b, conv.bias).cast(F64) * factor + shift
    operands = [conv.image, *_settled(norm, {"filter": scaled, "bias": shift}, weights)]
    properties = {
        name: value for name, value in conv.properties.items() if name != "operandSegmentSizes"
    }
    return b.builder.insert(ConvOp.from_properties(operands, properties, conv.location)).results[0]


def _settled(norm: BatchNormOp, parts: Mapping[str, Term], weights: WeightStore) -> list[SSAValue]:
    """Constants of the norm's element type."""
    stem, element = norm.onnx_name or "batch_norm", norm.result_type.element
    values = [term.cast(element).value for term in parts.values()]
    return evaluate_constants(values, [f"{stem}.{role}" for role in parts], weights)
