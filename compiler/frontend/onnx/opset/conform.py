"""A node against its operator's schema in ONNX: arity, attributes and their types."""

from collections.abc import Callable
from functools import cache

from onnx import AttributeProto, NodeProto, TensorProto, defs

from weft.dialects.errors import ModelError

MAX_VARIADIC = 2**31 - 1

ATTRIBUTE_TYPES: dict[defs.OpSchema.AttrType, int] = {
    getattr(defs.OpSchema.AttrType, name): number
    for name, number in AttributeProto.AttributeType.items()
    if name != "UNDEFINED"
}


def check_node(node: NodeProto, schema: defs.OpSchema, who: str) -> None:
    """Raise ModelError unless the node has the inputs, outputs and attributes that its operator's
    version wants.
    """
    _check_count(len(node.input), schema.min_input, schema.max_input, f"{who} requires", "inputs")
    _check_count(
        len(node.output), schema.min_output, schema.max_output, f"{who} requires", "outputs"
    )
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if formal.option == defs.OpSchema.FormalParameterOption.Single and not name:
            raise ModelError(f"{who} requires its input '{formal.name}', got an empty name")
    present = {attribute.name for attribute in node.attribute}
    for name, declared in schema.attributes.items():
        if declared.required and name not in present:
            raise ModelError(f"{who} requires the attribute '{name}', got none")
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None:
            rule = f"attributes of {schema.name} at opset {schema.since_version}"
            raise ModelError(f"{who} requires {rule}, got '{attribute.name}'")
        if attribute.type != ATTRIBUTE_TYPES[declared.type]:
            wanted, got = ATTRIBUTE_TYPES[declared.type], attribute.type
            rule = f"attribute '{attribute.name}' of type {_type_name(wanted)}"
            raise ModelError(f"{who} requires {rule}, got {_type_name(got)}")


@cache
def schema_of(op_type: str, version: int, domain: str = "") -> defs.OpSchema:
    """The schema of an operator at a version of its domain."""
    return defs.get_schema(op_type, version, domain)


@cache
def _allowed(
    op_type: str, version: int, domain: str
) -> tuple[tuple[str, frozenset[str], bool], ...]:
    """Of each formal input of an operator its type variable, the types that it may have, and
    whether the inputs of a variadic one have the same.
    """
    schema = schema_of(op_type, version, domain)
    return tuple(
        (formal.type_str, frozenset(formal.types), formal.is_homogeneous)
        for formal in schema.inputs
    )


def check_types(
    node: NodeProto, version: int, element: Callable[[str], int | None], who: str
) -> None:
    """Raise ModelError for inputs of element types that the operator's version does not take, or
    of two types where it wants one.
    """
    allowed = _allowed(node.op_type, version, node.domain)
    bound: dict[str, int] = {}
    for position, name in enumerate(node.input if allowed else ()):
        variable, types, same = allowed[min(position, len(allowed) - 1)]
        element_type = element(name) if name else None
        if not element_type:
            continue
        shown = f"tensor({TensorProto.DataType.Name(element_type).lower()})"
        if shown not in types:
            rule = f"an input '{name}' of a type that opset {version} has for it"
            raise ModelError(f"{who} requires {rule}, got {shown}")
        if same and bound.setdefault(variable, element_type) != element_type:
            other = TensorProto.DataType.Name(bound[variable]).lower()
            raise ModelError(f"{who} requires inputs of one type, got tensor({other}) and {shown}")


def _type_name(number: int) -> str:
    return AttributeProto.AttributeType.Name(number).lower()


def _check_count(count: int, least: int, most: int, who: str, what: str) -> None:
    if not least <= count <= most:
        bounds = f"at least {least}" if most >= MAX_VARIADIC else f"{least} to {most}"
        raise ModelError(f"{who} {bounds} {what}, got {count}")
