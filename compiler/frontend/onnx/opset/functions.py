"""Function bodies -> nodes: model-local functions, and the bodies that ONNX gives its composite
operators.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TypeProto,
    checker,
    defs,
    helper,
    shape_inference,
)

from weft.compiler.frontend.onnx.check import DEFAULT_DOMAINS, MAX_NESTING, default_opset
from weft.compiler.frontend.onnx.graph import describe_node, subgraphs
from weft.compiler.frontend.onnx.opset.builder import FreshNames
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError

FunctionKey = tuple[str, str, str]

_BUILDER_ERRORS = (
    checker.ValidationError, defs.SchemaError, shape_inference.InferenceError, IndexError,
    RuntimeError, ValueError,
)  # fmt: skip
"""What onnx's builders of function bodies raise for nodes that they do not expect."""


class _FunctionSchema(Protocol):
    """The part of onnx's OpSchema that its type stubs leave out."""

    @property
    def function_opset_versions(self) -> list[int]: ...

    @property
    def context_dependent_function_opset_versions(self) -> list[int]: ...

    def get_function_with_opset_version(self, version: int) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, input_types: list[bytes]
    ) -> bytes: ...


def function_key(function: FunctionProto) -> FunctionKey:
    domain = "" if function.domain in DEFAULT_DOMAINS else function.domain
    return domain, function.name, function.overload


def check_calls(
    nodes: Sequence[NodeProto], functions: Mapping[FunctionKey, FunctionProto], budget: Budget
) -> None:
    """Raise ModelError if a function calls itself, BudgetError if inlining would not end well.

    Calls of calls can make a small file grow without bound, so sizes are added up beforehand.
    """
    budget.require_nodes(_Sizes(functions).size_of(nodes, ()))


class _Sizes:
    """How many nodes a list of nodes becomes when all calls are inlined."""

    def __init__(self, functions: Mapping[FunctionKey, FunctionProto]) -> None:
        self.functions = functions
        self.cached: dict[FunctionKey, int] = {}

    def size_of(self, nodes: Sequence[NodeProto], calls: tuple[FunctionKey, ...]) -> int:
        return sum(self._size_of_node(node, calls) for node in nodes)

    def _size_of_node(self, node: NodeProto, calls: tuple[FunctionKey, ...]) -> int:
        key = (node.domain, node.op_type, node.overload)
        if key not in self.functions:
            return 1 + sum(self.size_of(graph.node, calls) for graph in subgraphs(node))
        if key in calls:
            raise ModelError(f"function '{key[1]}' requires a body without itself, got a recursion")
        if len(calls) >= MAX_NESTING:
            rule = f"at most {MAX_NESTING} calls around it"
            raise ModelError(f"function '{key[1]}' requires {rule}, got more")
        if key not in self.cached:
            self.cached[key] = self.size_of(self.functions[key].node, (*calls, key))
        return self.cached[key]


def instantiate_function(
    function: FunctionProto,
    call: NodeProto,
    names: FreshNames,
    defaults: Mapping[str, AttributeProto],
) -> list[NodeProto]:
    """The body of a function in place of one call: own value names, attributes of the call or
    `defaults` filled in.

    A node of the body is called `<call>/<node>`. Raises ModelError if the call has more values than
    the function.
    """
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        rule = f"at most {len(function.input)} inputs and {len(function.output)} outputs"
        got = f"{len(call.input)} and {len(call.output)}"
        raise ModelError(f"{describe_node(call, 0)} requires {rule}, got {got}")
    attributes = {**defaults, **{each.name: each for each in call.attribute}}
    renamed = dict.fromkeys(function.input, "")
    renamed.update(zip(function.input, call.input, strict=False))
    forwarded = _bind_outputs(function, call, renamed)
    body = _Instance(call, names, attributes).copy_nodes(function.node, renamed)
    for inner, outer in forwarded:
        body.append(helper.make_node("Identity", [renamed[inner]], [outer]))
    return body


def _bind_outputs(
    function: FunctionProto, call: NodeProto, renamed: dict[str, str]
) -> list[tuple[str, str]]:
    """Let results bear the call's output names; returns those that need a copy, as they are inputs
    or occur twice.
    """
    forwarded: list[tuple[str, str]] = []
    for inner, outer in zip(function.output, call.output, strict=False):
        if not outer:
            continue
        if inner in renamed:
            forwarded.append((inner, outer))
        else:
            renamed[inner] = outer
    return forwarded


