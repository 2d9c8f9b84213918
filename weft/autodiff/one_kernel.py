"""Functions of several operators, loops among them, that tensors with values run as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from weft.autodiff.vjp import is_traced
from weft.compiler.deferred import deferred
from weft.trees import flatten, unflatten

if TYPE_CHECKING:
    from weft.autodiff import captured
else:
    captured = deferred("weft.autodiff.captured")


def one_kernel(function: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """The function, from trees of tensors to several: on tensors with values it is traced, and runs
    as one kernel that is compiled once for its shapes.
    """

    @wraps(function)
    def called(*operands: Any) -> Sequence[Any]:
        leaves, structure = flatten(operands)
        if is_traced([leaf for _, leaf in leaves]):
            return tuple(function(*operands))
        recording = captured.Captured()
        held = iter([recording.held(leaf) for _, leaf in leaves])
        results, shape = flatten(tuple(function(*unflatten(structure, held))))
        return unflatten(shape, iter(recording.computed([leaf for _, leaf in results])))

    return called
