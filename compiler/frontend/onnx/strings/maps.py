"""Inputs that are maps, as the rows of numbers that a DictVectorizer makes of them: a column for
each key that it lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto, TensorProto, ValueInfoProto
from xdsl.ir import Attribute

from weft.compiler.frontend.onnx.node import decode, onnx_element
from weft.dialects.errors import UnsupportedError


def keys_of(value: ValueInfoProto, nodes: Sequence[NodeProto]) -> list[str] | list[int]:
    """The keys of an input that is a map. Raises UnsupportedError where not all that read it are
    DictVectorizers with the same ones.
    """
    readers = [node for node in nodes if value.name in node.input]
    listed = [_keys(node) for node in readers if node.op_type == "DictVectorizer"]
    if len(listed) != len(readers) or not listed or any(keys != listed[0] for keys in listed):
        rule = f"input '{value.name}' requires DictVectorizers of the same keys for a map"
        raise UnsupportedError(f"{rule}, got {', '.join(node.op_type for node in readers)}")
    return listed[0]


def _keys(node: NodeProto) -> list[str] | list[int]:
    given = {attribute.name: attribute for attribute in node.attribute}
    if "string_vocabulary" in given:
        return [decode(text) for text in given["string_vocabulary"].strings]
    return list(given["int64_vocabulary"].ints) if "int64_vocabulary" in given else []


def element_of(value: ValueInfoProto) -> Attribute:
    """The element type of a map's numbers; raises UnsupportedError for strings."""
    element = value.type.map_type.value_type.tensor_type.elem_type
    if element == TensorProto.STRING:
        raise UnsupportedError(f"input '{value.name}' requires a map to numbers, got strings")
    return onnx_element(element)
