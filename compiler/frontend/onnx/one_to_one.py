"""ONNX nodes whose operator the graph has by its name: the `ONNX` facet maps their attributes."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto, defs
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import OnnxNode, as_flag, attribute_value
from weft.dialects.errors import UnsupportedError
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.op import AttributeValue


def import_one_to_one(op: type[GraphOp], node: OnnxNode) -> Sequence[SSAValue]:
    """Imports a node as the operator that bears its name; the `ONNX` facet maps attributes."""
    facet = op.ONNX
    assert facet is not None, "an operator that is looked up by its ONNX name has one"
    given = {each.name: attribute_value(each) for each in node.proto.attribute}
    unknown = [name for name in given if name not in facet.attributes]
    unknown = [name for name in unknown if given[name] != _schema_default(node.proto, name)]
    if unknown:
        raise UnsupportedError(f"{op.name} requires no attribute {unknown[0]}, got one")
    mapped = {
        ours: _like(default, given.get(name, default), name)
        for name, (ours, default) in facet.attributes.items()
    }
    operands = list(node.operands)
    while operands and operands[-1] is None:
        operands.pop()
    return node.b.op(op.name.removeprefix("graph."), *operands, **mapped).results


def _like(default: AttributeValue, value: AttributeValue, name: str) -> AttributeValue:
    """The value as a bool where the operator says that it is one; ONNX has integers only."""
    return as_flag(value, name) if isinstance(default, bool) else value


def _schema_default(node: NodeProto, name: str) -> AttributeValue:
    declared = defs.get_schema(node.op_type, domain=node.domain).attributes[name].default_value
    return attribute_value(declared) if declared.name else None
