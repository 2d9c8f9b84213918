"""References against onnxruntime: where ONNX's evaluator is wrong or names are not one to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr

from tests.support import oracle
from tests.support.sample import Sample
from tests.support.samples import SAMPLES
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.op import ints
from weft.dialects.graph.core.window import same_pads
from weft.dialects.graph.ops import conv, lp_norm, normalize, pool, reduce
from weft.dialects.weights import Array

OPSET = 21
REDUCTIONS = {
    reduce.ReduceSumOp: "ReduceSum",
    reduce.ReduceMeanOp: "ReduceMean",
    reduce.ReduceMaxOp: "ReduceMax",
    reduce.ReduceMinOp: "ReduceMin",
    reduce.ReduceProdOp: "ReduceProd",
    reduce.ReduceL1Op: "ReduceL1",
    reduce.ReduceL2Op: "ReduceL2",
    reduce.ReduceSumSquareOp: "ReduceSumSquare",
    reduce.ReduceLogSumOp: "ReduceLogSum",
    reduce.ReduceLogSumExpOp: "ReduceLogSumExp",
}
OTHERS = {
    conv.ConvOp: "Conv",
    conv.ConvTransposeOp: "ConvTranspose",
    pool.MaxPoolOp: "MaxPool",
    pool.AveragePoolOp: "AveragePool",
    lp_norm.LpPoolOp: "LpPool",
    pool.GlobalMaxPoolOp: "GlobalMaxPool",
    lp_norm.GlobalLpPoolOp: "GlobalLpPool",
    normalize.BatchNormOp: "BatchNormalization",
    normalize.LrnOp: "LRN",
    lp_norm.LpNormOp: "LpNormalization",
    normalize.MeanVarianceNormOp: "MeanVarianceNormalization",
}
RENAMED = {"kernel": "kernel_shape"}

EXAMPLES = settings(
    max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def run_onnxruntime(
    op_type: str, operands: list[Array], attributes: Mapping[str, Any], outputs: int = 1
) -> list[Array]:
    """The results of a model of one node."""
    feeds = {f"x{position}": operand for position, operand in enumerate(operands)}
    results = [f"y{position}" for position in range(outputs)]
    node = onnx.helper.make_node(op_type, list(feeds), results, **attributes)
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape
        )
        for name, operand in feeds.items()
    ]
    blank = [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    graph = onnx.helper.make_graph([node], "one_node", inputs, blank)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def in_f32(sample: Sample) -> list[Array]:
    return [np.asarray(operand).astype(np.float32) for operand in sample.present]


def onnx_attributes(op: GraphOp, skipped: tuple[str, ...] = ()) -> dict[str, Any]:
    """The operator's attributes under ONNX's names."""
    found: dict[str, Any] = {}
    for name, attribute in op.properties.items():
        if isinstance(attribute, DenseArrayBase):
            value: Any = list(ints(attribute))
        else:
            assert isinstance(attribute, (IntegerAttr, FloatAttr)), f"{name} is a number"
            number = attribute.value.data
            value = number if isinstance(number, float) else abs(int(number))
            value = attribute.value.data if name == "axis" else value
        if name not in skipped:
            found[RENAMED.get(name, name)] = value
    return found


def check(op: GraphOp, operands: list[Array], actual: list[Array]) -> None:
    expected = oracle.references(op, operands)
    for found, array in zip(actual, expected, strict=True):
        assert found.shape == array.shape
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5 * scale)


def each(table: Mapping[type[GraphOp], str]) -> Callable[..., Any]:
    return pytest.mark.parametrize(("cls", "op_type"), table.items(), ids=table.values())


def is_judged(sample: Sample) -> bool:
    """Whether onnxruntime can judge it: odd neighbourhoods, variances beyond rounding."""
    axes, size = sample.attributes.get("axes"), sample.attributes.get("size", 1)
    if isinstance(axes, list):
        return bool(np.var(in_f32(sample)[0], axis=tuple(axes)).min() > 0.1)
    return isinstance(size, int) and size % 2 == 1


@each(OTHERS)
@EXAMPLES
@given(data=st.data())
def test_reference_agrees_with_onnxruntime(cls: type[GraphOp], op_type: str, data: st.DataObject):
    sample = data.draw(SAMPLES[cls].filter(is_judged))
    operands = in_f32(sample)
    op = oracle.operator(cls, Sample(operands, sample.attributes))
    check(op, operands, run_onnxruntime(op_type, operands, onnx_attributes(op)))


@each(REDUCTIONS)
@EXAMPLES
@given(data=st.data())
def test_reduction_agrees_with_onnxruntime(cls: type[GraphOp], op_type: str, data: st.DataObject):
    sample = data.draw(SAMPLES[cls].filter(lambda sample: sample.present[0].size > 0))
    operands = in_f32(sample)
    op = oracle.operator(cls, Sample(operands, sample.attributes))
    axes = np.array(sample.attributes["axes"], np.int64)
    attributes = onnx_attributes(op, ("axes",)) | {"noop_with_empty_axes": 1}
    if axes.size:
        check(op, operands, run_onnxruntime(op_type, [*operands, axes], attributes))


@EXAMPLES
@given(sample=SAMPLES[pool.MaxPoolIndicesOp])
def test_max_pool_indices_agree_with_onnxruntime(sample: Sample):
    operands = in_f32(sample)
    op = oracle.operator(pool.MaxPoolIndicesOp, Sample(operands, sample.attributes))
    attributes = onnx_attributes(op, ("column_major", "per_plane"))
    order = int(bool(sample.attributes["column_major"]))
    _, places = run_onnxruntime("MaxPool", operands, attributes | {"storage_order": order}, 2)
    if sample.attributes["per_plane"]:
        places %= np.prod(operands[0].shape[2:], dtype=np.int64)
    np.testing.assert_array_equal(oracle.references(op, operands)[0], places)


@EXAMPLES
@given(sample=SAMPLES[normalize.LayerNormOp])
def test_layer_norm_statistics_agree_with_onnxruntime(sample: Sample):
    operands = in_f32(sample)
    cls = normalize.LayerNormStatisticsOp
    op = oracle.operator(cls, Sample(operands[:1], sample.attributes))
    results = run_onnxruntime("LayerNormalization", operands, onnx_attributes(op), 3)
    check(op, operands[:1], results[1:])


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(5, 2, 1), (6, 3, 1), (7, 1, 1)])
def test_same_pads_are_onnxruntimes(mode: str, size: int, stride: int, dilation: int):
    image = np.arange(size, dtype=np.float32).reshape(1, 1, size)
    filters = np.array([[[1, 10, 100, 1000]]], np.float32)
    steps = {"strides": [stride], "dilations": [dilation]}
    found = run_onnxruntime("Conv", [image, filters], {"auto_pad": mode, **steps})
    pads = same_pads([size], [4], [stride], [dilation], upper=mode == "SAME_UPPER")
    numbers = [pad.constant or 0 for pad in pads]
    attributes = {"group": 1, "pads": numbers, **steps}
    op = oracle.operator(conv.ConvOp, Sample([image, filters], attributes))
    check(op, [image, filters], found)
