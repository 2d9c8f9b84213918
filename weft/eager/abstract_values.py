"""What kernels of eager mode are found by: a tensor's dtype and rank, and numbers beside it."""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.dialects.weights import Array

if TYPE_CHECKING:
    from weft.eager.tensor import Tensor

_MOST_NUMBERS: Final = 256
"""Of Python's that an abstract value has tensors of."""


class AbstractValue:
    """A dtype and a rank, of which there is one object in a process; kernels are found by them."""

    __slots__ = ("dtype", "held", "is_float", "key", "numbers", "rank")

    def __init__(self, dtype: np.dtype[Any], rank: int):
        self.dtype, self.rank, self.key = dtype, rank, (dtype.name, rank)
        self.held: dict[float, Tensor] = {}
        self.is_float = dtype.kind not in "biu"
        self.numbers = (float, int) if self.is_float else (int,) if dtype.kind == "i" else ()


_ABSTRACT_VALUES: Final[dict[tuple[np.dtype[Any], int], AbstractValue]] = {}


def abstract_value_of(array: Array) -> AbstractValue:
    """The abstract value of an array."""
    return abstract_value(array.dtype, array.ndim)


def abstract_value(dtype: np.dtype[Any], rank: int) -> AbstractValue:
    """The abstract value of a dtype and a rank."""
    found = _ABSTRACT_VALUES.get((dtype, rank))
    return (
        _ABSTRACT_VALUES.setdefault((dtype, rank), AbstractValue(dtype, rank))
        if found is None
        else found
    )


def number(tensor: type[Tensor], abstract_value: AbstractValue, value: float) -> Tensor:
    """A number of Python's as a tensor of an abstract value's dtype, which is made once; -0 is each
    time, for it equals 0.
    """
    found = abstract_value.held.get(value)
    if found is not None and (value or copysign(1.0, value) > 0):
        return found
    made = tensor.of(np.array(value, abstract_value.dtype))
    if value or copysign(1.0, value) > 0:
        if len(abstract_value.held) >= _MOST_NUMBERS:
            abstract_value.held.clear()
        abstract_value.held[value] = made
    return made
