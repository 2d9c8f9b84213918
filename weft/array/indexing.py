"""NumPy's indices, parsed once for every mode: what the parts of `x[...]` are, the axes that they
take, and where the result has what arrays choose. Modes carry it out: tensors with values by NumPy,
the others by operators of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeGuard, cast

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.array.rearrangements import concat
from weft.dialects.errors import InvalidIndexError

_ONLY: Final = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


class Index(NamedTuple):
    """An index with `...` written out."""

    parts: list[Any]
    """An int, a slice or an array of integers for each axis, an array of bools for as many as it
    has, None for a new axis.
    """
    apart: bool
    """Whether anything else stands between arrays and the integers beside them: what they choose
    comes first then, and otherwise where the first of them stands.
    """


def invalid(text: str) -> InvalidIndexError:
    """The error of an index, with the line of the user's program."""
    return InvalidIndexError(f"{users_line()}: {text}")


def out_of_bounds(position: Any, size: Any) -> InvalidIndexError:
    """The error of a position that an axis of that size does not have."""
    return invalid(f"index {position} is out of bounds for an axis of size {size}")


def parsed(index: Any, shape: Sequence[Any]) -> Index:
    """What an index of an array of these sizes, which need not be known, names. Raises
    InvalidIndexError.
    """
    parts = parts_of(index)
    spread = _spread(parts, len(shape))
    _require_masks_to_fit(spread, shape)
    return Index([each for part in spread for each in _known_positions(part)], _are_apart(parts))


def _known_positions(part: Any) -> Sequence[Any]:
    """A part; bools that are known as the integers of each axis that they choose."""
    known: Any = part
    return (
        known.nonzero() if is_mask(part) and type(known) is np.ndarray and known.ndim else (part,)
    )


def parts_of(index: Any) -> tuple[Any, ...]:
    """The parts of an index as ints, slices, None, `...`, and arrays of integers or bools: NumPy's
    where their elements are known. Raises InvalidIndexError for anything else.
    """
    given = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    return tuple(map(_part, given))


def _part(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return cast("Any", part)
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(cast("Any", part))
    if isinstance(part, ArrayOperators) and not part.has_values:
        return _indices(part)
    if _holds_traced(part):
        numbers = [_part(each) for each in cast("list[Any]", part)]
        first = next(each for each in numbers if isinstance(each, ArrayOperators))
        return concat([first.constant(np.asarray(each)).reshape(1) if isinstance(each, int)
                       else each.astype(np.int64).reshape(1) for each in numbers])  # fmt: skip
    array = np.asarray(part)
    if isinstance(part, list | tuple) and not array.size:
        array = array.astype(np.int64)
    found = _indices(array)
    return int(found) if not array.ndim and array.dtype.kind != "b" else found


def _holds_traced(part: Any) -> bool:
    """Whether it is a list with integers that only a call has."""
    return isinstance(part, list) and any(
        isinstance(each, ArrayOperators) and not each.has_values and not each.ndim
        for each in cast("list[Any]", part)
    )


def _indices(array: Any) -> Any:
    if array.dtype.kind not in "biu":
        raise invalid(f"{_ONLY}, got {array!r}")
    return array


def is_mask(part: Any) -> bool:
    """Whether a part of an index is an array of bools."""
    return getattr(part, "dtype", None) == np.bool_


def is_whole(part: Any) -> TypeGuard[slice[Any, Any, Any]]:
    """Whether a part of an index is `:`."""
    if not isinstance(part, slice):
        return False
    ends = cast("slice[Any, Any, Any]", part)
    return ends.start is None and ends.stop is None and ends.step is None


def _are_apart(parts: Sequence[Any]) -> bool:
    positions = [n for n, part in enumerate(parts) if _chooses(part)]
    if not any(getattr(parts[n], "ndim", 0) for n in positions):
        return False
    return positions[-1] - positions[0] >= len(positions)


def _chooses(part: Any) -> bool:
    """Whether it is an integer or an array; `...` counts as a slice even of no axis."""
    return part is not None and part is not Ellipsis and not isinstance(part, slice)


def _spread(parts: Sequence[Any], rank: int) -> list[Any]:
    """The parts with `...` written out as slices of the axes that the others leave."""
    dots = [position for position, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise invalid("an index can only have a single ellipsis ('...')")
    taken = sum(map(_axes_taken, parts))
    if taken > rank:
        fact = f"array is {rank}-dimensional, but {taken} were indexed"
        raise invalid(f"too many indices for array: {fact}")
    at = dots[0] if dots else len(parts)
    return [*parts[:at], *[slice(None)] * (rank - taken), *parts[at + 1 :]]


def _axes_taken(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if is_mask(part) else 1


def _require_masks_to_fit(parts: Sequence[Any], shape: Sequence[Any]) -> None:
    axis = 0
    for part in parts:
        for size in part.shape if is_mask(part) else ():
            if isinstance(size, int) and isinstance(shape[axis], int) and size != shape[axis]:
                rule = f"boolean index did not match indexed array along axis {axis}"
                raise invalid(f"{rule}; size of axis is {shape[axis]} but that of the mask {size}")
            axis += 1
        axis += 0 if is_mask(part) else _axes_taken(part)
