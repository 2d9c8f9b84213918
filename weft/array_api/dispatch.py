"""NumPy's functions on weft's tensors: what `np.sin(x)` and its kin call, with their arguments.

One table for every mode: NumPy looks here where tensors have values or are traced, source mode
where a program calls NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.array.composites import leader
from weft.array.operators import ArrayOperators, users_line
from weft.array_api.operands import operand
from weft.array_api.table import BY_OBJECT, FUNCTIONS, LINALG
from weft.array_api.ufuncs import UFUNCS
from weft.dialects.errors import WeftError

__all__ = ["BY_OBJECT", "FUNCTIONS", "LINALG", "of_arrays", "of_elements", "refusal"]


def of_elements(
    function: Any, method: str, operands: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """What a function of NumPy's of each element, or a method of it, gives for tensors. Raises
    WeftError, which names the function, for what weft lacks.
    """
    found = UFUNCS.get(function)
    if found is None:
        raise refusal(_name(function) + ("" if method == "__call__" else f".{method}"), operands)
    if method == "__call__":
        known = {key: each for key, each in named.items() if key in _TAKEN}
        return found(*(operand(each, *operands) for each in operands), **known)
    return getattr(found, method)(*operands, **named)


_TAKEN = ("out", "where", "dtype", "axis", "casting")


def of_arrays(function: Any, types: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What another function of NumPy's gives for tensors. Raises WeftError, which names it, for one
    that weft lacks, TypeError for arguments that it does not take.
    """
    if not all(issubclass(each, ArrayOperators | np.ndarray | np.generic) for each in types):
        return NotImplemented
    function_ = BY_OBJECT.get(function)
    if function_ is None:
        raise refusal(_name(function), (*arguments, *named.values()))
    return function_(*arguments, **named)


def refusal(name: str, arguments: Sequence[Any]) -> WeftError:
    """What is raised for a function of NumPy's that weft lacks."""
    first = leader(*arguments)
    has_values = first is None or first.has_values
    way = (
        "np.asarray(x) has its elements, without a derivative"
        if has_values
        else ("call it before, and hand in what it gives")
    )
    got = "a weft.Tensor" if has_values else "a tensor that is being traced"
    rule = f"{name} requires arrays of NumPy"
    return WeftError(f"{users_line()}: {rule}, got {got} (weft.numpy has those of tensors; {way})")


def _name(function: Any) -> str:
    """NumPy's function as programs write it."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"
