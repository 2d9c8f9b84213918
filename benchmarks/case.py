"""A case of the benchmarks: a model, made when it is its turn, and the arrays to run it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper

Inputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A model of one size: `build()` makes it, `inputs()` the arrays."""

    name: str
    build: Callable[[], ModelProto]
    inputs: Callable[[], Inputs]


def random_array(shape: Sequence[int], dtype: int, seed: int) -> NDArray[Any]:
    """Normal values of an ONNX element type; small integers for integer types."""
    generator = np.random.default_rng(seed)
    np_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    if np_dtype.kind in "iu":
        return generator.integers(0, 10, shape).astype(np_dtype)
    return generator.standard_normal(shape, np.float32).astype(np_dtype)
