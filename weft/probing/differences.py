"""How far what two forms of a model compute lies apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from weft.dialects.errors import OptionError
from weft.dialects.weights import Array


class Difference(Struct, frozen=True):
    """How far two arrays lie apart: `absolute`, `relative` to the second's element, in `ulp` of its
    dtype, all at most; and as a share of the `scale`, the second's largest magnitude.
    """

    name: str
    absolute: float
    relative: float
    ulp: float
    scale: float

    @property
    def of_scale(self) -> float:
        """The largest difference over the largest magnitude."""
        return self.absolute / self.scale if self.scale else self.absolute


def differences(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> list[Difference]:
    """How far each output lies from the other's of that name.

    Raises OptionError where names, dtypes or shapes are others.
    """
    if ours.keys() != theirs.keys():
        got = f"{', '.join(ours)} and {', '.join(theirs)}"
        raise OptionError(f"compare requires outputs of the same names, got {got}")
    return [difference(name, ours[name], theirs[name]) for name in ours]


def difference(name: str, ours: Array, theirs: Array) -> Difference:
    """How far two arrays lie apart; equal infinities and NaNs are no difference."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        got = f"{ours.dtype.name}{list(ours.shape)} and {theirs.dtype.name}{list(theirs.shape)}"
        raise OptionError(f"compare requires outputs of one dtype and shape, got {got} for {name}")
    wide, other = ours.astype(np.float64), theirs.astype(np.float64)
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        apart = np.where(same, 0.0, np.abs(wide - other))
        apart = np.where(np.isnan(apart), np.inf, apart)
        relative = np.where(same, 0.0, apart / np.abs(other))
        ulp = np.where(same, 0.0, apart / _spacing(theirs))
    finite = np.abs(other[np.isfinite(other)])
    return Difference(
        name,
        float(apart.max(initial=0.0)),
        float(relative.max(initial=0.0)),
        float(ulp.max(initial=0.0)),
        float(finite.max(initial=0.0)),
    )


def _spacing(array: Array) -> Array:
    """The distance of each element to its neighbour; 1 for what counts."""
    if array.dtype.name not in ("float16", "float32", "float64"):
        return np.ones(array.shape)
    return np.abs(np.spacing(array)).astype(np.float64)
