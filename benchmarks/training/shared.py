"""Networks that are written once, for weft and for PyTorch: modules have the same names in both,
and a `Library` has what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

import weft.numpy as wnp
from weft import nn


class Library(Struct, frozen=True):
    """What a network is made of: the base of modules, modules by their names in PyTorch, and
    functions of tensors. Networks that give an answer for each pixel end with `classes_last`.
    """

    module: type[Any]
    nn: Any
    relu: Callable[[Any], Any]
    gelu: Callable[[Any], Any]
    relu6: Callable[[Any], Any]
    attention: Callable[..., Any]
    transpose: Callable[..., Any]
    concatenate: Callable[[Sequence[Any], int], Any]
    classes_last: Callable[[Any], Any]
    lstm: Callable[[int, int], Any]


class _Module(nn.Module):
    def construct(self, *given: Any) -> Any:
        return self.forward(*given)


OURS: Final = Library(
    _Module,
    nn,
    nn.relu,
    nn.gelu,
    nn.relu6,
    nn.scaled_dot_product_attention,
    lambda x, *axes: x.transpose(*axes),
    lambda parts, axis: wnp.concatenate(parts, axis=axis),
    lambda x: x.transpose(0, 2, 3, 1),
    nn.LSTM,
)


def library_of(torch: Any) -> Library:
    """PyTorch's, which works in place where it may."""
    functional = torch.nn.functional

    def lstm(inputs: int, width: int) -> Any:
        made = torch.nn.LSTM(inputs, width, batch_first=True)
        made.bias_hh_l0.requires_grad_(False)
        return made

    return Library(
        torch.nn.Module,
        torch.nn,
        partial(functional.relu, inplace=True),
        functional.gelu,
        functional.relu6,
        functional.scaled_dot_product_attention,
        lambda x, *axes: x.permute(*axes),
        torch.cat,
        lambda x: x,
        lstm,
    )


def resnet50(lib: Library) -> Any:
    """Blocks of three convolutions and a shortcut."""

    class Bottleneck(lib.module):
        def __init__(self, channels: int, width: int, stride: int):
            super().__init__()
            wider = 4 * width
            self.conv1 = lib.nn.Conv2d(channels, width, 1, bias=False)
            self.conv2 = lib.nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.conv3 = lib.nn.Conv2d(width, wider, 1, bias=False)
            self.norm1, self.norm2 = lib.nn.BatchNorm2d(width), lib.nn.BatchNorm2d(width)
            self.norm3, self.short = lib.nn.BatchNorm2d(wider), None
            if channels != wider:
                self.short = lib.nn.Conv2d(channels, wider, 1, stride, bias=False)
                self.norm = lib.nn.BatchNorm2d(wider)

        def forward(self, x: Any) -> Any:
            y = lib.relu(self.norm1(self.conv1(x)))
            y = self.norm3(self.conv3(lib.relu(self.norm2(self.conv2(y)))))
            return lib.relu(y + (x if self.short is None else self.norm(self.short(x))))

    class ResNet50(lib.module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = lib.nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.norm, self.pool = lib.nn.BatchNorm2d(64), lib.nn.MaxPool2d(3, 2, 1)
            blocks: list[Any] = []
            channels = 64
            for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
                for number in range(count):
                    blocks.append(Bottleneck(channels, width, stride if number == 0 else 1))
                    channels = 4 * width
            self.blocks, self.head = lib.nn.ModuleList(blocks), lib.nn.Linear(2048, 1000)

        def forward(self, x: Any) -> Any:
            x = self.pool(lib.relu(self.norm(self.stem(x))))
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean((2, 3)))

    return ResNet50()


