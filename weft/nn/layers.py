"""Layers of which most networks are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft.array.composites import leader
from weft.array.operators import ArrayOperators
from weft.nn.initializers import Initializer, fan_in_uniform, normal, uniform, zeros
from weft.nn.module import Module
from weft.random import kept


class Dense(Module):
    """`x @ weight + bias` for `weight[inputs, outputs]`, over the last axis."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        weight_init: Initializer = fan_in_uniform,
        bias_init: Initializer | None = None,
    ):
        super().__init__()
        self.weight = weight_init((inputs, outputs))
        bound = inputs**-0.5
        start = uniform((outputs,), bound) if bias_init is None else bias_init((outputs,))
        self.bias = start if bias else None

    def construct(self, x: Any) -> Any:
        """`[..., inputs]` to `[..., outputs]`."""
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


Linear = Dense


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


class Conv2d(Module):
    """Filters `weight[outputs, inputs / groups, height, width]` slid over `[n, inputs, h, w]`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        weight_init: Initializer = fan_in_uniform,
    ):
        super().__init__()
        kernel = _pair(kernel_size)
        self.weight = weight_init((outputs, inputs // groups, *kernel))
        self.bias = zeros((outputs,)) if bias else None
        self.strides, self.pads = _pair(stride), _pair(padding) * 2
        self.dilations, self.groups = _pair(dilation), groups

    def construct(self, x: Any) -> Any:
        """`[n, inputs, h, w]` to `[n, outputs, h', w']`."""
        first = leader(x, self.weight)
        operands = [each for each in (x, self.weight, self.bias) if each is not None]
        return first.op(
            "conv", *map(first.lifted, operands), strides=self.strides, pads=self.pads,
            dilations=self.dilations, group=self.groups,
        )  # fmt: skip


class _Pool(Module):
    """What slides a window over `[n, c, h, w]`."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ):
        super().__init__()
        self.kernel = _pair(kernel_size)
        self.strides = self.kernel if stride is None else _pair(stride)
        self.pads = _pair(padding) * 2

    def pooled(self, name: str, x: Any, **attributes: Any) -> Any:
        """The windows' results."""
        return x.op(
            name, x, kernel=self.kernel, strides=self.strides, pads=self.pads, ceil_mode=False,
            **attributes,
        )  # fmt: skip


class MaxPool2d(_Pool):
    """The greatest element of each window."""

    def construct(self, x: Any) -> Any:
        """`[n, c, h, w]` to `[n, c, h', w']`."""
        return self.pooled("max_pool", x)


class AvgPool2d(_Pool):
    """The mean of each window; what lies outside counts as zeros."""

    def construct(self, x: Any) -> Any:
        """`[n, c, h, w]` to `[n, c, h', w']`."""
        return self.pooled("average_pool", x, count_include_pad=True)


class Embedding(Module):
    """A row of `weight[count, width]` for each integer."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.weight = normal((count, width), 1.0)

    def construct(self, positions: Any) -> Any:
        """`[...]` to `[..., width]`."""
        return wnp.take(self.weight, positions, 0)


class Flatten(Module):
    """All axes from one on as one."""

    def __init__(self, start: int = 1):
        super().__init__()
        self.start = start

    def construct(self, x: Any) -> Any:
        """`[n, ...]` to `[n, elements]`."""
        return x.reshape((*x.shape[: self.start], -1))


class Dropout(Module):
    """In training, zeros with the probability `rate`, the other elements scaled up; which ones they
    are is a function of the key.
    """

    def __init__(self, rate: float = 0.5):
        super().__init__()
        self.rate = rate

    def construct(self, x: Any, key: Any = None) -> Any:
        """The same shape; `key` is needed in training."""
        if not self.training or not self.rate:
            return x
        if key is None:
            raise TypeError("Dropout requires a key of weft.random in training, got none")
        return kept(key, x, self.rate)


class Sequential(Module):
    """Modules, or functions, one after the other; also given as one list."""

    def __init__(self, *layers: Any):
        super().__init__()
        several = len(layers) == 1 and isinstance(layers[0], list | tuple)
        self.layers: list[Any] = [*layers[0]] if several else [*layers]

    def construct(self, x: Any) -> Any:
        """What the last one gives."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, position: int) -> Any:
        return self.layers[position]

    def __len__(self) -> int:
        return len(self.layers)


SequentialCell = Sequential


class Activation(Module):
    """A function of each element, or of each line, without parameters."""

    function: Callable[[Any], Any]

    def construct(self, x: Any) -> Any:
        """The same shape."""
        return type(self).function(x)


def relu(x: Any) -> Any:
    """`max(x, 0)`."""
    return x.apply("relu") if isinstance(x, ArrayOperators) else np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`."""
    return x.apply("sigmoid")


def gelu(x: Any, approximate: str = "none") -> Any:
    """`x` times the normal distribution's function of `x`; `tanh` for the approximation."""
    return x.apply("gelu", approximate=approximate)


def silu(x: Any) -> Any:
    """`x sigmoid(x)`."""
    return x.apply("swish", alpha=1.0)


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """`x`, times `slope` where it is negative."""
    return x.apply("leaky_relu", alpha=slope)


def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`."""
    return x.apply("softplus")


class ReLU(Activation):
    """`max(x, 0)`."""

    function = relu


class Sigmoid(Activation):
    """`1 / (1 + exp(-x))`."""

    function = sigmoid


class Tanh(Activation):
    """The hyperbolic tangent."""

    function = wnp.tanh


class GELU(Activation):
    """`x` times the normal distribution's function of `x`."""

    function = gelu


class SiLU(Activation):
    """`x sigmoid(x)`."""

    function = silu


class Softmax(Module):
    """Exponentials that add up to one along an axis."""

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Any:
        """The same shape."""
        return wnp.softmax(x, self.axis)
