"""Operators on two numbers, as they are on two bools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_ON_BOOLS: Final[Mapping[str, str]] = {
    "add": "logical_or", "mul": "logical_and", "max": "logical_or", "min": "logical_and",
}  # fmt: skip


def name_on(name: str, dtype: np.dtype[Any]) -> str:
    """The graph operator that does to elements of a dtype what NumPy's of that name does."""
    return _ON_BOOLS.get(name, name) if dtype == np.bool_ else name
