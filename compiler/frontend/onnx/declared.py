"""What an ONNX file declares of values, against what its nodes produce.

Another element type, or a sequence for a tensor, is refused. Another rank, and other static dims of
the model's outputs, are a warning: exporters leave behind what was true of an earlier graph, and
what the nodes give counts. A name of a dim says nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, defs
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import onnx_number
from weft.compiler.frontend.onnx.tensor import fits_declared
from weft.compiler.frontend.onnx.values import Value
from weft.dialects.errors import ModelError
from weft.dialects.graph.core.types import TensorType, type_of
from weft.dialects.weights import Array

Lookup = Callable[[str], Value | None]
"""What is known of a value by its name: None for one that was not imported."""


def check_declared(
    values: Iterable[ValueInfoProto],
    role: str,
    lookup: Lookup,
    warn: Callable[[str], None],
    nodes: Iterable[NodeProto] = (),
    *,
    dims: bool = False,
) -> None:
    """Raises ModelError for the first of the values whose declared kind or element type contradicts
    what its node, which may be one of `nodes`, gives, and warns of other ranks; `dims` compares
    static dims too.
    """
    for declared in values:
        given = lookup(declared.name)
        if given is None:
            continue
        optional = declared.type.WhichOneof("value") == "optional_type"
        rule = f"{role} '{declared.name}' requires the type that its node gives"
        got = f"{_shown(declared.type)} declared and {_shown_value(given)} given"
        if not _fits(declared.type, given) or (
            optional and not _may_be_optional(declared.name, nodes)
        ):
            raise ModelError(f"{rule}, got {got}")
        if isinstance(given, SSAValue) and not _has_dims(declared.type, type_of(given), dims):
            warn(f"{rule}, got {got}, which counts")


def check_strings(
    declared: Iterable[ValueInfoProto], strings_of: Callable[[str], Array | None]
) -> None:
    """Raises ModelError for outputs of strings that are declared as something else, or of other
    dims, and others that are declared as strings.
    """
    for value in declared:
        array, declared_type = strings_of(value.name), value.type
        if array is not None and declared_type.WhichOneof("value") == "optional_type":
            declared_type = declared_type.optional_type.elem_type
        if _fits_strings(declared_type, array):
            continue
        given = "strings not" if array is None else f"string {list(array.shape)}"
        got = f"{_shown(value.type)} declared and {given} given"
        raise ModelError(f"output '{value.name}' requires the type that its node gives, got {got}")


def check_numbered(declared: Iterable[ValueInfoProto]) -> None:
    """Raises ModelError for outputs that are strings and declared as something else."""
    for value in declared:
        element = value.type.tensor_type.elem_type
        if element not in (TensorProto.STRING, TensorProto.UNDEFINED):
            rule = f"output '{value.name}' requires the type that its node gives"
            raise ModelError(f"{rule}, got {_shown(value.type)} declared and strings given")


def _fits_strings(declared: TypeProto, array: Array | None) -> bool:
    """Whether a declared type is that of an array of strings, of any other value where that is
    None; types that say nothing are.
    """
    case = declared.WhichOneof("value")
    if case != "tensor_type":
        return array is None or case is None
    if declared.tensor_type.elem_type != TensorProto.STRING:
        return array is None
    return array is not None and fits_declared(declared.tensor_type, array.shape)


def check_branches(name: str, branches: Iterable[Iterable[ValueInfoProto]]) -> None:
    """Raises ModelError for branches that differ in how many values they give, or in the element
    types and kinds that they declare.
    """
    first, second = (list(branch) for branch in branches)
    if len(first) != len(second):
        rule = f"{name} requires branches of equally many outputs"
        raise ModelError(f"{rule}, got {len(first)} and {len(second)}")
    for one, other in zip(first, second, strict=True):
        cases = [each.type.WhichOneof("value") for each in (one, other)]
        elements = [each.type.tensor_type.elem_type for each in (one, other)]
        if None not in cases and (cases[0] != cases[1] or elements[0] != elements[1]):
            rule = f"{name} requires branches that give values of the same types"
            raise ModelError(f"{rule}, got {_shown(one.type)} and {_shown(other.type)}")


def _may_be_optional(name: str, nodes: Iterable[NodeProto]) -> bool:
    """Whether the operator that gives a value may give an optional."""
    for node in nodes:
        if name in node.output and defs.has(node.op_type, node.domain):
            schema = defs.get_schema(node.op_type, domain=node.domain)
            position = min(list(node.output).index(name), len(schema.outputs) - 1)
            return any(each.startswith("optional(") for each in schema.outputs[position].types)
    return True


def _fits(declared: TypeProto, given: Value) -> bool:
    """Whether a declaration is of the kind and the element type of a value."""
    case = declared.WhichOneof("value")
    if case == "optional_type":  # an optional is what it holds, or nothing
        return True
    if not isinstance(given, SSAValue):
        return case in (None, "sequence_type")
    if case == "sequence_type":
        return _fits_maps(declared, type_of(given))
    element = onnx_number(type_of(given).element)
    return case is None or (case == "tensor_type" and declared.tensor_type.elem_type == element)


def _fits_maps(declared: TypeProto, given: TensorType) -> bool:
    """Whether a sequence of maps has the elements of a matrix, whose rows stand for the maps."""
    row = declared.sequence_type.elem_type
    if row.WhichOneof("value") != "map_type" or not given.has_rank:
        return False
    element = row.map_type.value_type.tensor_type.elem_type
    return given.rank == 2 and element == onnx_number(given.element)


def _has_dims(declared: TypeProto, given: TensorType, dims: bool) -> bool:
    """Whether a tensor has the declared rank, and with `dims` the declared static dims."""
    wanted = declared.tensor_type
    if not wanted.HasField("shape") or not given.has_rank:
        return True
    if len(wanted.shape.dim) != given.rank:
        return False
    pairs = zip(wanted.shape.dim, given.shape, strict=True)
    known = [(d.dim_value, g.constant) for d, g in pairs if d.HasField("dim_value")]
    return not dims or all(g is None or d == g for d, g in known)


def _shown(declared: TypeProto) -> str:
    case = declared.WhichOneof("value")
    if case != "tensor_type":
        words = {"sequence_type": "a sequence", "optional_type": "an optional", None: "nothing"}
        return words.get(case, "a map")
    element = TensorProto.DataType.Name(declared.tensor_type.elem_type).lower()
    if not declared.tensor_type.HasField("shape"):
        return element
    dims = (d.dim_param or str(d.dim_value) for d in declared.tensor_type.shape.dim)
    return f"{element} [{', '.join(dims)}]"


def _shown_value(given: Value) -> str:
    if not isinstance(given, SSAValue):
        return str(given)
    tensor_type = type_of(given)
    element = TensorProto.DataType.Name(onnx_number(tensor_type.element)).lower()
    return (
        f"{element} [{', '.join(map(str, tensor_type.shape))}]" if tensor_type.has_rank else element
    )
