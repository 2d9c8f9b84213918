"""Whether something is a tensor that is being traced, without the modules that trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from weft.array.operators import ArrayOperators

if TYPE_CHECKING:
    from weft.tracing.traced import Traced


def is_traced_tensor(value: object) -> TypeGuard[Traced]:
    """Whether it is a tensor of a graph in the making."""
    return isinstance(value, ArrayOperators) and not value.has_values
