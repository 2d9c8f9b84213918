"""Products and convolutions of quantised tensors with weights: onnxruntime's answers."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import weft
from weft.compiler.target import TARGETS

Array = np.ndarray[Any, Any]
BASE = next(target for target in TARGETS if target.name == "x86-64")
ELEMENTS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def model_of(
    nodes: list[NodeProto], x: tuple[int, tuple[Any, ...]], y: int, weights: dict[str, Array]
) -> ModelProto:
    """A model with an input, of an element type and a shape, and a result of an element type."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    given = helper.make_tensor_value_info("x", *x)
    graph = helper.make_graph(
        nodes, "quantised", [given], [helper.make_tensor_value_info("y", y, None)], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def expected_of(model: ModelProto, x: Array) -> Array:
    """onnxruntime's answer, without fusing what it would round otherwise."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def got_of(model: ModelProto, x: Array, **changes: Any) -> Array:
    return np.asarray(weft.compile(model, cache=False, threads=1, **changes)(x)[0])


def seven_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Numbers of seven bits: on processors without sums of four products onnxruntime adds up two
    products of bytes in 16 bits, and saturates.
    """
    low = 0 if dtype is np.uint8 else -64
    return rng.integers(low, low + 128, shape).astype(dtype)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_products_of_integers(data: st.DataObject):
    draw, rng = data.draw, np.random.default_rng(data.draw(st.integers(0, 99)))
    m, k, n = (draw(st.sampled_from(sizes)) for sizes in ((1, 9, 41), (4, 7, 80), (1, 16, 37)))
    dtypes = [draw(st.sampled_from([np.uint8, np.int8])) for _ in range(2)]
    zeros = [seven_bits(rng, (), dtype) for dtype in dtypes]
    weights = {"w": seven_bits(rng, (k, n), dtypes[1]), "a": zeros[0], "b": zeros[1]}
    names = ["x", "w", *draw(st.sampled_from([[], ["a"], ["a", "b"]]))]
    node = helper.make_node("MatMulInteger", names, ["y"])
    rows = draw(st.sampled_from([m, "rows"]))
    model = model_of([node], (ELEMENTS[dtypes[0]], (rows, k)), TensorProto.INT32, weights)
    x = seven_bits(rng, (m, k), dtypes[0])
    expected = expected_of(model, x)
    for changes in ({}, {"target": BASE}):
        np.testing.assert_array_equal(got_of(model, x, **changes), expected)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_two_tensors_that_a_call_gives(dtype: type, turned: bool):
    rng = np.random.default_rng(5)
    x, w = rng.integers(0, 256, (3, 21, 64), np.uint8), seven_bits(rng, (3, 64, 37), dtype)
    given = np.ascontiguousarray(w.transpose(0, 2, 1)) if turned else w
    turn = [helper.make_node("Transpose", ["w"], ["t"], perm=[0, 2, 1])] if turned else []
    node = helper.make_node("MatMulInteger", ["x", "t" if turned else "w"], ["y"])
    model = model_of([*turn, node], (TensorProto.UINT8, x.shape), TensorProto.INT32, {})
    model.graph.input.append(helper.make_tensor_value_info("w", ELEMENTS[dtype], given.shape))
    expected = x.astype(np.int32) @ w.astype(np.int32)
    for changes in ({}, {"target": BASE}):
        executable = weft.compile(model, cache=False, threads=1, **changes)
        np.testing.assert_array_equal(executable(x, given)[0], expected)


def test_images_of_many_channels_are_the_same_on_every_level():
    rng = np.random.default_rng(7)
    x = rng.integers(0, 256, (1, 64, 9, 9), np.uint8)
    weights = {"s": np.float32(0.02), "z": np.uint8(3), "n": np.int8(0), "r": np.float32(0.3)}
    shapes = {"v": (128, 64, 3, 3), "w": (64, 128, 1, 1)}
    weights |= {name: seven_bits(rng, shape, np.int8) for name, shape in shapes.items()}
    ends = ["s", "n", "r", "z"]
    nodes = [
        helper.make_node("QLinearConv", ["x", "s", "z", "v", *ends], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("QLinearConv", ["p", "s", "z", "w", *ends], ["y"]),
    ]
    model = model_of(nodes, (TensorProto.UINT8, x.shape), TensorProto.UINT8, weights)
    answers = [got_of(model, x, **changes) for changes in ({}, {"target": BASE})]
    np.testing.assert_array_equal(*answers)
    assert np.abs(answers[0].astype(int) - expected_of(model, x).astype(int)).max() <= 1
    assert answers[0].std() > 5  # not all at an end


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_convolutions_of_integers(data: st.DataObject):
    draw, rng = data.draw, np.random.default_rng(data.draw(st.integers(0, 99)))
    group, depth, per_group = draw(st.sampled_from([(1, 3, 8), (1, 16, 20), (2, 8, 16), (4, 1, 1)]))
    kernel, pad, stride = (draw(st.integers(low, high)) for low, high in ((1, 3), (0, 1), (1, 2)))
    dtype = draw(st.sampled_from([np.uint8, np.int8]))
    filters = seven_bits(rng, (group * per_group, depth, kernel, kernel), dtype)
    weights = {"w": filters, "a": np.uint8(draw(st.sampled_from([0, 3, 100])))}
    names = ["x", "w", "a"]
    if draw(st.booleans()):
        names, weights["b"] = [*names, "b"], dtype(draw(st.sampled_from([0, 5])))
    node = helper.make_node(
        "ConvInteger", names, ["y"], group=group, pads=[pad] * 4, strides=[stride] * 2
    )
    shape = (2, group * depth, 7, 6)
    model = model_of([node], (TensorProto.UINT8, shape), TensorProto.INT32, weights)
    x = seven_bits(rng, shape, np.uint8)
    expected = expected_of(model, x)
    for changes in ({}, {"target": BASE}):
        np.testing.assert_array_equal(got_of(model, x, **changes), expected)


def quantized_nodes(op: str, **attributes: Any) -> list[NodeProto]:
    """An operator between dequantised operands and a result that is quantised again."""
    make = helper.make_node
    return [
        make("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        make("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
        make("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0 if op == "Conv" else 1),
        make(op, ["dx", "dw", *(["bias"] if op == "Conv" else [])], ["r"], **attributes),
        make("QuantizeLinear", ["r", "sy", "zy"], ["y"]),
    ]


@pytest.mark.parametrize("op", ["Conv", "MatMul", "Gemm"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("changes", [{}, {"target": BASE}, {"strict_fp": True}])
def test_operators_between_quantised_tensors(op: str, per_channel: bool, changes: dict[str, Any]):
    rng = np.random.default_rng(7)
    shape = (2, 16, 9, 9) if op == "Conv" else (9, 64)
    filters = seven_bits(rng, (24, 16, 3, 3) if op == "Conv" else (64, 24), np.int8)
    count = (24,) if per_channel else ()
    weights = {
        "w": filters,
        "sx": np.float32(0.02),
        "zx": np.uint8(117),
        "sw": rng.uniform(0.001, 0.01, count).astype(np.float32),
        "zw": np.zeros(count, np.int8),
        "sy": np.float32(0.03),
        "zy": np.uint8(130),
        "bias": rng.standard_normal(24).astype(np.float32),
    }
    attributes = {"pads": [1] * 4} if op == "Conv" else {}
    model = model_of(
        quantized_nodes(op, **attributes), (TensorProto.FLOAT, shape), TensorProto.UINT8, weights
    )
    x = rng.standard_normal(shape).astype(np.float32)
    got, expected = got_of(model, x, **changes).astype(int), expected_of(model, x).astype(int)
    assert np.abs(got - expected).max() <= 1  # a step, where floats fall on the other side of half
    assert (got != expected).mean() < 0.01


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(70, 192, 160), (29, 320, 96), (64, 1024, 64)]
)
def test_tiles_whose_sums_are_read_among_the_products_of_the_next(
    rows: int, depth: int, columns: int
):
    rng = np.random.default_rng(depth)
    x = rng.integers(0, 256, (rows, depth)).astype(np.uint8)
    w = rng.integers(-128, 128, (depth, columns)).astype(np.int8)
    scales = rng.uniform(1e-4, 1e-3, columns).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("MatMulInteger", ["x", "w"], ["sums"]),
        node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
        node("Mul", ["floats", "scales"], ["y"]),
    ]
    model = model_of(
        nodes, (TensorProto.UINT8, x.shape), TensorProto.FLOAT, {"w": w, "scales": scales}
    )
    sums = x.astype(np.int32) @ w.astype(np.int32)
    np.testing.assert_array_equal(got_of(model, x), sums.astype(np.float32) * scales)
