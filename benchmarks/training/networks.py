"""Networks that are trained, in weft and in PyTorch, with the same names for the same weights."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft import nn
from weft.dialects.weights import Array

STAGES = (
    (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
    (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1),
)  # fmt: skip
"""Blocks of ResNet-18: channels before and behind, stride."""


def initial(name: str, shape: Sequence[int]) -> Array:
    """What a weight starts from: scales are ones, shifts zeros, the rest normal by its fan-in."""
    if len(shape) < 2:
        return np.full(shape, float(name.endswith(("weight", "var"))), np.float32)
    fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    scale = np.float32(0.02 if fan_in > 4096 else fan_in**-0.5)
    return draw.standard_normal(tuple(shape), np.float32) * scale


class Perceptron(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(64, 128), nn.Dense(128, 10)

    def construct(self, x: Any) -> Any:
        """`[n, 64]` to `[n, 10]`."""
        return self.second(nn.relu(self.first(x)))


class Convolutional(nn.Module):
    """Two convolutions, pooled, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.pool, self.head = nn.MaxPool2d(2), nn.Dense(128, 10)

    def construct(self, x: Any) -> Any:
        """`[n, 1, 8, 8]` to `[n, 10]`."""
        x = self.pool(nn.relu(self.first(x)))
        return self.head(self.pool(nn.relu(self.second(x))).reshape(x.shape[0], 128))


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int, wider: int, stride: int, parts: int, activation: Any):
        super().__init__()
        self.activation = activation
        norm = partial(nn.BatchNorm2d, parts=parts)
        self.conv1 = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = norm(wider), norm(wider)
        self.short = self.norm3 = None
        if stride != 1 or channels != wider:
            self.short = nn.Conv2d(channels, wider, 1, stride, 0, bias=False)
            self.norm3 = norm(wider)

    def construct(self, x: Any) -> Any:
        """`[n, channels, h, w]` to `[n, wider, h / stride, w / stride]`."""
        y = self.norm2(self.conv2(self.activation(self.norm1(self.conv1(x)))))
        return self.activation(y + (x if self.short is None else self.norm3(self.short(x))))


