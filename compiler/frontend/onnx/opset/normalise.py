"""A loaded model at any opset -> the same model at the newest, its functions inlined."""

from collections.abc import Mapping, Sequence
from functools import cache, partial

from google.protobuf.message import DecodeError
from msgspec.structs import replace
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, defs

from weft.compiler.frontend.onnx.check import (
    MAX_NESTING,
    OLDEST_OPSET,
    default_opset,
    opset_versions,
)
from weft.compiler.frontend.onnx.graph import all_graphs, all_nodes, brief, describe_node, subgraphs
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.compiler.frontend.onnx.opset.builder import Builder, FreshNames
from weft.compiler.frontend.onnx.opset.conform import check_node, check_types, schema_of
from weft.compiler.frontend.onnx.opset.functions import (
    check_calls,
    composite_body,
    function_key,
    instantiate_function,
)
from weft.compiler.frontend.onnx.opset.steps import UNCHANGED, UPGRADES
from weft.compiler.frontend.onnx.opset.value_types import ValueTypes
from weft.dialects.budget import Budget
from weft.dialects.errors import BudgetError, ModelError, OptionError, UnsupportedError, printable

ML_DOMAIN = "ai.onnx.ml"

BELOW_THEIR_OPSET = frozenset({"LayerNormalization"})
"""Operators that onnxruntime's optimiser writes at opsets which do not have them yet, meant as in
their first version.
"""


def newest_opset() -> int:
    return defs.onnx_opset_version()


def normalise(
    model: LoadedModel, to: int | None = None, budget: Budget | None = None
) -> LoadedModel:
    """The model with all nodes of the default domain at opset `to` (the newest) and its functions
    inlined.

    Nodes of other domains and operators that do not exist are left for the importer to report.
    Raises ModelError for nodes that break their operator's schema, UnsupportedError where an old
    meaning has no new form, BudgetError before functions become too many nodes.
    """
    target = newest_opset() if to is None else to
    if not OLDEST_OPSET <= target <= newest_opset():
        rule = f"normalise requires an opset from {OLDEST_OPSET} to {newest_opset()}"
        raise OptionError(f"{rule}, got {target}")
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    opsets = _opsets(proto, target)
    if target < opsets[""]:
        raise OptionError(f"normalise requires an opset of at least {opsets['']}, got {target}")
    types = ValueTypes()
    types.declare_graph(proto.graph)
    for name, initializer in model.initializers.items():
        types.declare_tensor(name, initializer.tensor, partial(model.array, name))
    try:
        nodes = _Normaliser(model, proto, target, budget or Budget()).rewrite(
            proto.graph.node, opsets, types, 0
        )
    except (BudgetError, ModelError, UnsupportedError) as error:
        raise type(error)(f"{model.name}: {brief(error)}") from error
    except DecodeError as error:
        rule = "a model requires less nesting after its functions and Scans are expanded"
        raise UnsupportedError(f"{model.name}: {rule}, got over 100 levels") from error
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    _import_opsets(proto, target, model.name)
    return replace(model, proto=proto)


def expand_function_op(
    node: NodeProto, opset: int, names: FreshNames, input_types: Sequence[TypeProto] = ()
) -> list[NodeProto] | None:
    """The nodes that ONNX defines a composite operator by, at `opset`; None if it gives no body for
    these types.
    """
    found = composite_body(node, opset, input_types)
    if found is None:
        return None
    body, defaults = found
    nodes = instantiate_function(body, node, names, defaults)
    version = default_opset(body) or opset
    upgrader = _Upgrader(names, opset, frozenset(name for each in nodes for name in each.input))
    types = ValueTypes()
    for name, declared in zip(node.input, input_types, strict=False):
        types.elements[name] = declared.tensor_type.elem_type
    return [after for before in nodes for after in upgrader.upgrade(before, version, types)]


def fresh_names(model: LoadedModel) -> FreshNames:
    """Names that do not occur in the model."""
    return FreshNames(_taken_names(model.proto) | set(model.initializers))


@cache
def _history(op_type: str, domain: str = "") -> tuple[int, ...]:
    """The versions of an operator of ONNX's, oldest first; none where there is no such operator."""
    versions: list[int] = []
    newest = newest_opset()
    while defs.has(op_type, newest, domain):
        versions.append(schema_of(op_type, newest, domain).since_version)
        newest = versions[-1] - 1
    return tuple(reversed(versions))


def _opsets(owner: ModelProto | FunctionProto, target: int) -> dict[str, int]:
    """The version of each domain that is imported, the `target` for the default one if it is not
    among them.
    """
    versions = opset_versions(owner)
    return {**versions, "": versions.get("") or target}


