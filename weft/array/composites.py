"""`composite`: a function of a few operators that is one kernel in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array.operators import ArrayOperators
from weft.eager.templates import composite_of, frozen
from weft.eager.tensor import Tensor


def composite(function: Callable[..., Any], *operands: Any, **attributes: Any) -> Any:
    """What a function of tensors gives, one tensor: in eager mode by one kernel, compiled for all
    sizes of the operands; otherwise, and on NumPy's arrays, operator by operator.

    The function is a module's, and depends on its operands and attributes alone.
    """
    first = operands[0]
    if type(first) is Tensor:
        found = first.composed(function, operands, attributes)
        if found is not None:
            return found
    tensors = [each for each in operands if isinstance(each, ArrayOperators)]
    if not tensors:
        return function(*operands, **attributes)
    eager = [each for each in tensors if isinstance(each, Tensor)]
    if len(eager) == len(tensors):
        values = [eager[0].lifted(each) for each in operands]
        template = composite_of(function, frozen(attributes), len(values))
        return Tensor.computed(template, values)[0]
    first = next(each for each in tensors if not isinstance(each, Tensor))
    return function(*map(first.lifted, operands), **attributes)
