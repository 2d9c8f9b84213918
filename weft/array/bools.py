"""Operators on two numbers, as they are on two bools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_ON_BOOLS: Final[Mapping[str, str]] = {
    "add": "logical_or", "mul": "logical_and", "max": "logical_or", "min": "logical_and",
}  # fmt: skip


_ON_NUMBERS: Final = ("einsum", "greater", "greater_equal", "less", "less_equal", "matmul")
"""Operators that compare bools or add them up as the numbers that they are."""


def name_on(name: str, dtype: np.dtype[Any]) -> str:
    """The graph operator that does to elements of a dtype what NumPy's of that name does; none
    where it is several.
    """
    if dtype != np.bool_:
        return name
    return "" if name in _ON_NUMBERS else _ON_BOOLS.get(name, name)


def on_bools(x: Any, name: str, *operands: Any, **attributes: Any) -> Any:
    """What NumPy's function of bools gives, one of which is `x`, as graph operators."""
    if one := name_on(name, np.dtype(np.bool_)):
        return x.op(one, *operands, **attributes)
    numbers = [each.astype(np.int32) for each in operands]
    return numbers[0].op(name, *numbers, **attributes).astype(np.bool_)
