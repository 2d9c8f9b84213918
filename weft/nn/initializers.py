"""What parameters begin with: functions of a shape, drawn from the generator of `seed`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod, sqrt
from typing import Any, Final, Protocol

import numpy as np

from weft.eager.tensor import Tensor

_GENERATOR: Final[ContextVar[np.random.Generator]] = ContextVar("generator")


class Initializer(Protocol):
    """A tensor of that shape."""

    def __call__(self, shape: Sequence[int], dtype: Any = ...) -> Tensor: ...


@contextmanager
def seed(number: int) -> Generator[None]:
    """Modules made inside begin with the numbers of this seed; outside each begins with others."""
    token = _GENERATOR.set(np.random.default_rng(number))
    try:
        yield
    finally:
        _GENERATOR.reset(token)


def _generator() -> np.random.Generator:
    return _GENERATOR.get(None) or np.random.default_rng()


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many numbers a result is a sum of, and how many results a number takes part in: of
    matrices `[inputs, outputs]` and of filters `[outputs, inputs, taps...]`.
    """
    if len(shape) < 3:
        return shape[0], shape[-1]
    taps = prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


def zeros(shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
    """Zeros."""
    return Tensor.of(np.zeros(shape, dtype))


def ones(shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
    """Ones."""
    return Tensor.of(np.ones(shape, dtype))


def uniform(shape: Sequence[int], bound: float, dtype: Any = np.float32) -> Tensor:
    """Evenly distributed between `-bound` and `bound`."""
    return Tensor.of(_generator().uniform(-bound, bound, shape).astype(dtype))


def normal(shape: Sequence[int], scale: float, dtype: Any = np.float32) -> Tensor:
    """Normally distributed."""
    return Tensor.of(_generator().normal(0.0, scale, shape).astype(dtype))


def glorot_uniform(shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
    """Keeps variances in both directions (Glorot and Bengio, 2010)."""
    return uniform(shape, sqrt(6 / sum(_fans(shape))), dtype)


def he_normal(shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
    """Keeps variances in front of rectifiers (He et al., 2015)."""
    return normal(shape, sqrt(2 / _fans(shape)[0]), dtype)


def fan_in_uniform(shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
    """Between plus and minus 1 over the root of how many numbers are summed."""
    return uniform(shape, 1 / sqrt(_fans(shape)[0]), dtype)
