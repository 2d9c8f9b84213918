"""Inputs and outputs of a model that are strings: attributes of the graph function, which an
artifact's metadata repeats. Compiled code sees no strings.

Outputs that are known while compiling stand there alone, strings that the model has are numbers of
them. An input, or an output of other strings, is two tensors: where each one ends, and the bytes.
An input that is a map is rows of numbers, with a column for each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from weft.dialects.weights import Array

STRING_OUTPUTS, MADE_STRINGS, NUMBERED_OUTPUTS, STRING_INPUTS, MAP_INPUTS = (
    "string_outputs",
    "made_strings",
    "numbered_outputs",
    "string_inputs",
    "map_inputs",
)
"""The attributes' names."""

STRING_PARTS = (".ends", ".bytes")
"""What the names of the two tensors end in that strings are."""


def numbered_outputs(
    names: Sequence[str], texts: Sequence[str], positions: Sequence[int]
) -> Attribute:
    """The attribute for outputs, at these positions among those of a call, whose elements are
    numbers of these strings.
    """
    elements = ArrayAttr([StringAttr(text) for text in texts])
    described = (
        {"name": StringAttr(name), "output": IntAttr(position), "elements": elements}
        for name, position in zip(names, positions, strict=True)
    )
    return ArrayAttr([DictionaryAttr(each) for each in described])


def string_parts(positions: Mapping[str, int]) -> Attribute:
    """The attribute for inputs, or outputs, of strings: by name the position of the first of its
    two tensors.
    """
    described = (
        {"name": StringAttr(name), "ends": IntAttr(position), "bytes": IntAttr(position + 1)}
        for name, position in positions.items()
    )
    return ArrayAttr([DictionaryAttr(each) for each in described])


def map_inputs(found: Mapping[str, tuple[int, Sequence[str | int]]]) -> Attribute:
    """The attribute for inputs that are maps: by name the position, and the keys of the columns."""
    described = (
        {
            "name": StringAttr(name),
            "input": IntAttr(position),
            "keys": ArrayAttr([IntAttr(k) if isinstance(k, int) else StringAttr(k) for k in keys]),
        }
        for name, (position, keys) in found.items()
    )
    return ArrayAttr([DictionaryAttr(each) for each in described])


def string_outputs(names: Sequence[str], known: Mapping[str, Array]) -> ArrayAttr[DictionaryAttr]:
    """The attribute for the outputs of these names: of those that are strings the name, the
    position among all, the shape and the elements in row-major order.
    """
    return ArrayAttr(
        DictionaryAttr(
            {
                "name": StringAttr(name),
                "place": IntAttr(position),
                "shape": ArrayAttr([IntAttr(size) for size in known[name].shape]),
                "elements": ArrayAttr([StringAttr(str(text)) for text in known[name].flat]),
            }
        )
        for position, name in enumerate(names)
        if name in known
    )


def described_strings(attributes: Mapping[str, Attribute]) -> dict[str, list[dict[str, Any]]]:
    """The same as plain data, for metadata: by key what there is."""
    keys = {
        "strings": STRING_OUTPUTS,
        "made_strings": MADE_STRINGS,
        "numbered_outputs": NUMBERED_OUTPUTS,
        "string_inputs": STRING_INPUTS,
        "map_inputs": MAP_INPUTS,
    }
    found = {key: attributes.get(name) for key, name in keys.items()}
    return {
        key: [{part: _plain(value) for part, value in each.data.items()} for each in listed]
        for key, listed in found.items()
        if isa(listed, ArrayAttr[DictionaryAttr])
    }


def _plain(attribute: Attribute) -> Any:
    if isa(attribute, ArrayAttr[Attribute]):
        return [_plain(each) for each in attribute]
    if isinstance(attribute, StringAttr):
        return attribute.data
    assert isa(attribute, IntAttr), "strings are described by texts and positions"
    return attribute.data
