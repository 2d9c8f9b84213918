"""Definitions of matrices become definitions of stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from weft.array_api.operands import operand
from weft.autodiff.batching import vmap
from weft.trees import tree_map

Definition = Callable[..., Any]


def of_stacks(function: Definition) -> Definition:
    """The function of a matrix, on arrays with more axes in front too: of all matrices at once.
    Other arguments with axes have an element for each matrix.
    """

    @wraps(function)
    def called(a: Any, *others: Any, **named: Any) -> Any:
        a = operand(a, *others)
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
