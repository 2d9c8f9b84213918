"""Networks beside those of the tests: U-Net, ViT, ConvNeXt, EfficientNet, LSTM, GPT-2 decoding."""

from __future__ import annotations

from math import sqrt

import numpy as np
from onnx import ModelProto

from benchmarks.operators import IR_VERSION, OPSET
from tests.models.graph_writer import GraphWriter


def _writer(name: str) -> GraphWriter:
    net = GraphWriter(name, 1, OPSET)
    net.model.ir_version = IR_VERSION
    return net


def _conv(
    net: GraphWriter,
    x: str,
    path: str,
    channels: int,
    wider: int,
    kernel: int,
    *,
    stride: int = 1,
    group: int = 1,
    pad: int | None = None,
    gain: float = 2.0,
) -> str:
    """A convolution with a bias that keeps the size but for its stride."""
    std = sqrt(gain * group / (channels * kernel * kernel))
    weight = net.weight(f"{path}.weight", (wider, channels // group, kernel, kernel), std)
    bias = net.weight(f"{path}.bias", (wider,), 0.1)
    edge = kernel // 2 if pad is None else pad
    return net.op(
        "Conv", x, weight, bias, path=path, kernel_shape=[kernel] * 2, strides=[stride] * 2,
        pads=[edge] * 4, group=group,
    )  # fmt: skip


def _linear(net: GraphWriter, x: str, path: str, fan_in: int, fan_out: int) -> str:
    weight = net.weight(f"{path}.weight", (fan_in, fan_out), sqrt(1.0 / fan_in))
    bias = net.weight(f"{path}.bias", (fan_out,), 0.1)
    return net.op("Add", net.op("MatMul", x, weight, path=path), bias, path=path)


def _norm(net: GraphWriter, x: str, path: str, hidden: int) -> str:
    scale = net.weight(f"{path}.weight", (hidden,), 0.2, 1.0)
    bias = net.weight(f"{path}.bias", (hidden,), 0.2)
    return net.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5, path=path)


def build_unet(size: int = 128, width: int = 32, levels: int = 4) -> ModelProto:
    """U-Net: image (1, 3, size, size) -> mask of two channels; transposed convolutions go up."""
    net = _writer("unet")
    x = net.input("image", (1, 3, size, size))
    channels, skips = 3, list[tuple[str, int]]()
    for level in range(levels + 1):
        wider = width << level
        x = _twice(net, x, f"down{level}", channels, wider)
        channels = wider
        if level < levels:
            skips.append((x, channels))
            x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], path=f"down{level}")
    for level, (skip, narrower) in reversed(list(enumerate(skips))):
        path = f"up{level}"
        std = sqrt(1.0 / channels)
        weight = net.weight(f"{path}.weight", (channels, narrower, 2, 2), std)
        up = net.op("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2], path=path)
        x = net.op("Concat", skip, up, axis=1, path=path)
        x = _twice(net, x, path, 2 * narrower, narrower)
        channels = narrower
    net.output(_conv(net, x, "head", channels, 2, 1), "mask", (1, 2, size, size))
    return net.model


def _twice(net: GraphWriter, x: str, path: str, channels: int, wider: int) -> str:
    x = net.op("Relu", _conv(net, x, f"{path}.conv1", channels, wider, 3), path=path)
    return net.op("Relu", _conv(net, x, f"{path}.conv2", wider, wider, 3), path=path)


def build_vit(layers: int = 12, hidden: int = 384, heads: int = 6) -> ModelProto:
    """ViT-S/16: image (1, 3, 224, 224) -> 1000 logits."""
    net = _writer("vit")
    image = net.input("image", (1, 3, 224, 224))
    patches = _conv(net, image, "patches", 3, hidden, 16, stride=16, pad=0)
    rows = net.op("Reshape", patches, net.constant([1, hidden, 196]))
    rows = net.op("Transpose", rows, perm=[0, 2, 1])
    token = net.weight("class_token", (1, 1, hidden), 0.5)
    x = net.op("Concat", token, rows, axis=1)
    x = net.op("Add", x, net.weight("positions", (1, 197, hidden), 0.5))
    for layer in range(layers):
        x = _transformer_layer(net, x, f"layer{layer}", 197, hidden, heads)
    first = net.op("Gather", _norm(net, x, "norm", hidden), net.constant(0), axis=1)
    net.output(net.dense(first, "head", hidden, 1000), "logits", (1, 1000))
    return net.model


def _transformer_layer(
    net: GraphWriter, x: str, path: str, length: int, hidden: int, heads: int
) -> str:
    """x + attention(norm(x)), then x + mlp(norm(x))."""
    normed = _norm(net, x, f"{path}.norm1", hidden)
    joined = _linear(net, normed, f"{path}.qkv", hidden, 3 * hidden)
    split = net.op("Reshape", joined, net.constant([1, length, 3, heads, hidden // heads]))
    parts = net.op_with_results(3, "Split", split, axis=2, num_outputs=3, path=path)
    q, k, v = (
        net.op("Transpose", net.op("Squeeze", part, net.constant([2])), perm=[0, 2, 1, 3])
        for part in parts
    )
    turned = net.op("Transpose", k, perm=[0, 1, 3, 2])
    scale = net.constant(sqrt(heads / hidden), dtype=np.float32)
    scores = net.op("Mul", net.op("MatMul", q, turned), scale)
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    merged = net.op("Transpose", mixed, perm=[0, 2, 1, 3])
    merged = net.op("Reshape", merged, net.constant([1, length, hidden]))
    x = net.op("Add", x, _linear(net, merged, f"{path}.out", hidden, hidden), path=path)
    widened = _linear(net, _norm(net, x, f"{path}.norm2", hidden), f"{path}.up", hidden, 4 * hidden)
    narrowed = _linear(net, net.op("Gelu", widened), f"{path}.down", 4 * hidden, hidden)
    return net.op("Add", x, narrowed, path=path)


def build_convnext(
    depths: tuple[int, ...] = (3, 3, 9, 3), widths: tuple[int, ...] = (96, 192, 384, 768)
) -> ModelProto:
    """ConvNeXt-T: image (1, 3, 224, 224) -> 1000 logits."""
    net = _writer("convnext")
    x = _conv(net, net.input("image", (1, 3, 224, 224)), "stem", 3, widths[0], 4, stride=4, pad=0)
    x = _channel_norm(net, x, "stem.norm", widths[0])
    channels = widths[0]
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            x = _channel_norm(net, x, f"down{stage}.norm", channels)
            x = _conv(net, x, f"down{stage}", channels, width, 2, stride=2, pad=0)
        channels = width
        for block in range(depth):
            x = _convnext_block(net, x, f"stage{stage}.{block}", width)
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    x = _norm(net, x, "norm", channels)
    net.output(net.dense(x, "head", channels, 1000), "logits", (1, 1000))
    return net.model


def _convnext_block(net: GraphWriter, x: str, path: str, width: int) -> str:
    """x + gamma * down(gelu(up(norm(7x7 depthwise(x))))), channels last in between."""
    y = _conv(net, x, f"{path}.depthwise", width, width, 7, group=width)
    y = net.op("Transpose", y, perm=[0, 2, 3, 1])
    y = _norm(net, y, f"{path}.norm", width)
    y = net.op("Gelu", _linear(net, y, f"{path}.up", width, 4 * width))
    y = _linear(net, y, f"{path}.down", 4 * width, width)
    y = net.op("Mul", y, net.weight(f"{path}.gamma", (width,), 0.1, 0.3))
    return net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]), path=path)


def _channel_norm(net: GraphWriter, x: str, path: str, channels: int) -> str:
    """Layer normalisation over the channels of an image."""
    normed = _norm(net, net.op("Transpose", x, perm=[0, 2, 3, 1]), path, channels)
    return net.op("Transpose", normed, perm=[0, 3, 1, 2])


_EFFICIENTNET = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Per stage: expansion, channels, blocks, stride of the first block, kernel."""


def build_efficientnet() -> ModelProto:
    """EfficientNet-B0, normalisations folded: image (1, 3, 224, 224) -> 1000 logits."""
    net = _writer("efficientnet")
    x = _silu(net, _conv(net, net.input("image", (1, 3, 224, 224)), "stem", 3, 32, 3, stride=2))
    channels = 32
    for stage, (expansion, wider, blocks, stride, kernel) in enumerate(_EFFICIENTNET):
        for block in range(blocks):
            path = f"stage{stage}.{block}"
            first = block == 0
            x = _gated_block(
                net, x, path, channels, wider, expansion, stride if first else 1, kernel
            )
            channels = wider
    x = _silu(net, _conv(net, x, "head", channels, 1280, 1))
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    net.output(net.dense(x, "classifier", 1280, 1000), "logits", (1, 1000))
    return net.model


def _silu(net: GraphWriter, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", x))


def _gated_block(
    net: GraphWriter,
    x: str,
    path: str,
    channels: int,
    wider: int,
    expansion: int,
    stride: int,
    kernel: int,
) -> str:
    """An inverted residual whose channels are weighted by their own means."""
    shortcut, hidden = x, channels * expansion
    if expansion != 1:
        x = _silu(net, _conv(net, x, f"{path}.expand", channels, hidden, 1))
    x = _conv(net, x, f"{path}.depthwise", hidden, hidden, kernel, stride=stride, group=hidden)
    x = _silu(net, x)
    squeezed = max(1, channels // 4)
    gate = net.op("GlobalAveragePool", x, path=path)
    gate = _silu(net, _conv(net, gate, f"{path}.squeeze", hidden, squeezed, 1))
    gate = net.op("Sigmoid", _conv(net, gate, f"{path}.excite", squeezed, hidden, 1), path=path)
    x = _conv(net, net.op("Mul", x, gate, path=path), f"{path}.project", hidden, wider, 1, gain=1.0)
    return net.op("Add", shortcut, x) if stride == 1 and channels == wider else x


def build_lstm(length: int = 64, width: int = 256, hidden: int = 512) -> ModelProto:
    """Two LSTM layers over a sequence (length, 1, width), and a classifier of the last step."""
    net = _writer("lstm")
    x, fan_in = net.input("sequence", (length, 1, width)), width
    for layer in range(2):
        path = f"lstm{layer}"
        std = sqrt(1.0 / hidden)
        w = net.weight(f"{path}.w", (1, 4 * hidden, fan_in), std)
        r = net.weight(f"{path}.r", (1, 4 * hidden, hidden), std)
        b = net.weight(f"{path}.b", (1, 8 * hidden), 0.1)
        x, _, _ = net.op_with_results(3, "LSTM", x, w, r, b, hidden_size=hidden, path=path)
        x, fan_in = net.op("Squeeze", x, net.constant([1])), hidden
    last = net.op("Gather", x, net.constant(length - 1), axis=0)
    net.output(net.dense(last, "head", hidden, 1000), "logits", (1, 1000))
    return net.model


def build_gpt2_decode(
    layers: int = 12, hidden: int = 768, heads: int = 12, past: int = 128, vocabulary: int = 50257
) -> ModelProto:
    """GPT-2 on one token with the keys and values of `past` tokens before it, which the caller
    keeps: token, past_key_n and past_value_n -> logits, key_n and value_n.
    """
    net = _writer("gpt2_decode")
    token = net.input("input_ids", (1, 1), 7)
    table = net.weight("wte.weight", (vocabulary, hidden), 1.0)
    position_row = net.weight("wpe.row", (1, 1, hidden), 0.5)
    x = net.op("Add", net.op("Gather", table, token, path="wte"), position_row, path="wpe")
    present: list[tuple[str, str]] = []
    for layer in range(layers):
        x, added = _decoder_layer(net, x, layer, past, hidden, heads)
        present += added
    x = _norm(net, x, "ln_f", hidden)
    logits = net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0]), path="head")
    net.output(logits, "logits", (1, 1, vocabulary))
    for name, tensor in present:
        net.output(tensor, name, (1, heads, past + 1, hidden // heads))
    return net.model


def _decoder_layer(
    net: GraphWriter, x: str, layer: int, past: int, hidden: int, heads: int
) -> tuple[str, list[tuple[str, str]]]:
    """One layer, and its keys and values by their names as outputs."""
    path, size = f"h{layer}", hidden // heads
    normed = _norm(net, x, f"{path}.ln1", hidden)
    joined = _linear(net, normed, f"{path}.attn", hidden, 3 * hidden)
    parts = net.op_with_results(3, "Split", joined, axis=2, num_outputs=3, path=path)
    q, k, v = (
        net.op("Reshape", part, net.constant([1, heads, 1, size]), path=path) for part in parts
    )
    kept = [
        net.op("Concat", net.input(f"past_{each}_{layer}", (1, heads, past, size)), new, axis=2)
        for each, new in (("key", k), ("value", v))
    ]
    scale = net.constant(sqrt(1.0 / size), dtype=np.float32)
    scores = net.op("MatMul", q, net.op("Transpose", kept[0], perm=[0, 1, 3, 2]), path=path)
    weights = net.op("Softmax", net.op("Mul", scores, scale), axis=-1)
    mixed = net.op("Reshape", net.op("MatMul", weights, kept[1]), net.constant([1, 1, hidden]))
    x = net.op("Add", x, _linear(net, mixed, f"{path}.proj", hidden, hidden), path=path)
    widened = _linear(net, _norm(net, x, f"{path}.ln2", hidden), f"{path}.fc", hidden, 4 * hidden)
    activated = net.op("Gelu", widened, approximate="tanh")
    x = net.op("Add", x, _linear(net, activated, f"{path}.out", 4 * hidden, hidden), path=path)
    return x, [(f"key_{layer}", kept[0]), (f"value_{layer}", kept[1])]