class _Instance:
    """Copies of a function's nodes for one call."""

    def __init__(
        self, call: NodeProto, names: FreshNames, attributes: Mapping[str, AttributeProto]
    ) -> None:
        self.call = call
        self.stem = next((name for name in call.output if name), call.name or call.op_type)
        self.names = names
        self.attributes = attributes

    def copy_nodes(self, nodes: Sequence[NodeProto], renamed: dict[str, str]) -> list[NodeProto]:
        """`renamed` maps the names in the function to those in the model, and grows by what the
        nodes define.
        """
        for node in nodes:
            for name in node.output:
                if name and name not in renamed:
                    renamed[name] = self.names.fresh(f"{self.stem}/{name}")
        return [self._copy_node(node, renamed) for node in nodes]

    def _copy_node(self, node: NodeProto, renamed: dict[str, str]) -> NodeProto:
        copy = NodeProto()
        copy.CopyFrom(node)
        if self.call.name:
            copy.name = self.names.fresh(f"{self.call.name}/{node.name or node.op_type}")
        copy.input[:] = [self._renamed(name, renamed) for name in node.input]
        copy.output[:] = [renamed[name] if name else "" for name in node.output]
        del copy.attribute[:]
        for attribute in node.attribute:
            resolved = self._resolve(attribute)
            if resolved is not None:
                copy.attribute.append(resolved)
        for graph in subgraphs(copy):
            self._rename_graph(graph, dict(renamed))
        return copy

    def _renamed(self, name: str, renamed: Mapping[str, str]) -> str:
        """A name of the function in the model; raises ModelError if nothing defines it, as in
        bodies that ONNX builds for calls without an input or attribute that they need.
        """
        if name and name not in renamed:
            rule = f"what its function body reads as '{name}'"
            raise ModelError(f"{describe_node(self.call, 0)} requires {rule}, got none")
        return renamed[name] if name else ""

    def _resolve(self, attribute: AttributeProto) -> AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        given = self.attributes.get(attribute.ref_attr_name)
        if given is None:
            return None
        resolved = AttributeProto()
        resolved.CopyFrom(given)
        resolved.name = attribute.name
        return resolved

    def _rename_graph(self, graph: GraphProto, renamed: dict[str, str]) -> None:
        """Rename a subgraph's own names too, so that two calls do not define a name twice."""
        for owned in (*graph.input, *graph.initializer):
            renamed[owned.name] = self.names.fresh(f"{self.stem}/{owned.name}")
            owned.name = renamed[owned.name]
        for name in {name for node in graph.node for name in node.output if name}:
            renamed[name] = self.names.fresh(f"{self.stem}/{name}")
        nodes = self.copy_nodes(list(graph.node), renamed)
        del graph.node[:]
        graph.node.extend(nodes)
        for value in graph.output:
            value.name = renamed[value.name]
        del graph.value_info[:]


def composite_body(
    node: NodeProto, opset: int, input_types: Sequence[TypeProto]
) -> tuple[FunctionProto, dict[str, AttributeProto]] | None:
    """The body that ONNX defines for a composite operator, and its attributes' defaults; None if it
    defines none.

    `input_types` decide the body of operators such as Clip and LayerNormalization.
    """
    schema = defs.get_schema(node.op_type, opset, node.domain)
    body = _fixed_body(schema, opset) or _typed_body(schema, node, opset, input_types)
    if body is None:
        return None
    if default_opset(body) is None:
        # Versions of other domains say nothing about the default one: the newest is meant there.
        version = schema.since_version if node.domain in DEFAULT_DOMAINS else opset
        body.opset_import.add(domain="", version=version)
    defaults = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return body, defaults


def _fixed_body(schema: defs.OpSchema, opset: int) -> FunctionProto | None:
    declared: _FunctionSchema = cast(_FunctionSchema, schema)
    versions = [version for version in declared.function_opset_versions if version <= opset]
    if not versions:
        return None
    return FunctionProto.FromString(declared.get_function_with_opset_version(max(versions)))


def _typed_body(
    schema: defs.OpSchema, node: NodeProto, opset: int, input_types: Sequence[TypeProto]
) -> FunctionProto | None:
    declared: _FunctionSchema = cast(_FunctionSchema, schema)
    versions = [
        version
        for version in declared.context_dependent_function_opset_versions
        if version <= opset
    ]
    if not versions or not input_types:
        return None
    types = [each.SerializeToString() for each in input_types]
    try:
        body = declared.get_context_dependent_function_with_opset_version(
            max(versions), node.SerializeToString(), types
        )
    except _BUILDER_ERRORS as error:
        rule = "inputs and attributes that ONNX can build its function body for"
        got = " ".join(str(error).split())
        raise ModelError(f"{describe_node(node, 0)} requires {rule}, got {got}") from error
    return FunctionProto.FromString(body) if body else None
