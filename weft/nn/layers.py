"""Layers of which most networks are made."""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft.nn.initializers import Initializer, fan_in_uniform, normal, uniform
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


class ModuleList(list[Any]):
    """A list of modules; Python's own are as good."""


class ModuleDict(dict[str, Any]):
    """A dict of modules; Python's own are as good."""


class Identity(Module):
    """What it is given."""

    def construct(self, x: Any) -> Any:
        """The same."""
        return x


class Bilinear(Module):
    """`x[i] weight[k, i, j] y[j] + bias[k]`, over the last axes."""

    def __init__(self, first: int, second: int, outputs: int, bias: bool = True):
        super().__init__()
        self.weight = uniform((outputs, first, second), first**-0.5)
        self.bias = uniform((outputs,), first**-0.5) if bias else None

    def construct(self, x: Any, y: Any) -> Any:
        """`[n, first]` and `[n, second]` to `[n, outputs]`."""
        found = wnp.einsum("ni,kij,nj->nk", x, self.weight, y)
        return found if self.bias is None else found + self.bias


class CosineSimilarity(Module):
    """The cosine of the angle between lines along an axis."""

    def __init__(self, axis: int = 1, epsilon: float = 1e-8):
        super().__init__()
        self.axis, self.epsilon = axis, epsilon

    def construct(self, x: Any, y: Any) -> Any:
        """Both without the axis."""
        return cosine_similarity(x, y, self.axis, self.epsilon)


def cosine_similarity(x: Any, y: Any, axis: int = 1, epsilon: float = 1e-8) -> Any:
    """The cosine of the angle between lines along an axis."""
    squares = (wnp.sqrt((each * each).sum(axis)) for each in (x, y))
    lengths = [wnp.maximum(each, epsilon) for each in squares]
    return (x * y).sum(axis) / (lengths[0] * lengths[1])
