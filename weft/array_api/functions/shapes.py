"""NumPy's functions of shapes, and those whose parameters differ from the methods'."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import rearrangements
from weft.array.bools import on_bools
from weft.array.composites import leader
from weft.array.elementwise import alike
from weft.array.elementwise import clip as _bounded_by
from weft.array.operators import listed
from weft.array_api.operands import operand, refuse


def shape(a: Any) -> Any:
    """The sizes of the axes.

    >>> np.shape(x)
    """
    return operand(a).shape


def ndim(a: Any) -> int:
    """The number of axes.

    >>> np.ndim(x)
    """
    return operand(a).ndim


def size(a: Any, axis: Any = None) -> Any:
    """The number of elements, or that along axes.

    >>> np.size(x), np.size(x, 1)
    """
    a = operand(a)
    if axis is None:
        return a.size
    found: Any = 1
    for each in listed(axis):
        found = a.shape[each] * found
    return found


def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """Other dims for the same elements; one may be -1.

    >>> np.reshape(x, (1, -1)), np.reshape(x, -1, order="F")
    """
    return operand(a).reshape(shape, order=order, copy=copy)


def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order; reversed without one.

    >>> np.transpose(x), np.transpose(x[None], (1, 2, 0))
    """
    return operand(a).transpose(*([] if axes is None else listed(axes)))


permute_dims = transpose


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged.

    >>> np.matrix_transpose(x)
    """
    return operand(x).mT


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other indices.

    >>> np.moveaxis(x[None], 0, 2)
    """
    return rearrangements.moveaxis(operand(a), source, destination)


def expand_dims(a: Any, axis: Any) -> Any:
    """A new axis of size 1, or several.

    >>> np.expand_dims(x, 1)
    """
    return rearrangements.expand_dims(operand(a), axis)


def flip(m: Any, axis: Any = None) -> Any:
    """The elements along axes from the last to the first.

    >>> np.flip(x), np.flip(x, 1)
    """
    return rearrangements.flip(operand(m), axis)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements moved on along axes; the last ones come first.

    >>> np.roll(x, 1), np.roll(x, -1, axis=1)
    """
    return rearrangements.roll(operand(a), shift, axis)


def tril(m: Any, k: int = 0) -> Any:
    """The elements on and below a diagonal, zeros above.

    >>> np.tril(x), np.tril(x, -1)
    """
    return rearrangements.tril(operand(m), k)


def triu(m: Any, k: int = 0) -> Any:
    """The elements on and above a diagonal, zeros below.

    >>> np.triu(x, 1)
    """
    return rearrangements.triu(operand(m), k)


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None, **rest: Any,
) -> Any:  # fmt: skip
    """The elements brought between two bounds.

    >>> np.clip(x, 0.2, 0.5), np.clip(x, max=0.5)
    """
    low, high = a_min if min is None else min, a_max if max is None else max
    return _bounded_by(operand(a, low, high), low, high)


def einsum(
    equation: Any, *operands: Any, out: Any = None, optimize: Any = False, **rest: Any
) -> Any:
    """Sums of products by Einstein's notation.

    >>> np.einsum("ij,kj->ik", x, x), np.einsum("ii", x)
    """
    if not isinstance(equation, str):
        raise refuse("einsum requires its subscripts as a text", type(equation).__name__)
    whole = equation.replace(" ", "")
    first: Any = leader(*operands)
    alike_ = operands and alike(*operands)
    tensors = operands if alike_ else first.lifted(operands[0]).promoted(*operands[1:])
    if tensors[0].dtype == np.bool_:
        return on_bools(first, "einsum", *tensors, equation=whole)
    return first.op("einsum", *tensors, equation=whole)
