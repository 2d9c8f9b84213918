"""What a function is compiled for: the types of its arguments, their names, and the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex, separated
from weft.array.interleaved import part_dtype
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import FunctionChanges, Options
from weft.compiler.machine.bindings.names import c_identifier
from weft.dialects.errors import OptionError
from weft.eager.tensor import Tensor, array_of
from weft.trees import flatten

if TYPE_CHECKING:
    from weft.dialects.graph.core.types import TensorType
    from weft.tracing import traced
    from weft.tracing.traced import Recording
else:
    traced = deferred("weft.tracing.traced")

Dim = int | str


class Spec(Struct, frozen=True):
    """An input's dtype and dims: numbers, or names of sizes that each call brings along."""

    dtype: str
    shape: tuple[Dim, ...] = ()

    @property
    def is_complex(self) -> bool:
        """Whether it is of complex numbers, which are pairs of reals along a last axis."""
        return np.dtype(self.dtype).kind == "c"

    @property
    def type(self) -> TensorType:
        """The tensor type. Raises OptionError for names that the text of a graph does not have."""
        if self.is_complex:
            return traced.declared(part_dtype(np.dtype(self.dtype)).name, (*self.shape, 2))
        return traced.declared(self.dtype, self.shape)

    def argument(self, recording: Recording, name: str) -> Any:
        """A further input of a graph, as the program sees it."""
        found = recording.argument(self.type, name)
        return separated(found) if self.is_complex else found


def spec_of(example: Any) -> Spec:
    """The type of an example: an array, a tensor, a number or a Spec."""
    if isinstance(example, Spec):
        return example
    array: Any = array_of(example) if isinstance(example, Tensor) else example
    array = array if isinstance(array, Complex) else np.asarray(array)
    return Spec(array.dtype.name, array.shape)


def described_examples(
    function: Callable[..., Any], examples: Sequence[Any], *, whole: bool = False
) -> str:
    """The trees of examples, by the names of parameters, and the types of their leaves; complex
    arrays are `whole` as in `record`.
    """
    named = dict(zip(names_of(function, len(examples)), examples, strict=True))
    leaves, structure = flatten(named, whole=whole)
    return f"{structure} {[(name, spec_of(leaf)) for name, leaf in leaves]}"


def options_for(
    function: Callable[..., Any], name: str, options: Options | None, changes: FunctionChanges
) -> Options:
    """The options, with changes, for a function: its name is the prefix where they have none, or
    the name that is given where it has none itself. Raises OptionError for what only models have.
    """
    own = c_identifier(getattr(function, "__name__", name).strip("<>"))
    chosen = (options or Options()).changed(**changes).named(own)
    if chosen.gradients:
        got = ", ".join(chosen.gradients)
        raise OptionError(f"gradients require a model, or weft.grad for a function, got {got}")
    if chosen.buckets.sizes or chosen.values:
        rule = "buckets and values require a model, or weft.compile of a function"
        raise OptionError(f"{rule}, got {chosen.prefix}")
    return chosen


def names_of(function: Callable[..., Any], count: int) -> list[str]:
    """The parameters' names, where the function has so many by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    return names[:count] if len(names) >= count else [f"x{n}" for n in range(count)]
