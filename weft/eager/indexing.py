"""`x[...]` of a tensor with values: NumPy's indexing, made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.array.indexing import invalid, out_of_bounds, parts_of
from weft.array.operators import ArrayOperators, axis_of
from weft.array.views import Link, linked
from weft.dialects.weights import Array
from weft.eager.tape import Node, moved, only

if TYPE_CHECKING:
    from weft.eager.tensor import Tensor


def indexed(x: Tensor, index: Any) -> Tensor:
    """The part of a tensor that integers, slices, `...`, `None` and arrays of integers or of bools
    choose, as NumPy has it. Raises InvalidIndexError, which names the line, for anything else.
    """
    if type(index) is type(x) and x._abstract.rank and index._abstract.rank:
        if index.dtype.kind == "i":
            return _rows(x, index)
        if index.dtype == np.bool_ and x._node is None:
            return basic_part(x, (index._array,))
    parts = parts_of(index)
    traced: Any = next((each for each in parts if isinstance(each, ArrayOperators)), None)
    if traced is not None:
        return traced.lifted(x)[parts]
    found = basic_part(x, parts)
    is_view = not any(hasattr(each, "ndim") for each in parts)
    return linked(found, Link(x, parts)) if is_view and found._array.ndim else found


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """The slices along the first axis at the places of one tensor of integers."""
    positions = index.astype(np.int64)
    if x._node is not None:
        check_positions(positions._array, x.shape[0])
        return x.op("gather", x, positions, axis=0)
    try:
        return type(x).of(x._array.take(positions._array, 0))
    except IndexError as error:
        raise invalid(str(error)) from error


_greatest: Final = np.maximum.reduce
_FEW: Final = 16
_INT64: Final = np.dtype(np.int64)
_UINT64: Final = np.dtype(np.uint64)


def check_positions(chosen: Array, size: int) -> None:
    """Refuses places that an axis does not have. Raises InvalidIndexError, which names the line."""
    if chosen.dtype == _INT64:  # a place from the end is a great number without a sign
        unsigned = chosen.view(_UINT64)
        few = chosen.ndim == 1 and 0 < chosen.size <= _FEW  # of which a list takes less time
        if (max(unsigned.tolist()) if few else int(_greatest(unsigned, None, initial=0))) < size:
            return
    if chosen.size and (chosen.min() < -size or chosen.max() >= size):
        raise out_of_bounds(chosen[(chosen < -size) | (chosen >= size)].flat[0], size)


def basic_part(x: Tensor, index: tuple[Any, ...]) -> Tensor:
    """What integers, slices, `...`, None and arrays of NumPy choose."""
    try:
        array = x._array[index]
    except (IndexError, TypeError) as error:
        raise invalid(str(error)) from error
    if isinstance(array, np.generic):
        array = np.asarray(array)
    shape = x.shape
    return moved(x, array, lambda node, arriving, wanted: [_back(only(arriving), index, shape)])


def rolled(x: Tensor, moves: Sequence[tuple[int, Any]]) -> Tensor:
    """The elements moved on along axes, by so many places each; the last ones come first."""
    array = x._array
    for axis, shift in moves:
        front, size = (slice(None),) * axis_of(axis, array.ndim), array.shape[axis]
        left = size - shift % size if size else 0
        turned = np.empty_like(array)
        turned[(*front, slice(size - left, None))] = array[(*front, slice(None, left))]
        turned[(*front, slice(None, size - left))] = array[(*front, slice(left, None))]
        array = turned

    def backward(node: object, arriving: list[Tensor | None], wanted: object) -> list[Tensor]:
        return [rolled(only(arriving), [(axis, -shift) for axis, shift in moves])]

    return moved(x, array, backward)


def _back(cotangent: Tensor, index: tuple[Any, ...], shape: tuple[int, ...]) -> Tensor:
    """Zeros with a cotangent in the part that an index chooses."""
    whole = np.zeros(shape, cotangent.dtype)
    if any(isinstance(part, np.ndarray) for part in index):
        np.add.at(whole, index, cotangent._array)  # a place that is named twice takes both
    else:
        whole[index] = cotangent._array

    def backward(node: Node, arriving: list[Tensor | None], wanted: object) -> list[Tensor]:
        return [basic_part(only(arriving), index)]

    return moved(cotangent, whole, backward)
