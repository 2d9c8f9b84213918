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
    these. With `parts` each of so many equal parts of the batch goes by its own statistics, whose
    means flow: where ranks have such parts, they need not wait for each other.
    """

    def __init__(
        self, channels: int, epsilon: float = 1e-5, momentum: float = 0.1, *, parts: int = 1
    ):
        super().__init__()
        self.weight, self.bias = ones((channels,)), zeros((channels,))
        self.epsilon, self.momentum, self.parts = epsilon, momentum, parts
        self.running_mean: Any = None
        self.running_var: Any = None
        self.buffer("running_mean", zeros((channels,)))
        self.buffer("running_var", ones((channels,)))

    def construct(self, x: Any) -> Any:
        """The same shape."""
        if not self.training:
            mean, variance = self.running_mean, self.running_var
            return self._scaled(x - mean.reshape(_along_channels(x, 0)), variance, 0)
        if self.parts == 1:
            return self._by_batch(x, 0)
        parts = x.reshape((self.parts, x.shape[0] // self.parts, *x.shape[1:]))
        return self._by_batch(parts, 1).reshape(x.shape)

    def _by_batch(self, x: Any, batch: int) -> Any:
        """By the statistics of each batch, which is that axis, behind that of parts."""
        along = [axis for axis in range(batch, x.ndim) if axis != batch + 1]
        mean = x.mean(along)
        centred = x - mean.reshape(_along_channels(x, batch))
        variance = (centred * centred).mean(along)
        count = float(x.size) / float(x.shape[batch + 1]) / self.parts
        unbiased = variance * (count / max(1.0, count - 1.0))
        self._follow("running_mean", mean.mean(0) if batch else mean)
        self._follow("running_var", unbiased.mean(0) if batch else unbiased)
        return self._scaled(centred, variance, batch)

    def _scaled(self, centred: Any, variance: Any, batch: int) -> Any:
        scale = self.weight / wnp.sqrt(variance + self.epsilon)
        bias = self.bias.reshape((-1, *[1] * (centred.ndim - batch - 2)))
        return centred * scale.reshape(_along_channels(centred, batch)) + bias

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


def _along_channels(x: Any, batch: int) -> tuple[Any, ...]:
    """The shape of a statistic of channels, which are behind the batch, to go with the rest."""
    return (*x.shape[:batch], *[1] * batch, -1, *[1] * (x.ndim - batch - 2))


def _alone(x: Any) -> Any:
    """The tensor without the record of how it came about; in a graph there is none."""
    return detached(x) if isinstance(x, Tensor) else x


BatchNorm3d = BatchNorm2d = BatchNorm1d = BatchNorm
InstanceNorm3d = InstanceNorm2d = InstanceNorm1d = InstanceNorm
