"""What is known of a compiled function beside its code: what it captures, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from msgspec import Struct

from weft.array.complex_numbers import Complex
from weft.array.interleaved import from_interleaved, interleaved
from weft.array.operators import users_line
from weft.dialects.errors import InputError, WeftError
from weft.dialects.weights import Array
from weft.eager.tape import is_differentiated
from weft.eager.tensor import Tensor, array_of
from weft.trees import LEAF, Structure, unflatten

if TYPE_CHECKING:
    from weft.nn.module import Module

Read = Callable[[], Any]

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class Guard(Struct, frozen=True):
    """Something read while compiling, and how to read it again."""

    name: str
    read: Read
    value: Any

    def broken(self) -> str | None:
        """What is different now; None where nothing is."""
        try:
            now = self.read()
        except (AttributeError, KeyError, ValueError):
            return f"{self.name} is gone"
        if now is self.value or _same(now, self.value):
            return None
        return f"{self.name} is {now!r}, was {self.value!r}"


def _same(now: Any, before: Any) -> bool:
    if type(now) is not type(before):
        return False
    if isinstance(before, tuple):
        pairs = cast("tuple[Any, ...]", now), cast("tuple[Any, ...]", before)
        return len(pairs[0]) == len(pairs[1]) and all(map(_alike, *pairs))
    return isinstance(before, (*_PLAIN, MethodType)) and bool(now == before)


def _alike(now: Any, before: Any) -> bool:
    return now is before or _same(now, before)


def elements_of(value: Any, name: str) -> Array:
    """The elements of an array that it captures. Raises WeftError for a tensor that is being
    differentiated, since derivatives go through arguments alone.
    """
    if not isinstance(value, Tensor):
        return np.asarray(value)
    if is_differentiated(value):
        rule = "a compiled function requires tensors that are differentiated as its arguments"
        raise WeftError(f"{users_line()}: {rule}, got {name} of its surroundings")
    return array_of(value)


def is_held(value: Any) -> bool:
    """Whether it is an array or a tensor with values."""
    return isinstance(value, np.ndarray | Tensor) or (
        isinstance(value, Complex) and value.has_values
    )


class Captured(Struct, frozen=True):
    """An array that it captures, which is an input of the graph."""

    name: str
    read: Read
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def fetch(self) -> Array | None:
        """The array now; None where it has another dtype or shape."""
        array = elements_of(self.read(), self.name)
        if array.dtype != self.dtype or array.shape != self.shape:
            return None
        return interleaved(array) if array.dtype.kind == "c" else array


class Static(Struct, frozen=True):
    """A leaf of what a function returns that is known while compiling."""

    value: Any


class Result(Struct, frozen=True):
    """A leaf that is an output: its number, and the class of a number of Python, or what makes
    NumPy's complex numbers of it.
    """

    number: int
    python_type: Callable[[Any], Any] | None


class Kept(Struct, frozen=True):
    """A tensor of a module's state that an output of the program is."""

    holder: Module
    name: str
    number: int

    def keep(self, outputs: Sequence[Any]) -> None:
        """Gives the module its new state."""
        setattr(self.holder, self.name, Tensor.of(np.asarray(outputs[self.number])))


class Written(Struct, frozen=True):
    """An argument that a program changes: the number of the input and of the output that holds what
    it is then, and where the first change stands.
    """

    input: int
    output: int
    line: str


class Program(Struct, frozen=True):
    """What is to be known of a function to call what was compiled of it; `keys` tell
    the arrays that it captures apart, as in a survey of the function.
    """

    captured: tuple[Captured, ...]
    guards: tuple[Guard, ...]
    form: Structure
    leaves: tuple[Static | Result, ...]
    notes: tuple[str, ...]
    states: tuple[Kept, ...]
    keys: tuple[tuple[object, ...], ...]
    written: tuple[Written, ...]

    def require_writable(self, given: Sequence[Any], captured: Sequence[Any]) -> None:
        """Raises InputError where an argument that it changes is no array of NumPy, or shares
        memory with something else that it reads.
        """
        for each in self.written:
            array = given[each.input]
            others = [*given[: each.input], *given[each.input + 1 :], *captured]
            rule = f"{each.line}: a change of an argument requires an array of NumPy"
            if type(array) is not np.ndarray or not array.flags.writeable:
                shown = (
                    "one that is read only" if isinstance(array, np.ndarray) else "another value"
                )
                raise InputError(f"{rule} that may be changed, got {shown}")
            if any(isinstance(o, np.ndarray) and np.may_share_memory(array, o) for o in others):
                raise InputError(f"{rule} of memory of its own, got one that shares it")

    def write(self, given: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Gives arguments what the program made of them."""
        for each in self.written:
            given[each.input][...] = outputs[each.output]

    def keep(self, outputs: Sequence[Any]) -> None:
        """Gives modules the states that a call has found for them."""
        for state in self.states:
            state.keep(outputs)

    def rebuilt(self, outputs: Sequence[Any]) -> Any:
        """What the function returns, from the outputs of the graph."""
        values = [
            leaf.value
            if isinstance(leaf, Static)
            else _as_python(outputs[leaf.number], leaf.python_type)
            for leaf in self.leaves
        ]
        return unflatten(self.form, values)

    def rebuilder(self, wrap: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Any]:
        """`rebuilt`, made once for what wraps arrays."""
        form, leaves = self.form, self.leaves
        kept = {n: wrap(leaf.value) for n, leaf in enumerate(leaves) if isinstance(leaf, Static)}
        results = [leaf for leaf in leaves if isinstance(leaf, Result)]
        converters = [
            (lambda output: wrap(from_interleaved(output)))
            if leaf.python_type is from_interleaved
            else leaf.python_type or wrap
            for leaf in results
        ]
        if form == LEAF and not kept:
            (only,) = converters
            return lambda outputs: only(outputs[0])

        def rebuilt(outputs: Sequence[Any]) -> Any:
            values = [each(output) for each, output in zip(converters, outputs, strict=False)]
            for position, value in kept.items():
                values.insert(position, value)
            return unflatten(form, values)

        return rebuilt


def _as_python(output: Any, python_type: Callable[[Any], Any] | None) -> Any:
    if python_type is from_interleaved:
        output = from_interleaved(output)
    elif python_type is not None:
        return python_type(output)
    return output if output.ndim else output[()]