class _Upgrader:
    """Takes single nodes of the default domain, without their subgraphs, step by step to the
    target.
    """

    def __init__(self, names: FreshNames, target: int, used: frozenset[str]) -> None:
        self.names = names
        self.target = target
        self.used = used

    def upgrade(self, node: NodeProto, version: int, types: ValueTypes) -> list[NodeProto]:
        for step in self._steps(node.op_type, version):
            upgrade = UPGRADES.get((node.op_type, step))
            if upgrade is not None:
                build = Builder(node, self.names, types, self.target, self.used)
                nodes = upgrade(node, build)
                return [after for each in nodes for after in self.upgrade(each, step, types)]
            if step not in UNCHANGED.get(node.op_type, ()):
                rule = f"requires a known upgrade of {node.op_type} to opset {step}"
                raise UnsupportedError(f"{describe_node(node, 0)} {rule}, got none")
        self._infer(node, types)
        return [node]

    def _steps(self, op_type: str, version: int) -> list[int]:
        """The versions to go through; an operator newer than `version` starts at its first."""
        known = _history(op_type) or (version,)
        return [step for step in known if max(version, known[0]) < step <= self.target]

    def _infer(self, node: NodeProto, types: ValueTypes) -> None:
        if node.domain == "" and _history(node.op_type):
            types.infer_elements(node, schema_of(node.op_type, self.target))


class _Normaliser:
    """Rewrites lists of nodes: calls of functions into their bodies, and operators to the target
    opset.
    """

    def __init__(self, model: LoadedModel, proto: ModelProto, target: int, budget: Budget) -> None:
        self.names = fresh_names(model)
        self.upgrader = _Upgrader(self.names, target, _used_names(proto))
        self.functions = {function_key(each): each for each in proto.functions}
        check_calls(proto.graph.node, self.functions, budget)

    def rewrite(
        self, nodes: Sequence[NodeProto], opsets: Mapping[str, int], types: ValueTypes, depth: int
    ) -> list[NodeProto]:
        """`opsets` are the versions of domains, `depth` counts the subgraphs and calls around the
        nodes.
        """
        if depth > MAX_NESTING:
            raise ModelError(
                f"a model requires at most {MAX_NESTING} nested graphs and calls, got more"
            )
        rewritten: list[NodeProto] = []
        for index, node in enumerate(nodes):
            rewritten += self._rewrite_node(node, index, opsets, types, depth)
        return rewritten

    def _rewrite_node(
        self, node: NodeProto, index: int, opsets: Mapping[str, int], types: ValueTypes, depth: int
    ) -> list[NodeProto]:
        key = (node.domain, node.op_type, node.overload)
        if key in self.functions:
            return self._inline(node, self.functions[key], types, depth)
        who = describe_node(node, index)
        if node.domain not in opsets:
            raise ModelError(f"{who} requires an opset import for its domain, got none")
        version = opsets[node.domain]
        if node.domain == "" and node.op_type in BELOW_THEIR_OPSET:
            version = max(version, _history(node.op_type)[0])
        if _history(node.op_type, node.domain):
            _check_standard_node(node, version, who)
            check_types(node, version, types.element, who)
        for graph in subgraphs(node):
            inner = ValueTypes(types)
            inner.declare_graph(graph)
            body = self.rewrite(graph.node, opsets, inner, depth + 1)
            del graph.node[:]
            graph.node.extend(body)
        standard = node.domain == "" and bool(_history(node.op_type))
        return self.upgrader.upgrade(node, version, types) if standard else [node]

    def _inline(
        self, call: NodeProto, function: FunctionProto, types: ValueTypes, depth: int
    ) -> list[NodeProto]:
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        body = instantiate_function(function, call, self.names, defaults)
        opsets = _opsets(function, self.upgrader.target)
        return self.rewrite(body, opsets, types, depth + 1)


def _check_standard_node(node: NodeProto, version: int, who: str) -> None:
    history = _history(node.op_type, node.domain)
    if version < history[0]:
        raise ModelError(f"{who} requires opset {history[0]}, got opset {version}")
    if node.domain == ML_DOMAIN and version > defs.onnx_ml_opset_version():
        rule = f"{who} requires an opset of its domain up to {defs.onnx_ml_opset_version()}"
        raise UnsupportedError(f"{rule}, got {version}")
    schema = schema_of(node.op_type, version, node.domain)
    if schema.deprecated and schema.since_version == history[-1]:
        raise ModelError(f"{who} requires an opset below {schema.since_version}, got {version}")
    check_node(node, schema, who)


def _taken_names(proto: ModelProto) -> set[str]:
    names = {value.name for value in proto.graph.input}
    for graph in all_graphs(proto):
        for node in graph.node:
            names.update(node.input, node.output)
    return names


def _used_names(proto: ModelProto) -> frozenset[str]:
    names = {name for node in all_nodes(proto) for name in node.input}
    for graph in all_graphs(proto):
        outputs = graph.output
        names.update(each if isinstance(each, str) else each.name for each in outputs)
    return frozenset(names)


def _import_opsets(proto: ModelProto, target: int, name: str) -> None:
    """Import what inlined functions import, and the default domain at its new version."""
    versions = opset_versions(proto)
    for function in proto.functions:
        for domain, version in opset_versions(function).items():
            imported = versions.setdefault(domain, version)
            if imported != version and domain:
                rule = f"one version of the domain '{printable(domain)}' in all functions"
                raise UnsupportedError(
                    f"{name}: a model requires {rule}, got {imported} and {version}"
                )
    del proto.functions[:]
    del proto.opset_import[:]
    for domain, version in {**versions, "": target}.items():
        proto.opset_import.add(domain=domain, version=version)