def mobilenet_v2(lib: Library) -> Any:
    """Inverted residuals around convolutions of single channels."""

    class Inverted(lib.module):
        def __init__(self, channels: int, wider: int, stride: int, expansion: int):
            super().__init__()
            hidden, norm = channels * expansion, lib.nn.BatchNorm2d
            self.adds, self.expand = stride == 1 and channels == wider, None
            if expansion > 1:
                self.expand = lib.nn.Conv2d(channels, hidden, 1, bias=False)
                self.norm1 = norm(hidden)
            self.depth = lib.nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False)
            self.project = lib.nn.Conv2d(hidden, wider, 1, bias=False)
            self.norm2, self.norm3 = norm(hidden), norm(wider)

        def forward(self, x: Any) -> Any:
            y = x if self.expand is None else lib.relu6(self.norm1(self.expand(x)))
            y = self.norm3(self.project(lib.relu6(self.norm2(self.depth(y)))))
            return x + y if self.adds else y

    class MobileNetV2(lib.module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = lib.nn.Conv2d(3, 32, 3, 2, 1, bias=False)
            self.norm1 = lib.nn.BatchNorm2d(32)
            blocks: list[Any] = []
            channels = 32
            for expansion, wider, count, stride in (
                (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
            ):  # fmt: skip
                for number in range(count):
                    blocks.append(Inverted(channels, wider, 1 if number else stride, expansion))
                    channels = wider
            self.blocks = lib.nn.ModuleList(blocks)
            self.last = lib.nn.Conv2d(320, 1280, 1, bias=False)
            self.norm2 = lib.nn.BatchNorm2d(1280)
            self.head = lib.nn.Linear(1280, 1000)

        def forward(self, x: Any) -> Any:
            x = lib.relu6(self.norm1(self.stem(x)))
            for block in self.blocks:
                x = block(x)
            return self.head(lib.relu6(self.norm2(self.last(x))).mean((2, 3)))

    return MobileNetV2()


def unet(lib: Library, width: int = 32, depth: int = 4) -> Any:
    """Down by pools and up again by transposed convolutions, each beside what was there before."""

    class Double(lib.module):
        def __init__(self, channels: int, wider: int):
            super().__init__()
            self.conv1 = lib.nn.Conv2d(channels, wider, 3, 1, 1, bias=False)
            self.conv2 = lib.nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = lib.nn.BatchNorm2d(wider), lib.nn.BatchNorm2d(wider)

        def forward(self, x: Any) -> Any:
            return lib.relu(self.norm2(self.conv2(lib.relu(self.norm1(self.conv1(x))))))

    class UNet(lib.module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width << level for level in range(depth + 1)]
            pairs = list(zip(widths, widths[1:], strict=False))
            self.first, self.pool = Double(3, width), lib.nn.MaxPool2d(2)
            self.down = lib.nn.ModuleList([Double(*pair) for pair in pairs])
            self.up = lib.nn.ModuleList(
                [lib.nn.ConvTranspose2d(wide, narrow, 2, 2) for narrow, wide in pairs[::-1]]
            )
            self.beside = lib.nn.ModuleList([Double(wide, narrow) for narrow, wide in pairs[::-1]])
            self.head = lib.nn.Conv2d(width, 4, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for block in self.down:
                kept.append(block(self.pool(kept[-1])))
            x = kept.pop()
            for rise, block in zip(self.up, self.beside, strict=True):
                x = block(lib.concatenate([kept.pop(), rise(x)], 1))
            return lib.classes_last(self.head(x))

    return UNet()


def _encoder(lib: Library, width: int, heads: int, before: bool) -> Any:
    """A layer that normalises before its products, or behind its shortcuts."""

    class Encoder(lib.module):
        def __init__(self) -> None:
            super().__init__()
            dense, norm = lib.nn.Linear, lib.nn.LayerNorm
            self.query, self.key, self.value = (dense(width, width) for _ in range(3))
            self.output, self.norm1, self.norm2 = dense(width, width), norm(width), norm(width)
            self.up, self.down = dense(width, 4 * width), dense(4 * width, width)

        def forward(self, x: Any) -> Any:
            if before:
                x = x + self.attend(self.norm1(x))
                return x + self.down(lib.gelu(self.up(self.norm2(x))))
            x = self.norm1(x + self.attend(x))
            return self.norm2(x + self.down(lib.gelu(self.up(x))))

        def attend(self, x: Any) -> Any:
            count, length, _ = x.shape
            parts = [
                lib.transpose(each(x).reshape(count, length, heads, width // heads), 0, 2, 1, 3)
                for each in (self.query, self.key, self.value)
            ]
            mixed = lib.transpose(lib.attention(*parts), 0, 2, 1, 3)
            return self.output(mixed.reshape(count, length, width))

    return Encoder()


def vit_small(lib: Library, layers: int = 12, positions: int = 49) -> Any:
    """Patches of 16 x 16 pixels."""

    class ViT(lib.module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = lib.nn.Conv2d(3, 384, 16, 16)
            self.position_table = lib.nn.Embedding(positions, 384)
            self.layers = lib.nn.ModuleList([_encoder(lib, 384, 6, True) for _ in range(layers)])
            self.norm, self.head = lib.nn.LayerNorm(384), lib.nn.Linear(384, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x)
            x = lib.transpose(x.reshape(x.shape[0], 384, positions), 0, 2, 1)
            x = x + self.position_table.weight
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x).mean(1))

    return ViT()


def bert_small(lib: Library, layers: int = 4, tokens: int = 30522, positions: int = 64) -> Any:
    """An encoder of text, and classes of its first token."""

    class Bert(lib.module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.position_table = (
                lib.nn.Embedding(tokens, 512),
                lib.nn.Embedding(positions, 512),
            )
            self.norm = lib.nn.LayerNorm(512)
            self.layers = lib.nn.ModuleList([_encoder(lib, 512, 8, False) for _ in range(layers)])
            self.pool, self.head = lib.nn.Linear(512, 512), lib.nn.Linear(512, 2)

        def forward(self, words: Any) -> Any:
            x = self.norm(self.table(words) + self.position_table.weight)
            for layer in self.layers:
                x = layer(x)
            return self.head(lib.gelu(self.pool(x[:, 0])))

    return Bert()


def lstm(lib: Library, width: int = 512) -> Any:
    """Two layers, and classes of the last step."""

    class Recurrent(lib.module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = lib.lstm(64, width), lib.lstm(width, width)
            self.head = lib.nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.second(self.first(x)[0])[0][:, -1])

    return Recurrent()


SHARED: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {each.__name__: each for each in (resnet50, mobilenet_v2, unet, vit_small, bert_small, lstm)}
)
