"""LeNet-5, ResNet-18 and -50, and MobileNetV2 as torch exports them, batch normalisation kept."""

from math import sqrt

import numpy as np
from onnx import ModelProto

from tests.models.graph_writer import Dim, GraphWriter

RESNET_STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
MOBILENET_V2_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Per stage: expansion, channels, blocks, stride of the first block."""
RELU_GAIN = 2.0
"""Power lost by a Relu, which the weights behind it make up for."""


def build_lenet(batch: Dim = 1, seed: int = 1) -> ModelProto:
    """LeNet-5: image (batch, 1, 28, 28) -> probabilities (batch, 10)."""
    net = GraphWriter("lenet", seed)
    x = net.input("image", (batch, 1, 28, 28))
    x = net.op("Tanh", _conv(net, x, "conv1", 1, 6, 5, pad=2, bias=True), path="conv1")
    x = net.op("AveragePool", x, path="pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Tanh", _conv(net, x, "conv2", 6, 16, 5, bias=True), path="conv2")
    x = net.op("AveragePool", x, path="pool2", kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Flatten", x, axis=1)
    x = net.op("Tanh", net.dense(x, "fc1", 400, 120, gain=3.0), path="fc1")
    x = net.op("Tanh", net.dense(x, "fc2", 120, 84, gain=3.0), path="fc2")
    x = net.op("Softmax", net.dense(x, "fc3", 84, 10, gain=3.0), axis=-1)
    net.output(x, "probabilities", (batch, 10))
    return net.model


def build_resnet18(batch: Dim = 1, size: int = 224, classes: int = 1000, seed: int = 1):
    """ResNet-18: image (batch, 3, size, size) -> logits (batch, classes)."""
    return _build_resnet(18, batch, size, classes, seed)


def build_resnet50(batch: Dim = 1, size: int = 224, classes: int = 1000, seed: int = 1):
    """ResNet-50: image (batch, 3, size, size) -> logits (batch, classes)."""
    return _build_resnet(50, batch, size, classes, seed)


def build_mobilenet_v2(
    batch: Dim = 1, size: int = 224, classes: int = 1000, seed: int = 1
) -> ModelProto:
    """MobileNetV2: image (batch, 3, size, size) -> logits (batch, classes)."""
    net = GraphWriter("mobilenet_v2", seed)
    x = net.input("image", (batch, 3, size, size))
    x = _relu6(net, _conv_norm(net, x, "features.0", 3, 32, 3, stride=2, gain=1.0), "features.0")
    channels, index = 32, 1
    for expansion, wider, blocks, stride in MOBILENET_V2_STAGES:
        for block in range(blocks):
            path = f"features.{index}"
            x = _inverted_residual(
                net, x, path, channels, wider, expansion, stride if block == 0 else 1
            )
            channels, index = wider, index + 1
    path = f"features.{index}"
    x = _relu6(net, _conv_norm(net, x, path, channels, 1280, 1, gain=1.0), path)
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    net.output(net.dense(x, "classifier.1", 1280, classes, RELU_GAIN), "logits", (batch, classes))
    return net.model


def _build_resnet(depth: int, batch: Dim, size: int, classes: int, seed: int) -> ModelProto:
    net = GraphWriter(f"resnet{depth}", seed)
    x = net.input("image", (batch, 3, size, size))
    x = _conv_norm(net, x, "conv1", 3, 64, 7, stride=2, gain=1.0)
    x = net.op("Relu", x, path="relu")
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    block, expansion = (_basic_block, 1) if depth == 18 else (_bottleneck, 4)
    channels = 64
    for stage, blocks in enumerate(RESNET_STAGES[depth]):
        for index in range(blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            x = block(net, x, f"layer{stage + 1}.{index}", channels, 64 << stage, stride)
            channels = (64 << stage) * expansion
    x = net.op("Flatten", net.op("GlobalAveragePool", x, path="avgpool"), axis=1)
    net.output(net.dense(x, "fc", channels, classes, RELU_GAIN), "logits", (batch, classes))
    return net.model


def _basic_block(net: GraphWriter, x: str, path: str, channels: int, width: int, stride: int):
    """relu(x + norm(3x3(relu(norm(3x3(x))))))"""
    shortcut = _shortcut(net, x, path, channels, width, stride)
    x = _conv_norm(net, x, f"{path}.conv1", channels, width, 3, stride=stride)
    x = net.op("Relu", x, path=path)
    x = _conv_norm(net, x, f"{path}.conv2", width, width, 3, scale=0.3)
    return net.op("Relu", net.op("Add", x, shortcut, path=path), path=path)


def _bottleneck(net: GraphWriter, x: str, path: str, channels: int, width: int, stride: int):
    """relu(x + norm(1x1(relu(norm(3x3(relu(norm(1x1(x)))))))))"""
    shortcut = _shortcut(net, x, path, channels, 4 * width, stride)
    x = net.op("Relu", _conv_norm(net, x, f"{path}.conv1", channels, width, 1), path=path)
    x = _conv_norm(net, x, f"{path}.conv2", width, width, 3, stride=stride)
    x = net.op("Relu", x, path=path)
    x = _conv_norm(net, x, f"{path}.conv3", width, 4 * width, 1, scale=0.3)
    return net.op("Relu", net.op("Add", x, shortcut, path=path), path=path)


def _shortcut(net: GraphWriter, x: str, path: str, channels: int, wider: int, stride: int) -> str:
    if stride == 1 and channels == wider:
        return x
    return _conv_norm(net, x, f"{path}.downsample", channels, wider, 1, stride=stride)


def _inverted_residual(
    net: GraphWriter, x: str, path: str, channels: int, wider: int, expansion: int, stride: int
) -> str:
    """norm(1x1(relu6(norm(depthwise 3x3(relu6(norm(1x1(x)))))))), added to x where shapes agree."""
    shortcut, hidden = x, channels * expansion
    if expansion != 1:
        x = _conv_norm(net, x, f"{path}.expand", channels, hidden, 1, gain=1.0)
        x = _relu6(net, x, f"{path}.expand")
    depthwise = f"{path}.depthwise"
    x = _conv_norm(net, x, depthwise, hidden, hidden, 3, stride=stride, group=hidden)
    x = _relu6(net, x, depthwise)
    residual = stride == 1 and channels == wider
    scale = 0.4 if residual else 1.0
    x = _conv_norm(net, x, f"{path}.project", hidden, wider, 1, scale=scale)
    return net.op("Add", shortcut, x, path=path) if residual else x


def _relu6(net: GraphWriter, x: str, path: str) -> str:
    low = net.constant(0.0, dtype=np.float32, path=path)
    return net.op("Clip", x, low, net.constant(6.0, dtype=np.float32, path=path), path=path)


def _conv(
    net: GraphWriter,
    x: str,
    path: str,
    channels: int,
    wider: int,
    kernel: int,
    *,
    stride: int = 1,
    pad: int = 0,
    group: int = 1,
    gain: float = 1.0,
    bias: bool = False,
) -> str:
    shape = (wider, channels // group, kernel, kernel)
    std = sqrt(gain * group / (channels * kernel * kernel))
    weights = [net.weight(f"{path}.weight", shape, std)]
    if bias:
        weights.append(net.weight(f"{path}.bias", (wider,), 0.1))
    return net.op(
        "Conv",
        x,
        *weights,
        path=path,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[pad] * 4,
        dilations=[1, 1],
        group=group,
    )


def _conv_norm(
    net: GraphWriter,
    x: str,
    path: str,
    channels: int,
    wider: int,
    kernel: int,
    *,
    stride: int = 1,
    group: int = 1,
    gain: float = RELU_GAIN,
    scale: float = 1.0,
) -> str:
    """A convolution that keeps the extents but for its stride, and its batch normalisation."""
    pad = kernel // 2
    x = _conv(net, x, path, channels, wider, kernel, stride=stride, pad=pad, group=group, gain=gain)
    statistics = (
        net.weight(f"{path}.norm.weight", (wider,), 0.2 * scale, scale),
        net.weight(f"{path}.norm.bias", (wider,), 0.2),
        net.weight(f"{path}.norm.running_mean", (wider,), 0.2),
        net.weight(f"{path}.norm.running_var", (wider,), 0.2, 1.0),
    )
    return net.op("BatchNormalization", x, *statistics, path=f"{path}.norm", epsilon=1e-5)
