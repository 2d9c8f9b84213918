"""What NumPy's functions do with their arguments first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dialects.expr import Expr
from weft.source.indexing import read
from weft.source.iteration import stacked
from weft.source.operators import as_tensor
from weft.source.run import Run
from weft.source.syntax import Place
from weft.source.values import Spread
from weft.traced import Traced

Axis = int | Sequence[int] | None


def tensor_of(run: Run, value: Any, place: Place) -> Traced:
    """A value as a tensor: lists are put together."""
    if isinstance(value, list | tuple):
        parts = [
            each if isinstance(each, Spread) else tensor_of(run, each, place) for each in value
        ]
        return stacked(run, parts, place)
    return as_tensor(run.recording, value)


def floating(x: Traced) -> Traced:
    """Integers as float64."""
    return x if x.dtype.kind not in "biu" else x.astype(np.float64)


def axes_of(x: Traced, axis: Axis) -> list[int]:
    """The axes that are meant, counted from the front."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return [each % x.ndim for each in axes]


def sizes(run: Run, shape: Any) -> tuple[Expr, ...]:
    """Dims out of ints and numbers that only a call knows."""
    given = shape if isinstance(shape, tuple | list) else (shape,)
    r = run.recording
    dims: list[Expr] = []
    for each in given:  # pyright: ignore[reportUnknownVariableType]
        dynamic = isinstance(each, Traced)
        dims.append(r.bound(each, "size") if dynamic else Expr.of(int(each)))  # pyright: ignore
    return tuple(dims)


def part(run: Run, x: Traced, index: tuple[Any, ...]) -> Any:
    """`x[index]`."""
    return read(run.recording, x, index)
