"""The structural rules of ONNX that every later step relies on, checked on a ModelProto in linear
time.

Nothing here goes through onnx.checker, which is native code and no match for a damaged file.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx import (
    IR_VERSION,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
)

from weft.compiler.frontend.onnx.graph import all_graphs, brief, describe_node, subgraphs
from weft.compiler.frontend.onnx.tensor import (
    DTYPES,
    check_tensor,
    element_count,
    external_range,
    fits_declared,
    is_external,
    is_stated,
)
from weft.dialects.errors import ModelError, UnsupportedError

# protobuf copies messages up to 100 deep; a nested graph is three levels, a type up to two for each
# of its own.
MAX_NESTING = 24
MAX_TYPE_LEVELS = 8
OLDEST_OPSET = 1
DEFAULT_DOMAINS = ("", "ai.onnx")

StoredTensor = tuple[TensorProto, memoryview | None]


def check_model(
    model: ModelProto, initializers: Sequence[StoredTensor], name: str, base_dir: Path | None
) -> None:
    """Raise ModelError or UnsupportedError, with the model's name, at the first rule that the model
    breaks.

    `initializers` are the top-level ones, which the loader may have taken out of the graph.
    """
    try:
        _check_nesting(model)
        _check_versions(model)
        _check_graph_inputs(model.graph)
        for tensor, payload in initializers:
            _check_stored(tensor, payload, base_dir)
        scope = [tensor.name for tensor, _ in initializers]
        _check_defaults(model.graph, [tensor for tensor, _ in initializers])
        _GraphChecker(base_dir).check_main(model.graph, scope)
        for function in model.functions:
            _GraphChecker(base_dir).check_function(function)
        _check_functions_unique(model.functions)
    except (ModelError, UnsupportedError) as error:
        raise type(error)(f"{name}: {brief(error)}") from error


def opset_versions(owner: ModelProto | FunctionProto) -> dict[str, int]:
    """The version that nodes bind to for each imported domain, the default domain as "".

    A domain that is imported more than once has the highest of its versions (onnx.proto,
    `ModelProto.opset_import`).
    """
    versions: dict[str, int] = {}
    for entry in owner.opset_import:
        domain = "" if entry.domain in DEFAULT_DOMAINS else entry.domain
        versions[domain] = max(entry.version, versions.get(domain, entry.version))
    return versions


def default_opset(owner: ModelProto | FunctionProto) -> int | None:
    """The version of the default domain, None where it is not imported."""
    return opset_versions(owner).get("")


def _check_nesting(model: ModelProto) -> None:
    """Bound the depth before anything recurses over it."""
    level: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for _ in range(MAX_NESTING):
        level = [inner for graph in level for node in graph.node for inner in subgraphs(node)]
        if not level:
            return
    raise ModelError(f"a model requires at most {MAX_NESTING} nested graphs, got more")


def _check_versions(model: ModelProto) -> None:
    if not model.HasField("graph"):
        raise ModelError("a model requires a graph, got none")
    if model.ir_version < 1:
        raise ModelError(f"a model requires an IR version, got {model.ir_version}")
    if model.ir_version > IR_VERSION:
        rule = f"a model requires an IR version of at most {IR_VERSION}"
        raise UnsupportedError(f"{rule}, got {model.ir_version}")
    for owner in (model, *model.functions):
        _check_opsets(owner)
    uses_default = any(
        node.domain in DEFAULT_DOMAINS for graph in all_graphs(model) for node in graph.node
    )
    if uses_default and default_opset(model) is None:
        raise ModelError("a model requires an opset import for its default domain, got none")


def _check_opsets(owner: ModelProto | FunctionProto) -> None:
    for entry in owner.opset_import:
        _text(entry.domain, "an opset domain", may_be_empty=True)
    newest = defs.onnx_opset_version()
    version = default_opset(owner)
    if version is not None and not OLDEST_OPSET <= version <= newest:
        rule = f"weft requires an opset from {OLDEST_OPSET} to {newest}"
        raise UnsupportedError(f"{rule}, got {version}")


def _check_graph_inputs(graph: GraphProto) -> None:
    if not graph.output:
        raise UnsupportedError("a graph requires at least one output, got none")
    for value in graph.input:
        if value.type.WhichOneof("value") is None:
            raise ModelError(f"input '{value.name}' requires a type, got none")


def _check_defaults(graph: GraphProto, initializers: Sequence[TensorProto]) -> None:
    """Inputs that initialisers stand for, as all did up to IR version 3, have their types."""
    stored = {tensor.name: tensor for tensor in initializers}
    for value in graph.input:
        tensor, declared = stored.get(value.name), value.type.tensor_type
        if tensor is None:
            continue
        case = value.type.WhichOneof("value")
        same = case == "tensor_type" and declared.elem_type == tensor.data_type
        if not same or not fits_declared(declared, tensor.dims):
            rule = f"input {_shown(value.name)} requires the type of its initialiser"
            dims = [each.dim_value for each in declared.shape.dim]
            got = f"{declared.elem_type or case} {dims} and {tensor.data_type} {list(tensor.dims)}"
            raise ModelError(f"{rule}, got {got}")


def _check_functions_unique(functions: Iterable[FunctionProto]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for function in functions:
        key = (function.domain, function.name, function.overload)
        if key in seen:
            raise ModelError(f"a model requires functions of different names, got '{key[1]}' twice")
        seen.add(key)


class _GraphChecker:
    """Checks a graph and those nested in it against the names that are visible at each place."""

    def __init__(self, base_dir: Path | None) -> None:
        self.base_dir = base_dir
        self.scopes: list[set[str]] = []
        self.in_function = False

    def check_main(self, graph: GraphProto, initializers: Sequence[str]) -> None:
        self._check_graph(graph, initializers)

    def check_function(self, function: FunctionProto) -> None:
        who = f"function '{_text(function.name, 'a function name')}'"
        self.in_function = True
        scope: set[str] = set()
        for name in function.input:
            _define(name, scope, f"{who}, input")
        self.scopes.append(scope)
        self._check_nodes(function.node, scope)
        for name in function.output:
            self._require(name, f"{who}, output")
        self.scopes.pop()

    def _check_graph(self, graph: GraphProto, initializers: Sequence[str]) -> None:
        _check_no_sparse(graph)
        scope: set[str] = set()
        for value in graph.input:
            _check_value(value, "input")
            _define(value.name, scope, "graph input")
        # An initialiser may give an input its default value, but two may not share a name.
        constants: set[str] = set()
        for name in initializers:
            _define(name, constants, "initialiser")
        scope |= constants
        for value in graph.value_info:
            _check_value(value, "value")
        self.scopes.append(scope)
        self._check_nodes(graph.node, scope)
        outputs: set[str] = set()
        for value in graph.output:
            _check_value(value, "output")
            self._require(value.name, "graph output")
            if value.name in outputs:
                rule = "graph output requires a name of its own"
                raise UnsupportedError(f"{rule}, got {_shown(value.name)} a second time")
            outputs.add(value.name)
        self.scopes.pop()

    def _check_nodes(self, nodes: Sequence[NodeProto], scope: set[str]) -> None:
        for index, node in enumerate(nodes):
            who = describe_node(node, index)
            _text(node.op_type, f"{who}, op type")
            for text in (node.name, node.domain):
                _text(text, who, may_be_empty=True)
            for name in node.output:
                if name:
                    _define(name, scope, who)
        for index, node in enumerate(nodes):
            who = describe_node(node, index)
            for name in node.input:
                if name:
                    self._require(name, who)
            self._check_attributes(node, who)

    def _check_attributes(self, node: NodeProto, who: str) -> None:
        seen: set[str] = set()
        for attribute in node.attribute:
            _define(attribute.name, seen, f"{who}, attribute")
            where = f"{who}, attribute '{attribute.name}'"
            if attribute.ref_attr_name and not self.in_function:
                raise ModelError(f"{where} requires a value outside functions, got a reference")
            self._check_attribute(attribute, where)

    def _check_attribute(self, attribute: AttributeProto, where: str) -> None:
        attribute_type = attribute.type
        if (
            attribute_type == AttributeProto.UNDEFINED
            or attribute_type not in AttributeProto.AttributeType.values()
        ):
            raise ModelError(f"{where} requires a known type, got {attribute_type}")
        tensors = (
            [attribute.t] if attribute_type == AttributeProto.TENSOR else list(attribute.tensors)
        )
        for tensor in () if attribute.ref_attr_name else tensors:
            _check_stored(tensor, None, self.base_dir)
        if attribute_type in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS):
            raise UnsupportedError(f"{where} requires a dense tensor, got a sparse one")
        graphs = [attribute.g] if attribute_type == AttributeProto.GRAPH else list(attribute.graphs)
        for graph in () if attribute.ref_attr_name else graphs:
            for tensor in graph.initializer:
                _check_stored(tensor, None, self.base_dir)
            self._check_graph(graph, [tensor.name for tensor in graph.initializer])

    def _require(self, name: str, who: str) -> None:
        if not any(name in scope for scope in self.scopes):
            raise ModelError(f"{who} requires values that are defined, got {_shown(name)}")


def _check_no_sparse(graph: GraphProto) -> None:
    if graph.sparse_initializer:
        names = ", ".join(_shown(each.values.name) for each in graph.sparse_initializer[:5])
        raise UnsupportedError(f"a graph requires dense initialisers, got sparse {names}")


def _check_stored(tensor: TensorProto, payload: memoryview | None, base_dir: Path | None) -> None:
    _text(tensor.name, "a tensor name", may_be_empty=True)
    check_tensor(tensor, payload)
    if is_external(tensor):
        external_range(tensor, base_dir)


def _check_value(value: ValueInfoProto, role: str) -> None:
    _check_type(value.type, f"{role} '{_text(value.name, f'a graph {role}')}'")


def _check_type(declared: TypeProto, who: str) -> None:
    for _ in range(MAX_TYPE_LEVELS):
        case = declared.WhichOneof("value")
        if case == "tensor_type":
            return _check_tensor_type(declared.tensor_type, who)
        if case == "sequence_type":
            declared = declared.sequence_type.elem_type
        elif case == "optional_type":
            declared = declared.optional_type.elem_type
        elif case == "map_type":
            declared = declared.map_type.value_type
        else:
            return None
    raise ModelError(f"{who} requires a type of at most {MAX_TYPE_LEVELS} levels, got more")


def _check_tensor_type(declared: TypeProto.Tensor, who: str) -> None:
    if declared.elem_type not in DTYPES:
        raise ModelError(f"{who} requires a known element type, got {declared.elem_type}")
    dims = declared.shape.dim
    for dim in dims:
        _text(dim.dim_param, f"{who}, dimension", may_be_empty=True)
    sizes = [dim.dim_value for dim in dims if is_stated(dim)]
    if any(size < 0 for size in sizes):  # onnxruntime takes it for one that varies
        rule = "requires dimensions of at least 0, or names of those that vary"
        raise UnsupportedError(f"{who} {rule}, got {sizes}")
    element_count(sizes, who)


def _define(name: str, scope: set[str], who: str) -> None:
    _text(name, who)
    if name in scope:
        raise ModelError(f"{who} requires a name of its own, got '{name}' a second time")
    scope.add(name)


def _text(text: str | bytes, who: str, may_be_empty: bool = False) -> str:
    """protobuf hands out bytes where a string field holds no UTF-8."""
    if isinstance(text, bytes):
        raise ModelError(f"{who} requires a name in UTF-8, got {text[:40]!r}")
    if not text and not may_be_empty:
        raise ModelError(f"{who} requires a name, got an empty one")
    return text


def _shown(name: str | bytes) -> str:
    return f"'{name}'" if isinstance(name, str) else repr(name[:40])
