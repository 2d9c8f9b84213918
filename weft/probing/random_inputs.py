"""Random arrays for a model to run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from weft.compiler.machine.artifact.dims import size_of
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.dialects.weights import Array

RANDOM_INTEGERS: Final = 10
"""Random integers lie below this: few are valid for an input that is looked up in a table."""


def random_array(
    spec: TensorSpec, generator: np.random.Generator, dims: Mapping[str, int]
) -> Array:
    """An array for an input: floats of a normal distribution, small integers, either truth. Raises
    KeyError with the name of a size that `dims` lack.
    """
    shape = [size_of(dim)(dims) for dim in spec.dims]
    dtype = spec.numpy_dtype
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        return generator.integers(0, RANDOM_INTEGERS, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
