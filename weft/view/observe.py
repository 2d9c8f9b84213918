"""Looks at a compilation: the graph behind each pass, why operators stayed apart, which operator
each call of a kernel comes from, and how kernels were made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from weft.compiler.driver.observing.kernel_texts import KernelTexts
from weft.compiler.graph.fuse.fuse_siblings import refusal_name
from weft.compiler.graph_to_loop.lower_graph import GraphToLoopPass
from weft.compiler.graph_to_loop.naive_kernels import kernel_stem
from weft.dialects.context import Refusals
from weft.dialects.graph import ControlOp, FusedOp, GraphOp, ReshapeOp
from weft.dialects.loop.program import CallOp, ProgramOp, nodes_of, origin_of
from weft.view.graphs import GraphTable, origins
from weft.view.records import Apart

_Lowered = tuple[int, str, tuple[str, ...]]
"""An operator that becomes a kernel: its number, what that is called, and where it comes from."""


class Observer:
    """What a compilation shows: see the module."""

    def __init__(self) -> None:
        self.refusals: Refusals = {}
        self.table = GraphTable()
        self.graphs: list[tuple[str, int]] = []
        self.apart: list[Apart] = []
        self.kernels: dict[str, KernelTexts] = {}
        self.program: ProgramOp | None = None
        self.module: ModuleOp | None = None
        self._lowered: list[_Lowered] = []
        self._nodes: list[int | None] = []

    def look_at_module(self, stage: str, module: ModuleOp) -> None:
        """Keeps the graph; behind the graph, which operator each call comes from."""
        self.module = module
        if any(isinstance(op, FuncOp) for op in module.ops):
            self.graphs.append((stage, self.table.add(module)))
            if len(self.graphs) < 2 or self.graphs[-1][1] != self.graphs[-2][1]:
                self._look_at_groups(module)
            return
        self.program = next(op for op in module.ops if isinstance(op, ProgramOp))
        if stage == GraphToLoopPass.name:
            self._nodes = list(_matched(self._lowered, self.program))

    def look_at_kernel(self, name: str, texts: KernelTexts) -> None:
        """Keeps how a kernel was made."""
        self.kernels[name] = texts

    def node_of(self, call: CallOp) -> int | None:
        """The operator of the optimised graph that a call of the finished program comes from."""
        number = origin_of(call)
        return None if number is None or number >= len(self._nodes) else self._nodes[number]

    def _look_at_groups(self, module: ModuleOp) -> None:
        self._lowered, self.apart = [], []
        (function,) = [op for op in module.ops if isinstance(op, FuncOp)][:1]
        for op in function.walk():
            inside = isinstance(op.parent_op(), FusedOp)
            if inside or not isinstance(op, GraphOp | FusedOp) or isinstance(op, ReshapeOp):
                continue
            node = self.table.numbers[op]
            members = op.members if isinstance(op, FusedOp) else [op]
            self._lowered.append((node, kernel_stem(members), origins(op)))
            self.apart += dict.fromkeys(self._reasons(node, op, members))

    def _reasons(self, node: int, op: Operation, members: list[GraphOp]) -> Iterator[Apart]:
        """Why the operator is no kernel with those whose values it reads."""
        for member in members:
            for operand in member.operands:
                value = op.operands[operand.index] if _is_argument(operand, op) else operand
                key = refusal_name(_computed(value)), refusal_name(member.results[0])
                reasons = self.refusals.get(key) or _general_reason(value.owner)
                if value.owner is not op and reasons and value.owner in self.table.numbers:
                    yield Apart(node, self.table.name(value), tuple(dict.fromkeys(reasons)))


def _is_argument(value: SSAValue, group: Operation) -> TypeGuard[BlockArgument]:
    """Whether a member of a group reads what the group is given."""
    return isinstance(value, BlockArgument) and value.owner.parent_op() is group


def _computed(value: SSAValue) -> SSAValue:
    """The value inside of a group that one of its results is."""
    owner = value.owner
    if not isinstance(value, OpResult) or not isinstance(owner, FusedOp):
        return value
    return owner.yielded[value.index]


def _general_reason(producer: object) -> list[str]:
    """Why an operator becomes part of no other's kernel at all."""
    match producer:
        case ControlOp():
            return ["control flow hands its results over in memory"]
        case ReshapeOp():
            return ["a reshape is another view of what is stored"]
        case GraphOp() if len(producer.results) > 1:
            return ["an operator of several results is a kernel of its own"]
        case _:
            return []


def _matched(lowered: Sequence[_Lowered], program: ProgramOp) -> Iterator[int | None]:
    """For each call of a program as it was lowered, the operator that became its kernel: both come
    in the same order; some operators are no calls, some calls copies.
    """
    left = deque(lowered)
    for call in (op for op in program.walk() if isinstance(op, CallOp)):
        stem, origin = call.kernel.rpartition("_")[0], tuple(nodes_of(call))
        found = next((n for n, each in enumerate(left) if each[1:] == (stem, origin)), None)
        yield None if found is None else left[found][0]
        for _ in range(0 if found is None else found + 1):
            left.popleft()
