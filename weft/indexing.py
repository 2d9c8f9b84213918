"""`x[...]`: NumPy's basic indexing, and one array of integers, as graph operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from dialects.errors import TypeInferenceError, WeftError
from dialects.expr import Expr
from dialects.graph.types import ShapeAttr
from weft.operators import users_line
from weft.traced import Traced


def indexed(x: Traced, index: Sequence[Any]) -> Traced:
    """The part of a tensor that integers, slices, `...`, `None` and at most one array of integers
    choose. Raises WeftError, which names the line, for anything else.
    """
    parts = _spread(x, index)
    starts, sizes, steps = [Expr.of(0)] * x.ndim, list(x.type.shape), [1] * x.ndim
    shape: list[Expr] = []
    gathered: tuple[int, Any] | None = None
    axis = 0
    for part in parts:
        if part is None:
            shape.append(Expr.of(1))
            continue
        extent = x.type.shape[axis]
        if isinstance(part, int):
            starts[axis], sizes[axis] = _place(int(part), extent), Expr.of(1)
        elif isinstance(part, slice):
            starts[axis], sizes[axis], steps[axis] = _range(
                cast("slice[Any, Any, Any]", part), extent
            )
            shape.append(sizes[axis])
        elif gathered is None and (isinstance(part, Traced) or np.asarray(part).dtype.kind in "iu"):
            gathered = len(shape), part
            shape.append(extent)
        else:
            rule = "integers, slices, None, ... and one array of integers"
            raise WeftError(f"{users_line()}: an index requires {rule}, got {part!r}")
        axis += 1
    if gathered is not None and any(isinstance(part, int) for part in parts):
        got = "integers and an array"  # whose place in the result is a corner of NumPy's rules
        raise WeftError(f"{users_line()}: an index requires slices beside an array, got {got}")
    chosen = x.recording.apply(
        "slice", x,
        sizes=ShapeAttr(tuple(sizes)), starts=ShapeAttr(tuple(starts)), steps=steps,
    )  # fmt: skip
    result = chosen.reshape(tuple(shape))
    return result if gathered is None else _gathered(result, *gathered)


def _gathered(x: Traced, axis: int, index: Any) -> Traced:
    places = index if isinstance(index, Traced) else x.recording.constant(np.asarray(index))
    return x.recording.apply("gather", x, places.astype(np.int64), axis=axis)


def _spread(x: Traced, index: Sequence[Any]) -> list[Any]:
    """The index with `...` written out, one part for each axis."""
    taken = sum(part is not None and part is not Ellipsis for part in index)
    try:
        return spread(index, taken, x.ndim)
    except TypeInferenceError as error:
        raise WeftError(f"{users_line()}: {error}") from error


def spread(index: Sequence[Any], taken: int, rank: int) -> list[Any]:
    """The index with `...` written out as slices of the axes that its parts, which take so many,
    leave. Raises TypeInferenceError where these are too many.
    """
    dots = [position for position, part in enumerate(index) if part is Ellipsis]
    if taken > rank or len(dots) > 1:
        got = f"{taken} for {rank} axes"
        raise TypeInferenceError(f"an index requires a part an axis at most, got {got}")
    at = dots[0] if dots else len(index)
    rest: list[Any] = [slice(None)] * (rank - taken)
    return [*index[:at], *rest, *index[at + 1 :]]


def _place(position: int, extent: Expr) -> Expr:
    size = extent.constant
    if size is not None and not -size <= position < size:
        raise IndexError(f"{users_line()}: an index requires a place within {size}, got {position}")
    return extent + position if position < 0 else Expr.of(position)


def _range(part: slice[Any, Any, Any], extent: Expr) -> tuple[Expr, Expr, int]:
    """Start, size and step; a size that is not known has to be taken whole or from its ends."""
    step = 1 if part.step is None else int(part.step)
    size = extent.constant
    if size is not None:
        start, stop, step = part.indices(size)
        return Expr.of(start), Expr.of(len(range(start, stop, step))), step
    start, stop = (None if end is None else int(end) for end in (part.start, part.stop))
    if step == 1 and (start or 0) <= 0 and (stop is None or stop < 0) and start is None:
        return Expr.of(0), extent if stop is None else extent + stop, 1
    if step == 1 and stop is None and start is not None and start >= 0:
        return Expr.of(start), extent - start, 1
    raise WeftError(
        f"{users_line()}: a slice of the unknown size {extent} requires one end and step 1, "
        f"got {part}"
    )
