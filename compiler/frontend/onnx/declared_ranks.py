"""Ranks that a file declares of values, and of what keeps their rank: they decide the rank of a
result where the operator leaves it open.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto, ValueInfoProto

from weft.compiler.frontend.onnx.graph import all_graphs
from weft.compiler.frontend.onnx.load import LoadedModel
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.elementwise import BinaryOp, UnaryOp


class DeclaredRanks:
    """The ranks of a model's values by name."""

    def __init__(
        self, model: LoadedModel, one_to_one: Mapping[tuple[str, str], type[GraphOp]]
    ) -> None:
        self._operators = one_to_one
        self._scalars = {name for name, each in model.initializers.items() if not each.tensor.dims}
        self._declared: dict[str, int] = {}
        self._users: dict[str, list[NodeProto]] = {}
        for graph in all_graphs(model.proto):
            for value in (*graph.value_info, *getattr(graph, "output", ())):
                if isinstance(value, ValueInfoProto):
                    self._declare(value)
            for node in graph.node:
                self._note(node)

    def _declare(self, value: ValueInfoProto) -> None:
        if value.type.tensor_type.HasField("shape"):
            self._declared[value.name] = len(value.type.tensor_type.shape.dim)

    def _note(self, node: NodeProto) -> None:
        for name in node.input:
            self._users.setdefault(name, []).append(node)
        if node.op_type == "Constant" and not node.domain:
            tensors = [each.t for each in node.attribute if each.name == "value"]
            if any(not tensor.dims for tensor in tensors):
                self._scalars |= set(node.output)

    def of(self, name: str) -> int | None:
        """The rank of a value; that of what elementwise operators make of it, where it has none of
        its own. None where nothing says it.
        """
        seen: set[str] = set()
        while name not in self._declared and name not in seen:
            seen.add(name)
            kept = (node for node in self._users.get(name, ()) if self._keeps_rank(node, name))
            name = next((node.output[0] for node in kept), name)
        return self._declared.get(name)

    def _keeps_rank(self, node: NodeProto, name: str) -> bool:
        """Whether the result has the rank of that operand."""
        op = self._operators.get((node.domain, node.op_type))
        if op is None or not issubclass(op, UnaryOp | BinaryOp):
            return False
        return all(other == name or other in self._scalars for other in node.input)
