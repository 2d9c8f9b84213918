"""What upgrade functions write nodes with: fresh names, constants, and what is known of values'
types.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from weft.compiler.frontend.onnx.opset.value_types import ValueTypes

Attribute = int | float | str | Sequence[int] | Sequence[float] | GraphProto


class FreshNames:
    """Value names that occur nowhere else in the model."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """`stem` itself if it is free, else `stem` with the lowest free number."""
        count, name = self._counts.get(stem, 0), stem
        while name in self._taken:
            count += 1
            name = f"{stem}.{count}"
        self._counts[stem] = count
        self._taken.add(name)
        return name


class Builder:
    """Writes the nodes that replace one node, named after it: names are source locations."""

    def __init__(
        self,
        origin: NodeProto,
        names: FreshNames,
        types: ValueTypes,
        target: int,
        used: frozenset[str],
    ) -> None:
        self.origin_name = origin.name
        self.origin_type = origin.op_type
        self.stem = next((name for name in origin.output if name), origin.name)
        self.names = names
        self.types = types
        self.target = target
        self.used = used
        self.nodes: list[NodeProto] = []

    def node_name(self, op_type: str) -> str:
        """The origin's name for a node of its type, that and the type for the nodes around it."""
        if not self.origin_name or op_type == self.origin_type:
            return self.origin_name
        return self.names.fresh(f"{self.origin_name}/{op_type}")

    def fresh(self, suffix: str) -> str:
        return self.names.fresh(f"{self.stem}/{suffix}")

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str | None = None,
        **attributes: Attribute,
    ) -> str:
        """Append a node with one output and return that output's name."""
        result = self.fresh(op_type.lower()) if output is None else output
        node = helper.make_node(op_type, list(inputs), [result], self.node_name(op_type))
        for key, value in attributes.items():
            set_attribute(node, key, value)
        self.nodes.append(node)
        return result

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike, suffix: str) -> str:
        """Append a Constant node for a small array and return its output's name."""
        output = self.fresh(suffix)
        node = helper.make_node("Constant", [], [output], self.node_name("Constant"))
        attribute = node.attribute.add(name="value", type=AttributeProto.TENSOR)
        attribute.t.CopyFrom(numpy_helper.from_array(np.asarray(value).astype(dtype)))
        self.nodes.append(node)
        return output

    def keep(self, node: NodeProto) -> list[NodeProto]:
        """The nodes written so far, then the given one."""
        return [*self.nodes, node]


def set_attribute(node: NodeProto, name: str, value: Attribute) -> None:
    """Give an attribute a value, in place of one that it has."""
    take_attribute(node, name)
    node.attribute.append(helper.make_attribute(name, value))


def find_attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((each for each in node.attribute if each.name == name), None)


def take_attribute(node: NodeProto, name: str) -> AttributeProto | None:
    """Remove an attribute from a node and return it, None if the node has none of that name."""
    for index, attribute in enumerate(node.attribute):
        if attribute.name == name:
            taken = AttributeProto()
            taken.CopyFrom(attribute)
            del node.attribute[index]
            return taken
    return None


def take_ints(node: NodeProto, name: str) -> list[int] | None:
    attribute = take_attribute(node, name)
    return None if attribute is None else list(attribute.ints)


def take_int(node: NodeProto, name: str, default: int) -> int:
    attribute = take_attribute(node, name)
    return default if attribute is None else attribute.i


def set_input(node: NodeProto, index: int, name: str) -> None:
    """Set an input, with empty names before it where the node has fewer."""
    while len(node.input) <= index:
        node.input.append("")
    node.input[index] = name
