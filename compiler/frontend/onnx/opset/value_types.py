"""What a normaliser can know of values without shape inference: element types, and ranks that are
declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, defs

from weft.compiler.frontend.onnx.tensor import DTYPES, Array, is_external, tensor_array

ELEMENT_TYPES: dict[str, int] = {
    f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items() if number
}

# Attributes that state the element type of an op's outputs.
TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})
VALUE_ATTRIBUTES: dict[str, int] = {
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}


class ValueTypes:
    """Element types and ranks by value name in one graph; unknown names are looked up in the outer
    graph.
    """

    def __init__(self, outer: ValueTypes | None = None) -> None:
        self.outer = outer
        self.elements: dict[str, int] = {}
        self.ranks: dict[str, int] = {}
        self.constants: dict[str, Callable[[], Array]] = {}

    def constant(self, name: str) -> Array | None:
        """The elements of a constant, None if the value is not one."""
        if name in self.constants:
            return self.constants[name]()
        return None if self.outer is None else self.outer.constant(name)

    def element(self, name: str) -> int | None:
        """The TensorProto data type of a value, None if unknown."""
        if name in self.elements:
            return self.elements[name]
        return None if self.outer is None else self.outer.element(name)

    def rank(self, name: str) -> int | None:
        if name in self.ranks:
            return self.ranks[name]
        return None if self.outer is None else self.outer.rank(name)

    def declare_graph(self, graph: GraphProto) -> None:
        """Take in what a graph declares of its values."""
        self.declare_values([*graph.value_info, *graph.output, *graph.input])
        for tensor in graph.initializer:
            self.declare_tensor(tensor.name, tensor)

    def declare_values(self, values: Iterable[ValueInfoProto]) -> None:
        for value in values:
            if value.type.WhichOneof("value") == "tensor_type":
                tensor_type = value.type.tensor_type
                self.elements[value.name] = tensor_type.elem_type
                if tensor_type.HasField("shape"):
                    self.ranks[value.name] = len(tensor_type.shape.dim)

    def declare_tensor(
        self, name: str, tensor: TensorProto, load: Callable[[], Array] | None = None
    ) -> None:
        self.elements[name] = tensor.data_type
        self.ranks[name] = len(tensor.dims)
        if not is_external(tensor):
            self.constants[name] = partial(tensor_array, tensor)
        if load is not None:
            self.constants[name] = load

    def infer_elements(self, node: NodeProto, schema: defs.OpSchema) -> None:
        """Derive the outputs' element types from the schema's type variables and the node's
        attributes.
        """
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                self.declare_tensor(node.output[0], attribute.t)
        stated = _stated_element(node)
        variables = self._bind(node, schema)
        for index, name in enumerate(node.output):
            if not name or name in self.elements or not schema.outputs:
                continue
            formal = schema.outputs[min(index, len(schema.outputs) - 1)]
            if not _yields_tensors(schema, formal):
                continue
            variable = formal.type_str
            element = variables.get(variable, ELEMENT_TYPES.get(variable))
            element = stated if stated is not None and index == 0 else element
            if element is not None:
                self.elements[name] = element

    def _bind(self, node: NodeProto, schema: defs.OpSchema) -> Mapping[str, int]:
        """What each type variable of the schema stands for at this node, as far as inputs tell."""
        variables: dict[str, int] = {}
        if not schema.inputs:
            return variables
        for index, name in enumerate(node.input):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            element = self.element(name)
            if element is not None and formal.is_homogeneous:
                variables.setdefault(formal.type_str, element)
        return variables


def _yields_tensors(schema: defs.OpSchema, formal: defs.OpSchema.FormalParameter) -> bool:
    """Whether a result may be a tensor: an attribute may say what elements of a sequence are."""
    return not schema.name.startswith("Sequence") or any(t[0] == "t" for t in formal.types)


def _stated_element(node: NodeProto) -> int | None:
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.i in DTYPES:
            return attribute.i
        if attribute.name == "value" and attribute.HasField("t"):
            return attribute.t.data_type
        if attribute.name in VALUE_ATTRIBUTES:
            return VALUE_ATTRIBUTES[attribute.name]
    return TensorProto.FLOAT if node.op_type == "ConstantOfShape" else None
