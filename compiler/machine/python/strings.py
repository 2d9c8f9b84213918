"""Strings of a call from Python: arrays of them become where each ends and the bytes of all, and
numbers become the strings that they stand for. Maps become rows of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.python.fast_call import Call
from weft.dialects.errors import InputError
from weft.dialects.weights import Array


class StringInput(Struct, frozen=True):
    """An input of strings: its name, and the names of the two tensors that it is."""

    name: str
    ends: str
    data: str


class MapInput(Struct, frozen=True):
    """An input of maps: its name, the keys of its columns, and their dtype."""

    name: str
    keys: Sequence[str | int]
    dtype: str


class StringCall(Struct, frozen=True):
    """A call on strings and maps. `inputs` are all names of the model's inputs, in order; `known`
    has outputs that are the same in every call, `numbered` by their place the strings that numbers
    stand for, `made` the places of ends that have bytes behind them, `names` those of inputs.
    """

    call: Call
    inputs: Sequence[str | StringInput | MapInput]
    known: Sequence[tuple[int, Array]]
    numbered: Mapping[int, Array]
    made: Sequence[int]
    names: Mapping[str, None]

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        # The fast call takes arrays by position.
        if named.keys() == self.names.keys() and not arrays:
            arrays, named = tuple(named[name] for name in self.names), {}
        positional = [part for pair in self._paired(arrays) for part in pair]
        results = list(self.call(*positional, **dict(self._renamed(named))))
        for place, texts in self.numbered.items():
            results[place] = texts[results[place]]
        for place in reversed(self.made):
            results[place] = decoded(results[place], results.pop(place + 1))
        for position, array in self.known:
            results.insert(position, array.copy())
        return tuple(results)

    def _paired(self, arrays: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        for position, array in enumerate(arrays):
            each = self.inputs[position] if position < len(self.inputs) else ""
            if isinstance(each, StringInput):
                yield encoded(each.name, array)
            else:
                yield (rows_of(each, array) if isinstance(each, MapInput) else array,)

    def _renamed(self, named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        known = {each.name: each for each in self.inputs if not isinstance(each, str)}
        for name, array in named.items():
            each = known.get(name)
            if isinstance(each, StringInput):
                yield from zip((each.ends, each.data), encoded(name, array), strict=True)
            else:
                yield name, rows_of(each, array) if each else array


def encoded(name: str, array: Any) -> tuple[Array, Array]:
    """Where each string ends, in the array's shape, and the bytes in UTF-8. Takes arrays of
    objects, of fixed widths and of NumPy's StringDType. Raises InputError for elements that are no
    strings.
    """
    array = np.asarray(array)
    try:
        if array.dtype.kind not in "OUT":
            raise TypeError(array.dtype)
        texts: list[str] = array.reshape(-1).tolist()
        joined = "".join(texts)
        data = joined.encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"input '{name}' requires strings, got {error}") from error
    # Of ASCII, characters are bytes.
    parts = texts if joined.isascii() else map(str.encode, texts)
    lengths = np.fromiter(map(len, parts), np.int64, len(texts))
    return np.cumsum(lengths).reshape(array.shape), np.frombuffer(data, np.uint8)


def decoded(ends: Array, data: Array) -> Array:
    """The inverse of `encoded`; bytes that are no UTF-8 become U+FFFD."""
    stops, joined = ends.reshape(-1).tolist(), data.tobytes()
    spans = zip([0, *stops], stops, strict=False)
    if joined.isascii():  # Of ASCII, characters are bytes.
        characters = joined.decode()
        texts = [characters[start:stop] for start, stop in spans]
    else:
        texts = [joined[start:stop].decode(errors="replace") for start, stop in spans]
    array = np.empty(len(texts), np.object_)
    array[:] = texts
    return array.reshape(ends.shape)


def rows_of(each: MapInput, given: Any) -> Any:
    """A map, or a sequence of maps, as rows of numbers: 0 for a key that is absent, nothing for one
    that the model does not have. Anything else is left as it is.
    """
    if not isinstance(given, (Mapping, list, tuple)):
        return given
    maps = cast(Sequence[Any], [given] if isinstance(given, Mapping) else given)
    if not all(isinstance(row, Mapping) for row in maps):
        return maps
    numbers = [[row.get(key, 0) for key in each.keys] for row in maps]
    return np.array(numbers, each.dtype).reshape(len(maps), len(each.keys))


def string_call(
    call: Call, inputs: Sequence[TensorSpec], metadata: Mapping[str, Any]
) -> StringCall | None:
    """The call of a model that has strings or maps; None of any other."""
    pairs = {each["ends"]: each["name"] for each in metadata.get("string_inputs", ())}
    maps = {each["input"]: each["keys"] for each in metadata.get("map_inputs", ())}
    behind = {place + 1 for place in pairs}
    listed: list[str | StringInput | MapInput] = []
    for place, spec in enumerate(inputs):
        if place in pairs:
            listed.append(StringInput(pairs[place], spec.name, inputs[place + 1].name))
        elif place in maps:
            listed.append(MapInput(spec.name, maps[place], spec.dtype))
        elif place not in behind:
            listed.append(spec.name)
    known = [(place, array) for place, _, array in known_strings(metadata)]
    numbered = {
        each["output"]: np.array(each["elements"], np.object_)
        for each in metadata.get("numbered_outputs", ())
    }
    made = [each["ends"] for each in metadata.get("made_strings", ())]
    has_own = bool(pairs or maps or known or numbered or made)
    names = dict.fromkeys(each if isinstance(each, str) else each.name for each in listed)
    return StringCall(call, listed, known, numbered, made, names) if has_own else None


def output_names(outputs: Sequence[TensorSpec], metadata: Mapping[str, Any]) -> list[str]:
    """The names of what a call of Python's gives."""
    names = [spec.name for spec in outputs]
    for each in reversed(metadata.get("made_strings", ())):
        names[each["ends"] : each["bytes"] + 1] = [each["name"]]
    for position, name, _ in known_strings(metadata):
        names.insert(position, name)
    return names


def known_strings(metadata: Mapping[str, Any]) -> list[tuple[int, str, Array]]:
    """The outputs that are strings: the place among all, the name, and the array."""
    return [
        (each["place"], each["name"], np.array(each["elements"], np.object_).reshape(each["shape"]))
        for each in metadata.get("strings", ())
    ]
