"""Convolutions in blocks of channels: what onnxruntime's optimiser makes on this machine, and files
of machines with other blocks.
"""
# pyright: basic

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import weft
from tests.models.peer import run_onnxruntime
from weft.compiler.frontend.onnx.channel_blocks import DOMAIN
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.dialects.errors import ModelError, OptionError, UnsupportedError, WeftError

RNG = np.random.default_rng(3)


def floats(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def node(op_type: str, operands: str, result: str, **attributes):
    return helper.make_node(op_type, operands.split(), [result], **attributes)


def model_of(nodes, constants, dims, outputs, domains=("",)) -> ModelProto:
    """A model of one image of these dims."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "blocks", inputs, results, stored)
    opsets = [helper.make_opsetid(each, 17 if not each else 1) for each in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def optimised(model: ModelProto, path: Path) -> ModelProto:
    """What onnxruntime makes of a model for this machine."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(path)


NETWORK = [
    node("Conv", "x w0 b0", "a", pads=[1, 1, 1, 1]),
    node("Relu", "a", "b"),
    node("Conv", "b w1", "c", group=24, strides=[2, 2], pads=[1, 1, 1, 1]),
    node("Softplus", "c", "s"),
    node("Conv", "s w2 b2", "d"),
    node("HardSigmoid", "d", "e", alpha=0.3),
    node("Conv", "e w3", "f", pads=[1, 1, 1, 1]),
    node("Add", "f e", "g"),
    node("Relu", "g", "h"),
    node("Conv", "h w4", "i", group=2, pads=[1, 1, 1, 1]),
    node("MaxPool", "i", "j", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    node("AveragePool", "j", "k", kernel_shape=[2, 2], strides=[2, 2]),
    node("Resize", "k none2 twice", "l", coordinate_transformation_mode="asymmetric",
         nearest_mode="floor"),
    node("Conv", "l w3", "m", pads=[1, 1, 1, 1]),
    node("Resize", "m none2 twice", "n", mode="linear"),
    node("Conv", "n w3", "o", pads=[1, 1, 1, 1]),
    node("GlobalAveragePool", "o", "p"),
    node("Conv", "p w5", "q"),
    node("Sigmoid", "q", "r"),
    node("Mul", "o r", "y"),
    node("GlobalMaxPool", "o", "z"),
]  # fmt: skip

CONSTANTS = {
    "w0": floats(24, 3, 3, 3) / 5,
    "b0": floats(24),
    "w1": floats(24, 1, 3, 3) / 3,
    "w2": floats(32, 24, 1, 1) / 5,
    "b2": floats(32),
    "w3": floats(32, 32, 3, 3) / 17,
    "w4": floats(32, 16, 3, 3) / 12,
    "w5": floats(32, 32, 1, 1) / 6,
    "none2": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
}


def test_what_onnxruntime_optimises_for_this_machine_agrees(tmp_path: Path) -> None:
    plain = model_of(NETWORK, CONSTANTS, [2, 3, 13, 11], "yz")
    model = optimised(plain, tmp_path / "optimised.onnx")
    used = {each.op_type for each in model.graph.node if each.domain == DOMAIN}
    assert used == {
        "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput",
        "ReorderOutput", "Upsample",
    }  # fmt: skip
    image = floats(2, 3, 13, 11)
    expected = run_onnxruntime(plain, {"x": image})
    padded = {each.dims[0] for each in model.graph.initializer if len(each.dims) == 4}
    dims = {"channel_block": 8 if 24 in padded else 16}
    given = weft.compile(model, threads=1, dims=dims)(image)
    for ours, theirs in zip(given, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def blocked(weights, size: int):
    """A filter in blocks of channels that it makes, and of those that it reads if it reads any."""
    m, c, h, w = weights.shape
    inner = size if c >= size else 1
    parts = weights.reshape(m // size, size, c // inner, inner, h, w)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1)).reshape(weights.shape)


def of_blocks(
    size: int, channels: int, results: int, spare: int = 3
) -> tuple[ModelProto, ModelProto]:
    """A convolution, plain and in blocks of that size, of images whose channels are last; so many
    of its results only fill blocks.
    """
    weights = floats(results, channels, 3, 3)
    order = {"perm": [0, 2, 3, 1]}
    plain = [node("Transpose", "x", "a", perm=[0, 3, 1, 2])]
    plain += [node("Conv", "a w", "b"), node("Transpose", "b", "y", **order)]
    nchwc = {"domain": DOMAIN}
    nodes = [node("Conv", "a w", "b", **nchwc)]
    own = results - spare
    if channels >= size:
        nodes.insert(0, node("ReorderInput", "x", "a", channels_last=1, **nchwc))
    else:
        nodes.insert(0, node("Transpose", "x", "a", perm=[0, 3, 1, 2]))
    nodes.append(node("ReorderOutput", "b", "y", channels_last=1, channels=own, **nchwc))
    plain.append(node("Slice", "y zero less last", "z"))
    ends = {"zero": [0], "less": [own], "last": [3]}
    constants = {"w": weights} | {name: np.array(each) for name, each in ends.items()}
    dims = [1, "h", "w", channels]
    return (
        model_of(plain, constants, dims, "z"),
        model_of(nodes, {"w": blocked(weights, size)}, dims, "y", ("", DOMAIN)),
    )


@pytest.mark.parametrize(
    ("size", "channels", "results", "spare"), [(8, 24, 8, 3), (16, 12, 16, 3), (16, 4, 32, 12)]
)
def test_filters_tell_the_size_of_blocks(
    size: int, channels: int, results: int, spare: int
) -> None:
    """By the channels that they read, or make for images that have fewer."""
    plain, model = of_blocks(size, channels, results, spare)
    image = floats(1, 5, 7, channels)
    (expected,) = run_onnxruntime(plain, {"x": image})
    (given,) = weft.compile(model, threads=1)(image)
    np.testing.assert_allclose(given, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [8, 16])
def test_where_filters_tell_nothing_the_user_does(size: int) -> None:
    plain, model = of_blocks(size, 4, 16)
    image = floats(1, 5, 7, 4)
    (expected,) = run_onnxruntime(plain, {"x": image})
    (given,) = weft.compile(model, threads=1, dims={"channel_block": size})(image)
    np.testing.assert_allclose(given, expected, 1e-4, 1e-5)


def test_blocks_of_a_size_that_nothing_tells_are_refused() -> None:
    _, model = of_blocks(16, 16, 32)
    with pytest.raises(UnsupportedError, match="channel_block=8 or 16, got filters that fit both"):
        import_model(model)


def test_a_size_of_blocks_that_filters_do_not_fit_is_refused() -> None:
    _, model = of_blocks(8, 24, 8)
    with pytest.raises(OptionError, match="requires the channel_block 8, got 16"):
        import_model(model, sizes={"channel_block": 16})


def test_the_size_of_blocks_of_a_model_without_any_is_refused() -> None:
    plain, _ = of_blocks(8, 24, 8)
    with pytest.raises(OptionError, match="dims require named sizes .* got channel_block"):
        import_model(plain, sizes={"channel_block": 16})


def test_an_image_from_nowhere_is_refused() -> None:
    _, model = of_blocks(8, 24, 8)
    for each in model.graph.node:
        if each.op_type == "ReorderOutput":
            del each.input[:]
    with pytest.raises(WeftError, match="ReorderOutput"):
        import_model(model)


def test_filters_that_fit_no_blocks_are_refused() -> None:
    _, model = of_blocks(8, 24, 24)
    model.graph.initializer[0].dims[:2] = [36, 16]
    with pytest.raises(ModelError, match="in blocks of 8 or of 16 channels"):
        import_model(model)
