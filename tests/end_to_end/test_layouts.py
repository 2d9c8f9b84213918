"""Networks whose activations get other layouts than the caller's mean what they meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import weft

Layer = tuple[str, dict[str, Any], tuple[int, ...] | None]
"""An operator, its attributes, and the shape of its weight."""


def conv(shape: tuple[int, ...], **attributes: Any) -> Layer:
    return "Conv", attributes, shape


def _model(layers: list[Layer], channels: int, size: int | str, batch: int | str = 1) -> ModelProto:
    """A chain of operators on an image."""
    rng = np.random.default_rng(7)
    nodes: list[NodeProto] = []
    weights: list[TensorProto] = []
    value = "x"
    for number, (name, attributes, shape) in enumerate(layers):
        operands = [value]
        if shape is not None:
            scale = 1.5 / np.sqrt(np.prod(shape[1:]))
            array = (rng.standard_normal(shape) * scale).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"w{number}"))
            operands.append(f"w{number}")
        value = "y" if number == len(layers) - 1 else f"v{number}"
        nodes.append(helper.make_node(name, operands, [value], **attributes))
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, size, size])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "layers", [image], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


RELU: Layer = ("Relu", {}, None)
PADS = {"pads": [1, 1, 1, 1]}

CHAINS: dict[str, Callable[[], list[Layer]]] = {
    "bottleneck": lambda: [
        conv((16, 3, 1, 1)), RELU, conv((16, 16, 3, 3), **PADS), RELU, conv((64, 16, 1, 1)),
    ],
    "depthwise": lambda: [
        conv((48, 3, 3, 3), **PADS), conv((48, 1, 3, 3), group=48, **PADS), RELU,
        conv((48, 1, 3, 3), group=48, strides=[2, 2], **PADS), conv((32, 48, 1, 1)),
    ],
    "channels in part of a block": lambda: [
        conv((24, 3, 3, 3)), RELU, conv((40, 24, 1, 1)), ("Sigmoid", {}, None),
        conv((24, 40, 3, 3), **PADS), conv((24, 1, 5, 5), group=24), conv((5, 24, 1, 1)),
    ],
    "pools": lambda: [
        conv((32, 3, 3, 3)), ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], **PADS}, None),
        conv((32, 32, 1, 1)), ("AveragePool", {"kernel_shape": [2, 2]}, None),
        conv((16, 32, 1, 1)), ("GlobalAveragePool", {}, None),
    ],
    "groups and dilation": lambda: [
        conv((32, 3, 1, 1)), conv((64, 16, 3, 3), group=2, dilations=[2, 2]), RELU,
        conv((32, 16, 1, 1), group=4), conv((16, 32, 1, 1)),
    ],
    "transposed": lambda: [
        conv((32, 3, 1, 1)), ("ConvTranspose", {"strides": [2, 2]}, (32, 16, 3, 3)), RELU,
        conv((16, 16, 3, 3), **PADS),
    ],
    "flattened": lambda: [
        conv((32, 3, 3, 3), **PADS), RELU, conv((16, 32, 3, 3)), ("Flatten", {}, None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("size", "batch"), [(13, 1), (14, 2), ("s", "n")])
def test_layouts_do_not_change_results(name: str, size: int | str, batch: int | str):
    model = _model(CHAINS[name](), 3, size, batch)
    shape = tuple(3 if isinstance(n, str) else n for n in (batch,)) + (3, 13, 13)
    shape = shape if isinstance(size, str) else (*shape[:2], size, size)
    image = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    fast = weft.compile(model, threads=1)(image)
    plain = weft.compile(model, threads=1, naive=True)(image)
    np.testing.assert_allclose(fast, plain, rtol=2e-5, atol=2e-5)


def test_a_loop_reads_weights_of_its_surroundings_in_the_layout_that_it_wants():
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "w"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
            helper.make_node("Identity", ["goes_on"], ["still_goes_on"]),
        ],
        "round",
        [
            value("i", TensorProto.INT64, []),
            value("goes_on", TensorProto.BOOL, []),
            value("s", TensorProto.FLOAT, [8, 64]),
        ],
        [value("still_goes_on", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [8, 64])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        "rounds",
        [value("n", TensorProto.INT64, []), value("x", TensorProto.FLOAT, [8, 64])],
        [value("y", TensorProto.FLOAT, [8, 64])],
        [numpy_helper.from_array(weight, "w")],
    )
    exe = weft.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )
    x = expected = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    for _ in range(3):
        expected = np.tanh(expected @ weight)
    (got,) = exe(np.array(3), x)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
