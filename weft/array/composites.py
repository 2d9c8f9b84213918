"""`composite`: a function of a few operators that is one kernel in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array.operators import ArrayOperators


def leader(*arguments: Any) -> Any:
    """The first tensor among the arguments, whose kind the result has; None without one.

    Tensors with values go along with others: they become constants of a graph.
    """
    tensors = [each for each in arguments if isinstance(each, ArrayOperators)]
    return next((each for each in tensors if not each.has_values), next(iter(tensors), None))


def composite(function: Callable[..., Any], *operands: Any, **attributes: Any) -> Any:
    """What a function of tensors gives, one tensor: in eager mode by one kernel, compiled for all
    sizes of the operands; otherwise, and on NumPy's arrays, operator by operator.

    The function is a module's, and depends on its operands and attributes alone.
    """
    first = operands[0]
    if not isinstance(first, ArrayOperators):
        first = leader(*operands)
        if first is None:
            return function(*operands, **attributes)
    return first.composed(function, operands, attributes)
