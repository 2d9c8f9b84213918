"""`Sample`: small operands and attributes on which every facet of an operator is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np

from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.weights import Array


@dataclass(frozen=True)
class Sample:
    """Operands by position (None for an absent optional one) and attributes by name."""

    operands: Sequence[Array | None]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)

    @property
    def present(self) -> list[Array]:
        """The operands that are there."""
        return [operand for operand in self.operands if operand is not None]


def shapes(min_dims: int = 0, max_dims: int = 3, min_side: int = 1, max_side: int = 4):
    """Small static shapes."""
    return hnp.array_shapes(
        min_dims=max(min_dims, 1), max_dims=max_dims, min_side=min_side, max_side=max_side
    ) | (st.just(()) if min_dims == 0 else st.nothing())


def floats(shape, low: float = -3.0, high: float = 3.0, dtype: object = np.float32):
    """Arrays of ordinary floats, in steps that every float type can hold."""
    return integers(shape, round(low * 16), round(high * 16), np.int64).map(
        lambda array: np.asarray(array / 16).astype(dtype)
    )


def integers(shape, low: int = -5, high: int = 5, dtype: object = np.int64):
    """Arrays of small integers, both bounds included."""

    def array(seed: int):
        drawn = np.random.default_rng(seed).integers(low, high, shape, endpoint=True)
        return np.asarray(drawn).astype(dtype)

    return seeds().map(array)


def bools(shape):
    """Arrays of bools."""
    return integers(shape, 0, 1, np.bool_)


def seeds():
    """Seeds of arrays whose elements are drawn apart from hypothesis, which is slow at that."""
    return st.integers(0, 2**32 - 1)
