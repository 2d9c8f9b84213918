"""What tensors and numbers of several ways through a program have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct
from xdsl.ir import SSAValue

from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.types import TensorType, tensor
from weft.source.recording import SourceRecording
from weft.source.syntax import Location
from weft.source.undo_log import Missing
from weft.source.values import ELEMENTS, Array, Number, is_array_like
from weft.tracing.traced import Traced


class LeafType(Struct, frozen=True):
    """The type of a leaf: a tensor's, or a number of Python's (`number` is its class)."""

    type: TensorType
    number: type | None = None

    def __str__(self) -> str:
        return str(self.type) if self.number is None else f"a Python {self.number.__name__}"


def leaf_type_of(value: Any) -> LeafType:
    """The type of a leaf."""
    if isinstance(value, Number):
        return LeafType(value.type, value.python_type)
    if isinstance(value, Traced):
        return LeafType(value.type)
    if type(value) in ELEMENTS:
        return LeafType(tensor([], ELEMENTS[type(value)]), type(value))
    array = np.asarray(value)
    return LeafType(tensor(array.shape, element_type(array.dtype)))


def same(first: Any, second: Any) -> bool:
    """Whether two values are one, known while compiling."""
    if first is second:
        return True
    if isinstance(first, Number) and isinstance(second, Number):
        return first.expr is not None and first.expr == second.expr
    if isinstance(first, Array) and isinstance(second, Array):
        return first.value is second.value
    if isinstance(first, Traced | np.ndarray) or type(first) is not type(second):
        return False
    try:
        return bool(first == second)
    except Exception:  # what a class of the user's raises: then they are not known to be one
        return False


def common(leaf_types: Sequence[LeafType], location: Location, what: str) -> LeafType:
    """The type that all are brought to; dims stay those of the first tensor. Raises SourceError."""
    numbers = [each.number for each in leaf_types if each.number is not None]
    tensors = [each for each in leaf_types if each.number is None]
    if not tensors:
        wide = float if float in numbers else int if int in numbers else bool
        return LeafType(tensor([], ELEMENTS[wide]), wide)
    rule = f"{what} requires one dtype and rank on every way"
    got = " and ".join(map(str, leaf_types))
    first = tensors[0]
    for leaf_type in tensors[1:]:
        if leaf_type.type.element != first.type.element:
            raise location.refuse(rule, got, "bring them to one dtype: x.astype(...)")
        if leaf_type.type.rank != first.type.rank:
            raise location.refuse(rule, got, "give them the same axes")
    if numbers and first.type.rank:
        raise location.refuse(rule, got, "make the number an array of that shape: np.full(...)")
    if float in numbers and first.type.element in (ELEMENTS[int], ELEMENTS[bool]):
        raise location.refuse(rule, got, "bring them to one dtype: x.astype(...)")
    return first


def value_as(r: SourceRecording, value: Any, leaf_type: LeafType) -> SSAValue:
    """A leaf as a value of the graph of that type's element type, where operators now go; zeros
    for one that is missing.
    """
    if isinstance(value, Missing):
        return r.zeros(leaf_type.type)
    if isinstance(value, Traced):
        return r.cast(value.value, leaf_type.type)
    if type(value) in ELEMENTS:
        return r.builder().constant_of(np.asarray(value), leaf_type.type.element)
    return r.cast(r.constant(np.asarray(value)).value, leaf_type.type)


def wrap(r: SourceRecording, value: SSAValue, leaf_type: LeafType, owner: str = "") -> Traced:
    """A value of the graph as what the program sees."""
    if leaf_type.number is not None:
        return Number(r, leaf_type.number, value)
    array = r.array(value)
    array.own(owner)
    return array


def is_leaf(value: Any) -> bool:
    """Whether it may be a value of the graph."""
    return is_array_like(value) or isinstance(value, Missing)


def shown(value: Any) -> str:
    """A value in an error."""
    if isinstance(value, Traced):
        return str(leaf_type_of(value))
    text = repr(cast("object", value))
    return text if len(text) < 40 else f"a {type(value).__name__}"
