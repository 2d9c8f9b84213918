"""Which ONNX operators are defined by others."""

from __future__ import annotations

from typing import Protocol, cast

from onnx import NodeProto, defs


class _FunctionSchema(Protocol):
    """What onnx's stubs leave out of `defs.OpSchema`."""

    has_function: bool
    has_context_dependent_function: bool


def has_body(node: NodeProto) -> bool:
    """Whether ONNX defines the operator by other operators, for some types at least."""
    if not defs.has(node.op_type, node.domain):
        return False
    schema = cast(_FunctionSchema, defs.get_schema(node.op_type, domain=node.domain))
    return schema.has_function or schema.has_context_dependent_function