class ResNet(nn.Module):
    """ResNet-18, whose batch has so many parts with statistics of their own."""

    def __init__(self, parts: int = 1, activation: Callable[[Any], Any] = nn.relu) -> None:
        super().__init__()
        self.activation = activation
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.norm, self.pool = nn.BatchNorm2d(64, parts=parts), nn.MaxPool2d(3, 2, 1)
        self.blocks = [Block(*stage, parts, activation) for stage in STAGES]
        self.head = nn.Dense(512, 1000)

    def construct(self, x: Any) -> Any:
        """`[n, 3, h, w]` to `[n, 1000]`."""
        x = self.pool(self.activation(self.norm(self.stem(x))))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Layer(nn.Module):
    """Attention and two products, each behind a normalisation and around a shortcut."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads)
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)

    def construct(self, x: Any) -> Any:
        """`[n, length, width]` to the same."""
        x = x + self.attention(self.norm1(x), causal=True)
        return x + self.down(nn.gelu(self.up(self.norm2(x)), "tanh"))


class GPT2(nn.Module):
    """GPT-2 small; the table of tokens is the last product's weight as well."""

    def __init__(self, layers: int = 12, tokens: int = 50257, positions: int = 128):
        super().__init__()
        width, heads = 768, 12
        self.table, self.position_table = (
            nn.Embedding(tokens, width),
            nn.Embedding(positions, width),
        )
        self.layers = [Layer(width, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)

    def construct(self, tokens: Any) -> Any:
        """`[n, positions]` to `[n, positions, tokens]`."""
        x = self.table(tokens) + self.position_table.weight
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.table.weight.T


def torch_networks(
    torch: Any, layers: int = 12, tokens: int = 50257, positions: int = 128
) -> dict[str, Callable[[], Any]]:
    """The same networks as PyTorch's modules; GPT-2 of so many layers, tokens and positions."""
    return {
        **_torch_small(torch),
        "resnet18": _torch_resnet(torch),
        "gpt2_small": _torch_gpt2(torch, layers, tokens, positions),
    }


def _torch_module(torch: Any) -> type[Any]:
    """The base of modules whose parts are given by name."""

    class Base(torch.nn.Module):
        def __init__(self, **modules: Any):
            super().__init__()
            for name, module in modules.items():
                setattr(self, name, module)

    return Base


def _torch_small(torch: Any) -> dict[str, Callable[[], Any]]:
    functional, linear = torch.nn.functional, torch.nn.Linear
    base = _torch_module(torch)

    class TorchPerceptron(base):
        def forward(self, x: Any) -> Any:
            return self.second(functional.relu(self.first(x)))

    class TorchConvolutional(base):
        def forward(self, x: Any) -> Any:
            x = functional.max_pool2d(functional.relu(self.first(x)), 2)
            return self.head(functional.max_pool2d(functional.relu(self.second(x)), 2).flatten(1))

    return {
        "mlp": lambda: TorchPerceptron(first=linear(64, 128), second=linear(128, 10)),
        "convolutional": lambda: TorchConvolutional(
            first=torch.nn.Conv2d(1, 16, 3, padding=1),
            second=torch.nn.Conv2d(16, 32, 3, padding=1), head=linear(128, 10),
        ),
    }  # fmt: skip


def _torch_resnet(torch: Any) -> Callable[[], Any]:
    functional, norm2d = torch.nn.functional, torch.nn.BatchNorm2d
    base = _torch_module(torch)

    class TorchBlock(base):
        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norm1(self.conv1(x)), inplace=True)
            y = self.norm2(self.conv2(y))
            return functional.relu(
                y + (self.norm3(self.short(x)) if hasattr(self, "short") else x), inplace=True
            )

    class TorchResNet(base):
        def forward(self, x: Any) -> Any:
            x = functional.relu(self.norm(self.stem(x)), inplace=True)
            x = functional.max_pool2d(x, 3, 2, 1)
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean((2, 3)))

    def conv(*sizes: int) -> Any:
        return torch.nn.Conv2d(*sizes, bias=False)

    def block(channels: int, wider: int, stride: int) -> Any:
        made = TorchBlock(
            conv1=conv(channels, wider, 3, stride, 1), conv2=conv(wider, wider, 3, 1, 1),
            norm1=norm2d(wider), norm2=norm2d(wider),
        )  # fmt: skip
        if stride != 1 or channels != wider:
            made.short, made.norm3 = conv(channels, wider, 1, stride), norm2d(wider)
        return made

    return lambda: TorchResNet(
        stem=conv(3, 64, 7, 2, 3), norm=norm2d(64), head=torch.nn.Linear(512, 1000),
        blocks=torch.nn.ModuleList(block(*stage) for stage in STAGES),
    )  # fmt: skip


def _torch_gpt2(torch: Any, layers: int, tokens: int, positions: int) -> Callable[[], Any]:
    functional, linear, norm = torch.nn.functional, torch.nn.Linear, torch.nn.LayerNorm
    base = _torch_module(torch)

    class TorchAttention(base):
        def forward(self, x: Any) -> Any:
            count, length, width = x.shape
            parts = (
                each(x).view(count, length, width // 64, 64).transpose(1, 2)
                for each in (self.query, self.key, self.value)
            )
            mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.output(mixed.transpose(1, 2).reshape(count, length, width))

    class TorchLayer(base):
        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class TorchGPT2(base):
        def forward(self, tokens: Any) -> Any:
            x = self.table(tokens) + self.position_table.weight
            for layer in self.layers:
                x = layer(x)
            return self.norm(x) @ self.table.weight.T

    def layer(width: int) -> Any:
        names = ("query", "key", "value", "output")
        return TorchLayer(
            norm1=norm(width), norm2=norm(width),
            attention=TorchAttention(**{name: linear(width, width) for name in names}),
            up=linear(width, 4 * width), down=linear(4 * width, width),
        )  # fmt: skip

    return lambda: TorchGPT2(
        table=torch.nn.Embedding(tokens, 768), position_table=torch.nn.Embedding(positions, 768),
        layers=torch.nn.ModuleList(layer(768) for _ in range(layers)), norm=norm(768),
    )  # fmt: skip
