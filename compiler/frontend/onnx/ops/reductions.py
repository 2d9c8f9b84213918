"""ONNX reductions, whose axes are an operand, and the normalisations that have optional parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode, normal_axis
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.ops.normalize import EPSILON

MOMENTUM = 0.9
"""ONNX's default share of the old running statistics."""

REDUCTIONS = {
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}


def import_reduction(name: str, node: OnnxNode) -> Sequence[SSAValue]:
    """Over the axes of operand 1; where that is absent or empty over all, unless it means none."""
    rank = len(node.shape())
    axes = [normal_axis(axis, rank) for axis in node.axes(1, rank) or ()]
    if not axes and not node.flag("noop_with_empty_axes"):
        axes = list(range(rank))
    keepdims = node.flag("keepdims", default=True)
    return node.b.op(name, node.operand(0), axes=sorted(set(axes)), keepdims=keepdims).results


def import_layer_normalization(node: OnnxNode) -> Sequence[SSAValue]:
    """Normalised over the axes from `axis` on; mean and deviation where something reads them."""
    attributes: dict[str, AttributeValue] = {
        "axis": normal_axis(node.integer("axis", -1), len(node.shape())),
        "epsilon": node.real("epsilon", EPSILON),
    }
    result = node.b.layer_norm(*node.operands, **attributes)
    if not node.uses(1) and not node.uses(2):
        return [result]
    statistics = node.b.op("layer_norm_statistics", node.operand(0), **attributes)
    return [result, *statistics.results]


def import_batch_normalization(node: OnnxNode) -> Sequence[SSAValue]:
    """With the statistics that are operands; in training with those of the batch, which the running
    ones, further results, move towards.
    """
    epsilon = node.real("epsilon", EPSILON)
    if not node.flag("training_mode"):
        return [node.b.batch_norm(*node.operands, epsilon=epsilon)]
    axes = [axis for axis in range(len(node.shape())) if axis != 1]
    x, scale, bias, *running = (node.operand(position) for position in range(5))
    mean = node.b.reduce_mean(x, axes=axes, keepdims=True)
    distance = node.b.sub(x, mean)
    variance = node.b.reduce_mean(node.b.mul(distance, distance), axes=axes, keepdims=False)
    mean = node.reshape(mean, node.shape()[1:2])
    batch = [node.cast(each, node.type(3).element) for each in (mean, variance)]
    return [
        node.b.batch_norm(x, scale, bias, *batch, epsilon=epsilon),
        *(_moved(node, old, new) for old, new in zip(running, batch, strict=True)),
    ]


def _moved(node: OnnxNode, old: SSAValue, new: SSAValue) -> SSAValue:
    """A running statistic after one more batch."""
    momentum, element = node.real("momentum", MOMENTUM), node.type(3).element
    kept = node.b.mul(old, node.scalar(momentum, element))
    return node.b.add(kept, node.b.mul(new, node.scalar(1 - momentum, element)))


IMPORTERS: dict[str, Importer] = {
    **{op_type: partial(import_reduction, name) for op_type, name in REDUCTIONS.items()},
    "BatchNormalization": import_batch_normalization,
    "LayerNormalization": import_layer_normalization,
}
