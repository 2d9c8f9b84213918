"""graph -> graph: a batch normalisation with known parameters becomes a
scale and a shift of each channel.

Behind a convolution that nobody else reads, both go into its filter and bias:

    batch_norm(conv(x, w), scale, bias, mean, variance) -> conv(x, w * factor, bias - mean * factor)

with `factor = scale / sqrt(variance + epsilon)`.
Anywhere else it becomes a product and a sum, which fuse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from dialects.context import weights_of
from dialects.graph import OPS_BY_NAME, ConstantOp
from dialects.graph.builder import GraphBuilder
from dialects.graph.conv import ConvOp
from dialects.graph.dtypes import numpy_dtype
from dialects.graph.normalize import BatchNormOp
from dialects.weights import Array, WeightStore


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Rewrites every batch normalisation whose parameters are constants."""

    name = "weft-fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for norm in [inner for inner in op.walk() if isinstance(inner, BatchNormOp)]:
            parameters = [_constant(value, weights) for value in norm.operands[1:]]
            known = [array for array in parameters if array is not None]
            if len(known) == len(parameters):
                _rewrite(norm, known, weights)


def _constant(value: SSAValue, weights: WeightStore) -> Array | None:
    owner = value.owner
    if isinstance(owner, ConstantOp) and (
        owner.literal is not None or (owner.key and owner.key.data in weights)
    ):
        return owner.array(weights)
    return None


def _rewrite(norm: BatchNormOp, parameters: list[Array], weights: WeightStore) -> None:
    scale, bias, mean, variance = (array.astype(np.float64) for array in parameters)
    factor = scale / np.sqrt(variance + norm.epsilon.value.data)
    shift = bias - mean * factor
    b = GraphBuilder(InsertPoint.before(norm), OPS_BY_NAME, norm.location)
    result = _into_convolution(norm, factor, shift, weights, b)
    if result is None:
        spatial = (1,) * (norm.result_type.rank - 2)
        result = b.mul(
            norm.operand, _stored(norm, "scale", factor.reshape(-1, *spatial), weights, b)
        )
        result = b.add(result, _stored(norm, "shift", shift.reshape(-1, *spatial), weights, b))
    result.name_hint = norm.result.name_hint
    norm.result.replace_all_uses_with(result)
    norm.detach()
    norm.erase()


def _into_convolution(
    norm: BatchNormOp, factor: Array, shift: Array, weights: WeightStore, b: GraphBuilder
) -> SSAValue | None:
    """The convolution with scaled filters and another bias,
    or None where it is not the norm's alone.
    """
    conv = norm.operand.owner
    if not isinstance(conv, ConvOp) or norm.operand.uses.get_length() != 1:
        return None
    filters = _constant(conv.filter, weights)
    bias = np.zeros(len(factor)) if conv.bias is None else _constant(conv.bias, weights)
    if filters is None or bias is None:
        return None
    dtype = filters.dtype
    scaled = filters * factor.reshape(-1, *(1,) * (filters.ndim - 1)).astype(dtype)
    operands = [
        conv.image,
        _stored(norm, "filter", scaled, weights, b),
        _stored(norm, "bias", bias.astype(np.float64) * factor + shift, weights, b),
    ]
    properties = {
        name: value for name, value in conv.properties.items() if name != "operandSegmentSizes"
    }
    return b.builder.insert(ConvOp.from_properties(operands, properties, conv.location)).results[0]


def _stored(
    norm: BatchNormOp, role: str, array: Array, weights: WeightStore, b: GraphBuilder
) -> SSAValue:
    """A constant of the norm's element type."""
    name = f"{norm.onnx_name or 'batch_norm'}.{role}"
    typed = array.astype(numpy_dtype(norm.result_type.element), copy=False)
    return b.builder.insert(ConstantOp.stored(name, typed, weights, norm.location)).results[0]
