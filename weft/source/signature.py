"""What arguments of a compiled function select: a compilation for the type of each tensor, and for
the value of anything else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.array.interleaved import interleaved
from weft.dialects.errors import InputError
from weft.dialects.weights import Array
from weft.eager.tensor import Tensor, array_of
from weft.tracing.spec import Spec


def is_value(leaf: object) -> bool:
    """Whether it is a tensor with values."""
    return isinstance(leaf, np.ndarray | np.generic | Tensor)


def kept_leaf(leaf: Any, spec: Spec | None) -> Any:
    """A Spec for a leaf that is a tensor; any other leaf as it is."""
    tensor = is_value(leaf)
    if spec is None and not tensor:
        return leaf
    array: Array = np.asarray(elements_in(leaf))
    if spec is None:
        return Spec(array.dtype.name, array.shape)
    if tensor and array.dtype != np.dtype(spec.dtype) or array.ndim != len(spec.shape):
        rule = f"an argument requires {spec.dtype} of {len(spec.shape)} axes"
        raise InputError(f"{rule}, got {array.dtype} of {array.ndim}")
    return spec


def elements_in(leaf: Any) -> Any:
    """The array of a tensor; anything else as it is."""
    return array_of(leaf) if isinstance(leaf, Tensor) else leaf


def array_in(leaf: Any) -> Any:
    """What a call is given for a leaf: the array of a tensor, which is one of pairs for complex
    numbers; anything else as it is.
    """
    found = elements_in(leaf)
    return interleaved(found) if is_value(found) and found.dtype.kind == "c" else found


def selects(leaf: Any, spec: Spec | None) -> object:
    """What selects a compilation: the type of a tensor, the value of anything else."""
    if spec is not None:
        return kept_leaf(leaf, spec)
    return (leaf.dtype, leaf.shape) if is_value(leaf) else key_of(leaf)


class _Object(Struct, frozen=True, eq=False):
    """An object that is equal to itself alone, kept so that no other gets its place."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and other.value is self.value


def key_of(kept: Any) -> object:
    """What tells other leaves apart: their values, or that they are other objects."""
    if isinstance(kept, float):
        return float, kept.hex()  # 0.0 and -0.0 are two
    try:
        hash(kept)
    except TypeError:
        return _Object(kept)
    return kept.__class__, kept


def shown_value(value: Any) -> str:
    """A value, or the type of a tensor, as explanations show it."""
    if isinstance(value, Spec):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Complex):
        return f"complex of {shown_value(value.real)}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(shown_value, value))  # pyright: ignore[reportUnknownArgumentType]
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, dict):
        pairs = value.items()  # pyright: ignore[reportUnknownVariableType]
        return "{" + ", ".join(f"{key!r}: {shown_value(each)}" for key, each in pairs) + "}"  # pyright: ignore
    return repr(value)
