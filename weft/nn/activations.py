"""Functions of each element, or of each line, and the modules that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft.array.operators import ArrayOperators
from weft.nn.initializers import ones
from weft.nn.module import Module


class Activation(Module):
    """A function of each element, or of each line, without parameters; what it is made with are
    the function's further arguments.
    """

    function: Callable[..., Any]

    def __init__(self, *settings: Any, **named: Any):
        super().__init__()
        self.settings, self.named = settings, named

    def construct(self, x: Any) -> Any:
        """The same shape."""
        return type(self).function(x, *self.settings, **self.named)


def relu(x: Any) -> Any:
    """`max(x, 0)`."""
    return x.apply("relu") if isinstance(x, ArrayOperators) else np.maximum(x, 0)


def relu6(x: Any) -> Any:
    """`x` between 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


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


def elu(x: Any, alpha: float = 1.0) -> Any:
    """`x`, and `alpha (exp(x) - 1)` where it is negative."""
    return x.apply("elu", alpha=alpha)


def selu(x: Any) -> Any:
    """`elu` with the scale that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    return x.apply("selu", alpha=1.6732632423543772, gamma=1.0507009873554805)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """`max(0, x) + min(0, alpha (exp(x / alpha) - 1))`."""
    return x.apply("celu", alpha=alpha)


def mish(x: Any) -> Any:
    """`x tanh(softplus(x))`."""
    return x.apply("mish")


def softsign(x: Any) -> Any:
    """`x / (1 + abs(x))`."""
    return x.apply("softsign")


def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    """`x` between two bounds."""
    return wnp.clip(x, low, high)


def hardsigmoid(x: Any) -> Any:
    """`x / 6 + 1 / 2` between 0 and 1."""
    return x.apply("hard_sigmoid", alpha=1 / 6, beta=0.5)


def hardswish(x: Any) -> Any:
    """`x hardsigmoid(x)`."""
    return x.apply("hard_swish")


def logsigmoid(x: Any) -> Any:
    """The logarithm of `sigmoid(x)`."""
    return -softplus(-x)


def softshrink(x: Any, bound: float = 0.5) -> Any:
    """`x` nearer to 0 by `bound`, and 0 within it."""
    return relu(x - bound) - relu(-x - bound)


def hardshrink(x: Any, bound: float = 0.5) -> Any:
    """`x`, and 0 within `bound` of 0."""
    return wnp.where(abs(x) > bound, x, 0.0)


def tanhshrink(x: Any) -> Any:
    """`x - tanh(x)`."""
    return x - wnp.tanh(x)


def threshold(x: Any, bound: float, value: float) -> Any:
    """`x` above a bound, elsewhere a value."""
    return wnp.where(x > bound, x, value)


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis times the `sigmoid` of the second."""
    first, second = wnp.split(x, 2, axis)
    return first * sigmoid(second)


def _module(name: str, function: Callable[..., Any]) -> type[Activation]:
    named = {"function": function, "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (Activation,), named)


ReLU, ReLU6, LeakyReLU = (
    _module("ReLU", relu), _module("ReLU6", relu6), _module("LeakyReLU", leaky_relu),
)  # fmt: skip
Sigmoid, Tanh, LogSigmoid = (
    _module("Sigmoid", sigmoid), _module("Tanh", wnp.tanh), _module("LogSigmoid", logsigmoid),
)  # fmt: skip
GELU, SiLU, Mish, GLU = (
    _module("GELU", gelu), _module("SiLU", silu), _module("Mish", mish), _module("GLU", glu),
)  # fmt: skip
ELU, SELU, CELU = _module("ELU", elu), _module("SELU", selu), _module("CELU", celu)
Softplus, Softsign = _module("Softplus", softplus), _module("Softsign", softsign)
Hardtanh, Hardsigmoid, Hardswish = (
    _module("Hardtanh", hardtanh), _module("Hardsigmoid", hardsigmoid),
    _module("Hardswish", hardswish),
)  # fmt: skip
Softshrink, Hardshrink, Tanhshrink, Threshold = (
    _module("Softshrink", softshrink), _module("Hardshrink", hardshrink),
    _module("Tanhshrink", tanhshrink), _module("Threshold", threshold),
)  # fmt: skip


class Softmax(Module):
    """Exponentials that add up to one along an axis."""

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Any:
        """The same shape."""
        return wnp.softmax(x, self.axis)


class LogSoftmax(Softmax):
    """The logarithms of a softmax along an axis."""

    def construct(self, x: Any) -> Any:
        """The same shape."""
        return wnp.log_softmax(x, self.axis)


class PReLU(Module):
    """`x`, times a `weight` for each channel, or one, where it is negative."""

    def __init__(self, channels: int = 1, start: float = 0.25):
        super().__init__()
        self.weight = ones((channels,)) * start

    def construct(self, x: Any) -> Any:
        """The same shape."""
        several = self.weight.shape[0] > 1
        slopes = self.weight.reshape((-1, *[1] * (x.ndim - 2))) if several else self.weight
        return wnp.where(x < 0, x * slopes, x)
