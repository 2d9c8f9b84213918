"""What ONNX values are while importing: tensors of the graph, and sequences and optionals of them,
which are resolved here, so that the graph sees tensors alone.

A sequence is a tuple of values, whose number is known everywhere; an optional is what it holds, or
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct
from xdsl.ir import SSAValue

from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.weights import Array


class SequenceValue(Struct, frozen=True):
    """The values of a sequence."""

    items: tuple[SSAValue, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.items)}"


class Spans(Struct, frozen=True):
    """Strings, as where each starts and ends (i64, of the tensor's dims) in bytes (a vector)."""

    starts: SSAValue
    ends: SSAValue
    data: SSAValue

    def moved(self, move: Callable[[SSAValue], SSAValue], data: SSAValue | None = None) -> Spans:
        """With both ends of each string moved, in other bytes where these are given."""
        return Spans(move(self.starts), move(self.ends), self.data if data is None else data)


class Lookup(Protocol):
    """The strings of a model."""

    @property
    def texts(self) -> Sequence[str]:
        """All of them, sorted."""
        ...

    def numbers(self, texts: Array | Sequence[str]) -> Array:
        """The numbers of strings that the model has."""
        ...

    def find(
        self, b: GraphBuilder, constant: Callable[[Array], SSAValue], spans: Spans
    ) -> SSAValue:
        """The numbers of strings that may be others."""
        ...


class Texts(Protocol):
    """Strings of a model as numbers; by name the spans of those that it may not have."""

    spans: dict[str, Spans]

    @property
    def vocabulary(self) -> Lookup:
        """The model's own strings."""
        ...

    def is_known(self, name: str) -> bool:
        """Whether a value is strings that are known while compiling."""
        ...

    def are_numbers(self, name: str) -> bool:
        """Whether a value is strings, as numbers."""
        ...

    def note_numbers(self, name: str) -> None:
        """Says that a value is numbers of strings that the model has."""
        ...


class Nothing(Struct, frozen=True):
    """An optional that holds nothing."""

    def __str__(self) -> str:
        return "an empty optional"


Compound = SequenceValue | Nothing
Value = SSAValue | Compound
Results = Sequence[Value | None]
"""The values of a node's outputs; None for all where something inside could not be imported."""


def tensor_of(value: Value) -> SSAValue:
    """The value itself; raises UnsupportedError for sequences and empty optionals."""
    if not isinstance(value, SSAValue):
        raise UnsupportedError(f"requires a tensor, got {value}")
    return value


def tensors_of(values: Iterable[Value | None]) -> list[SSAValue | None]:
    """The values themselves, and None for such as are absent. Raises as `tensor_of`."""
    return [None if value is None else tensor_of(value) for value in values]


def flattened(values: Iterable[Value]) -> list[SSAValue]:
    """The tensors of which the values consist."""
    return [tensor for value in values for tensor in _parts(value)]


def _parts(value: Value) -> Sequence[SSAValue]:
    if isinstance(value, SequenceValue):
        return value.items
    return [value] if isinstance(value, SSAValue) else []


def forms(values: Iterable[Value]) -> list[str]:
    """What must agree for values to take each other's place: which are sequences of how many."""
    return ["a tensor" if isinstance(value, SSAValue) else str(value) for value in values]


def rebuilt(tensors: Sequence[SSAValue], like: Iterable[Value]) -> list[Value]:
    """The inverse of `flattened`: values of these forms out of their tensors."""
    rest = iter(tensors)
    return [_rebuild(value, rest) for value in like]


def _rebuild(value: Value, rest: Iterator[SSAValue]) -> Value:
    if isinstance(value, SequenceValue):
        return SequenceValue(tuple(next(rest) for _ in value.items))
    return next(rest) if isinstance(value, SSAValue) else value
