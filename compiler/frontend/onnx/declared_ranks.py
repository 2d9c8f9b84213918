"""Ranks of values that a file leaves open: what it declares of them, or of what keeps their rank,
and what operators need of their operands.
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
        self._stored = {name: len(each.tensor.dims) for name, each in model.initializers.items()}
        for value in model.proto.graph.input:
            if value.type.tensor_type.HasField("shape"):
                self._stored[value.name] = len(value.type.tensor_type.shape.dim)
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
            self._stored |= {name: len(each.dims) for name in node.output for each in tensors}

    def of(self, name: str) -> int | None:
        """The rank of a value; that of what elementwise operators make of it, where it has none of
        its own. None where nothing says it.
        """
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            users = self._users.get(name, ())
            needed = (self._needed(node) for node in users if node.input[0] == name)
            found = [self._declared.get(name), *needed]
            known = next((rank for rank in found if rank is not None), None)
            if known is not None:
                return known
            kept = (node for node in users if self._keeps_rank(node, name))
            name = next((node.output[0] for node in kept), name)
        return None

    def _needed(self, node: NodeProto) -> int | None:
        """The rank that an operator needs of its first operand, where that is always one."""
        if node.op_type in _LIKE_SECOND and not node.domain:
            return next((self._stored.get(other) for other in node.input[1:2]), None)
        if node.op_type == "Transpose" and not node.domain:
            return next((len(each.ints) for each in node.attribute if each.name == "perm"), None)
        return _NEEDED.get((node.domain, node.op_type))

    def _keeps_rank(self, node: NodeProto, name: str) -> bool:
        """Whether the result has the rank of that operand."""
        op = self._operators.get((node.domain, node.op_type))
        if op is None or not issubclass(op, UnaryOp | BinaryOp) or not node.output:
            return False
        others = [self._stored.get(other) for other in node.input if other != name]
        return all(rank == 0 for rank in others)


_LIKE_SECOND = ("Conv", "ConvInteger", "ConvTranspose")
"""Operators whose first operand has the rank of the second, a filter."""

_NEEDED: Mapping[tuple[str, str], int] = {
    **{("", name): 2 for name in ("Gemm", "EyeLike")},
    **{("", name): 3 for name in ("GRU", "LSTM", "RNN")},
    **{("", name): 4 for name in ("DepthToSpace", "SpaceToDepth", "RoiAlign")},
    **{
        ("ai.onnx.ml", f"{name}{kind}"): 2
        for name in ("TreeEnsemble", "Linear", "SVM")
        for kind in ("Classifier", "Regressor")
    },
}
"""Operators whose first operand has one rank."""
