"""Strings of a call from Python: arrays of them become where each ends and the bytes of all, and
numbers become the strings that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from weft.compiler.machine.python.fast_call import Call
from weft.dialects.errors import InputError
from weft.dialects.weights import Array


class StringInput(Struct, frozen=True):
    """An input of strings: its name, and the names of the two tensors that it is."""

    name: str
    ends: str
    data: str


class StringCall(Struct, frozen=True):
    """A call on strings. `inputs` are all names of the model's inputs, in order; `known` has
    outputs that are the same in every call, `numbered` by their place the strings that numbers
    stand for.
    """

    call: Call
    inputs: Sequence[str | StringInput]
    known: Sequence[tuple[int, Array]]
    numbered: Mapping[int, Array]

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        positional = [part for pair in self._paired(arrays) for part in pair]
        results = list(self.call(*positional, **dict(self._renamed(named))))
        for place, texts in self.numbered.items():
            results[place] = texts[results[place]]
        for position, array in self.known:
            results.insert(position, array.copy())
        return tuple(results)

    def _paired(self, arrays: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        for position, array in enumerate(arrays):
            each = self.inputs[position] if position < len(self.inputs) else ""
            yield encoded(each.name, array) if isinstance(each, StringInput) else (array,)

    def _renamed(self, named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        strings = {each.name: each for each in self.inputs if isinstance(each, StringInput)}
        for name, array in named.items():
            each = strings.get(name)
            if each is None:
                yield name, array
            else:
                yield from zip((each.ends, each.data), encoded(name, array), strict=True)


def encoded(name: str, array: Any) -> tuple[Array, Array]:
    """Where each string ends, in the array's shape, and the bytes in UTF-8. Takes arrays of
    objects, of fixed widths and of NumPy's StringDType. Raises InputError for elements that are no
    strings.
    """
    array = np.asarray(array)
    try:
        if array.dtype.kind not in "OUT":
            raise TypeError(array.dtype)
        parts = [str.encode(text) for text in array.reshape(-1).tolist()]
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"input '{name}' requires strings, got {error}") from error
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64).reshape(array.shape)
    return ends, np.frombuffer(b"".join(parts), np.uint8)


def string_call(
    call: Call, inputs: Sequence[str], metadata: Mapping[str, Any]
) -> StringCall | None:
    """The call of a model that has strings, by the names of its tensors; None of any other."""
    pairs = {each["ends"]: each["name"] for each in metadata.get("string_inputs", ())}
    behind = {place + 1 for place in pairs}
    listed = [
        StringInput(pairs[place], name, inputs[place + 1]) if place in pairs else name
        for place, name in enumerate(inputs)
        if place not in behind
    ]
    known = [(place, array) for place, _, array in known_strings(metadata)]
    numbered = {
        each["output"]: np.array(each["elements"], np.object_)
        for each in metadata.get("numbered_outputs", ())
    }
    return StringCall(call, listed, known, numbered) if pairs or known or numbered else None


def known_strings(metadata: Mapping[str, Any]) -> list[tuple[int, str, Array]]:
    """The outputs that are strings: the place among all, the name, and the array."""
    return [
        (each["place"], each["name"], np.array(each["elements"], np.object_).reshape(each["shape"]))
        for each in metadata.get("strings", ())
    ]
