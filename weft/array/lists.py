"""Lists of Python as operands, as NumPy takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from weft.array.operators import ArrayOperators
from weft.array.rearrangements import stack


def holds_tensors(values: Any) -> bool:
    """Whether it is a tensor, or a list that holds one."""
    if isinstance(values, list | tuple):
        return any(map(holds_tensors, cast("Sequence[Any]", values)))
    return isinstance(values, ArrayOperators)


def lifted(x: Any, values: Any) -> Any:
    """A list of numbers and tensors as a tensor like `x`."""
    if not holds_tensors(values):
        return x.constant(np.asarray(values))
    return stack([x.lifted(each) for each in values])
