"""`x[...]` of a tensor with values: NumPy's basic indexing as a view that is made dense, one array
of integers by a gathering kernel, a mask by the places where it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dialects.errors import WeftError
from dialects.weights import Array
from weft.operators import ArrayOperators, listed, users_line

if TYPE_CHECKING:
    from weft.eager.tape import Node
    from weft.tensor import Tensor


def indexed(x: Tensor, index: Any) -> Tensor:
    """The part of a tensor that integers, slices, `...`, `None`, and at most one array of integers
    or of bools choose. Raises WeftError, which names the line, for anything else.
    """
    if isinstance(index, ArrayOperators) and index.dtype.kind == "i" and x.ndim and index.ndim:
        return _rows(x, index)
    parts = (
        [_plain(part) for part in listed(index)] if isinstance(index, tuple) else [_plain(index)]
    )
    arrays = [place for place, part in enumerate(parts) if isinstance(part, np.ndarray)]
    if not arrays:
        return _part(x, tuple(parts))
    if len(arrays) > 1:
        rule = "an index requires one array at most"
        raise WeftError(f"{users_line()}: {rule}, got {len(arrays)}")
    place = arrays[0]
    chosen = parts[place]
    if chosen.dtype == np.bool_ and chosen.ndim == 1:
        chosen = np.flatnonzero(chosen)
    elif chosen.dtype == np.bool_ and len(parts) == 1 and x.shape[: chosen.ndim] == chosen.shape:
        return indexed(x.reshape(-1, *x.shape[chosen.ndim :]), chosen.reshape(-1))
    if chosen.dtype.kind not in "iu" or any(isinstance(part, int) for part in parts):
        rule = "an index requires slices beside one array of integers or bools"
        raise WeftError(f"{users_line()}: {rule}, got {index!r}")
    parts[place] = slice(None)
    axis = _axis(x.ndim, parts, place)
    _check_places(chosen, x.shape[axis - sum(part is None for part in parts[:place])])
    from weft.tensor import Tensor

    whole = _part(x, tuple(parts))
    return whole.op("gather", whole, Tensor.of(chosen.astype(np.int64)), axis=axis)


def _rows(x: Tensor, index: Any) -> Tensor:
    """The slices along the first axis at the places of one tensor of integers."""
    places = index.astype(np.int64)
    if x.node is not None:
        _check_places(places.array, x.shape[0])
        return x.op("gather", x, places, axis=0)
    try:
        return type(x).of(x.array.take(places.array, 0))
    except IndexError as error:
        raise IndexError(
            f"{users_line()}: an index requires places within {x.shape[0]}, got others"
        ) from error


def _check_places(chosen: Array, size: int) -> None:
    wrong = chosen[(chosen < -size) | (chosen >= size)]
    if wrong.size:
        rule = f"an index requires places within {size}"
        raise IndexError(f"{users_line()}: {rule}, got {wrong.flat[0]}")


def _plain(part: Any) -> Any:
    """A part of an index as NumPy knows it."""
    if isinstance(part, ArrayOperators | np.ndarray | list):
        array = np.asarray(part)
        return int(array) if array.ndim == 0 and array.dtype.kind in "iu" else array
    return part


def _axis(rank: int, parts: list[Any], place: int) -> int:
    """The axis of the part at that place, in what the other parts give."""
    if Ellipsis in [part for part in parts if part is Ellipsis] and parts.index(Ellipsis) < place:
        after = len(parts) - place
        added = sum(part is None for part in parts)
        return rank + added - after
    return place


def _part(x: Tensor, index: tuple[Any, ...]) -> Tensor:
    """What integers, slices, `...` and None choose."""
    try:
        array = x.array[index]
    except (IndexError, TypeError) as error:
        raise IndexError(f"{users_line()}: {error}") from error
    if isinstance(array, np.generic):
        array = np.asarray(array)
    shape = x.shape
    return x.moved(array, lambda node, arriving, wanted: [_back(arriving[0], index, shape)])


def _back(cotangent: Tensor | None, index: tuple[Any, ...], shape: tuple[int, ...]) -> Tensor:
    """Zeros with a cotangent in the part that an index chooses."""
    assert cotangent is not None, "an operator is walked over when something has arrived"
    whole = np.zeros(shape, cotangent.dtype)
    whole[index] = cotangent.array

    def backward(node: Node, arriving: list[Tensor | None], wanted: object) -> list[Tensor]:
        assert arriving[0] is not None, "an operator is walked over when something has arrived"
        return [_part(arriving[0], index)]

    return cotangent.moved(whole, backward)
