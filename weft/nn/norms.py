"""Normalisations."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.array.composites import leader
from weft.eager.tape import detached
from weft.eager.tensor import Tensor
from weft.nn.initializers import ones, zeros
from weft.nn.module import Module


class LayerNorm(Module):
    """Lines of the last axis brought to mean 0 and variance 1, then scaled and moved."""

    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight, self.bias, self.epsilon = ones((width,)), zeros((width,)), epsilon

    def construct(self, x: Any) -> Any:
        """The same shape."""
        first = leader(x, self.weight)
        operands = map(first.lifted, (x, self.weight, self.bias))
        return first.op("layer_norm", *operands, axis=-1, epsilon=self.epsilon)


class RMSNorm(Module):
    """Lines of the last axis divided by their root mean square, then scaled."""

    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight, self.epsilon = ones((width,)), epsilon

    def construct(self, x: Any) -> Any:
        """The same shape."""
        first = leader(x, self.weight)
        operands = map(first.lifted, (x, self.weight))
        return first.op("rms_norm", *operands, axis=-1, epsilon=self.epsilon)


class BatchNorm(Module):
    """Channels, the second axis, brought to mean 0 and variance 1, then scaled and moved: in
    training by the batch, whose statistics flow into `running_mean` and `running_var`, otherwise by
    these.
    """

    def __init__(self, channels: int, epsilon: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.weight, self.bias = ones((channels,)), zeros((channels,))
        self.epsilon, self.momentum = epsilon, momentum
        self.running_mean: Any = None
        self.running_var: Any = None
        self.buffer("running_mean", zeros((channels,)))
        self.buffer("running_var", ones((channels,)))

    def construct(self, x: Any) -> Any:
        """The same shape."""
        along = [axis for axis in range(x.ndim) if axis != 1]
        shape = (-1, *[1] * (x.ndim - 2))
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean = x.mean(along)
            centred = x - mean.reshape(shape)
            variance = (centred * centred).mean(along)
            count = float(x.size) / float(x.shape[1])
            self._follow("running_mean", mean)
            self._follow("running_var", variance * (count / max(1.0, count - 1.0)))
        else:
            centred = x - mean.reshape(shape)
        scale = self.weight / wnp.sqrt(variance + self.epsilon)
        return centred * scale.reshape(shape) + self.bias.reshape(shape)

    def _follow(self, name: str, value: Any) -> None:
        """A step of a running statistic, which no derivative passes through."""
        before = getattr(self, name)
        setattr(self, name, before + self.momentum * (_alone(value) - before))


class GroupNorm(Module):
    """Groups of channels, the second axis, of each example brought to mean 0 and variance 1, then
    scaled and moved a channel at a time.
    """

    def __init__(self, groups: int, channels: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight, self.bias = ones((channels,)), zeros((channels,))
        self.groups, self.epsilon = groups, epsilon

    def construct(self, x: Any) -> Any:
        """The same shape."""
        first = leader(x, self.weight)
        operands = map(first.lifted, (x, self.weight, self.bias))
        return first.op("group_norm", *operands, groups=self.groups, epsilon=self.epsilon)


class InstanceNorm(GroupNorm):
    """Each channel of each example brought to mean 0 and variance 1, then scaled and moved."""

    def __init__(self, channels: int, epsilon: float = 1e-5):
        super().__init__(channels, channels, epsilon)


def _alone(x: Any) -> Any:
    """The tensor without the record of how it came about; in a graph there is none."""
    return detached(x) if isinstance(x, Tensor) else x


BatchNorm3d = BatchNorm2d = BatchNorm1d = BatchNorm
InstanceNorm3d = InstanceNorm2d = InstanceNorm1d = InstanceNorm
