"""`trap_nan` of functions that are made of functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.autodiff.vjp import is_traced
from weft.compiler.deferred import deferred
from weft.dialects.errors import WeftError
from weft.eager.tensor import Tensor
from weft.trees import flatten, unflatten

if TYPE_CHECKING:
    from weft.tracing import compiled
else:
    compiled = deferred("weft.tracing.compiled")

Function = Callable[..., Any]

NUMBERS: Final = (ArrayOperators, np.ndarray, np.generic, float, complex)
"""What is a tensor among arguments; all else stays what it is."""


def trapped(function: Function) -> Function:
    """The function, which is traced in each call, and looks at every value. Raises InputError that
    names the first line which makes NaN or an infinity out of numbers, and WeftError where it is
    traced already.
    """

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        leaves, structure = flatten((arguments, named))
        given = [leaf for _, leaf in leaves]
        if is_traced(given):
            rule = "trap_nan of a function within another requires tensors with values"
            advice = "trap_nan of the outer one looks at all"
            raise WeftError(f"{users_line()}: {rule}, got traced ones ({advice})")
        positions = [at for at, leaf in enumerate(given) if isinstance(leaf, NUMBERS)]
        tensors = [Tensor(given[at]) for at in positions]

        def of_tensors(*tensors: Any) -> Any:
            whole = [*given]
            for at, tensor in zip(positions, tensors, strict=True):
                whole[at] = tensor
            entered, entered_by_name = unflatten(structure, whole)
            return function(*entered, **entered_by_name)

        return compiled.trace(of_tensors, *tensors, trap_nan=True)(*tensors)

    return called
