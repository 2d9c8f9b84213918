"""Definitions of matrices become those of stacks of them, and of matrices without elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from weft.array.operators import ArrayOperators
from weft.array_api.operands import operand
from weft.autodiff.batching import vmap
from weft.trees import tree_map

Definition = Callable[..., Any]


def of_empty(function: Definition) -> Definition:
    """The function of matrices, which for those without elements is NumPy's: it depends on sizes
    alone.
    """

    @wraps(function)
    def called(a: Any, *others: Any, **named: Any) -> Any:
        a = operand(a)
        sizes = [*a.shape, *getattr(others[0] if others else a, "shape", ())]
        if not isinstance(a, ArrayOperators) or 0 not in sizes:
            return function(a, *others, **named)
        given = [_zeros(each) for each in others]
        found = getattr(np.linalg, function.__name__)(_zeros(a), *given, **named)
        return tree_map(lambda each: a.constant(np.asarray(each)), found)

    return called


def _zeros(value: Any) -> Any:
    """An array of the sizes of a tensor; other arguments stay."""
    if not isinstance(value, ArrayOperators):
        return value
    dtype = value.dtype if value.dtype.kind in "fc" else np.float64
    return np.zeros(value.shape, dtype)


def of_stacks(function: Definition) -> Definition:
    """The function of a matrix, on arrays with more axes in front too: of all matrices at once.
    Other arguments with axes have an element for each matrix.
    """

    @of_empty
    @wraps(function)
    def called(a: Any, *others: Any, **named: Any) -> Any:
        if a.ndim < 3:
            return function(a, *others, **named)
        heads = tuple(a.shape[:-2])
        given: dict[Any, Any] = {**dict(enumerate(others)), **named}
        mapped = {
            key: operand(each, a).broadcast_to(heads).reshape(-1)
            for key, each in given.items() if getattr(each, "ndim", 0)
        }  # fmt: skip

        def of_one(matrix: Any, parts: dict[Any, Any]) -> Any:
            own = given | parts
            ordered = (own[position] for position in range(len(others)))
            return function(matrix, *ordered, **{name: own[name] for name in named})

        found = vmap(of_one)(a.reshape((-1, *a.shape[-2:])), mapped)
        return tree_map(lambda each: each.reshape((*heads, *each.shape[1:])), found)

    return called
