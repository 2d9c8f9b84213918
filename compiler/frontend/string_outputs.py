"""Outputs of a model that are strings known while compiling: an attribute of the graph function,
which an artifact's metadata repeats. Compiled code never sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from weft.dialects.weights import Array

STRING_OUTPUTS = "string_outputs"
"""The attribute's name."""


def string_outputs(names: Sequence[str], known: Mapping[str, Array]) -> ArrayAttr[DictionaryAttr]:
    """The attribute for the outputs of these names: of those that are strings the name, the place
    among all, the shape and the elements in row-major order.
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


def described_strings(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    """The same as plain data, for metadata; empty where there is no such attribute."""
    found = attributes.get(STRING_OUTPUTS)
    return [_plain(each.data) for each in found] if isa(found, ArrayAttr[DictionaryAttr]) else []


def _plain(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    name, source = attributes["name"], attributes["place"]
    shape, elements = attributes["shape"], attributes["elements"]
    assert isa(name, StringAttr), "an output has a name"
    assert isa(source, IntAttr), "an output has a place"
    assert isa(shape, ArrayAttr[IntAttr]), "an output has a shape"
    assert isa(elements, ArrayAttr[StringAttr]), "an output has elements"
    return {
        "name": name.data,
        "place": source.data,
        "shape": [size.data for size in shape],
        "elements": [text.data for text in elements],
    }
