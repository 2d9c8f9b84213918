"""graph -> graph: operators that free more memory than they take run as soon as they can.

    a, b, ..., z, sum(a) -> s      ->      a, sum(a) -> s, b, ..., z

A weight's gradient is one: it is read for the update of the weight alone, at the end, and what it
is computed from would be kept until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from compiler.graph.eliminate import own_sizes
from compiler.graph.residuals import nominal_bytes
from dialects.graph import ConstantOp, FusedOp, GraphOp
from dialects.graph.control import defined_sizes


@dataclass(frozen=True)
class OrderPass(ModulePass):
    """Moves operators of every graph function, those of regions aside."""

    name = "weft-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                order(function.body.block)


Place = tuple[int, ...]
"""Where an operator stands: (3,), then what was moved behind it, (3, 1), (3, 2), then (4,)."""


def order(block: Block) -> None:
    """Moves operators up, from the first on."""
    place: dict[Operation, Place] = {op: (number,) for number, op in enumerate(block.ops)}
    definers = {name: op for op in block.ops for name in defined_sizes(op)}
    followers: dict[Operation, list[Operation]] = {}
    for op in list(block.ops):
        if not isinstance(op, FusedOp | GraphOp) or isinstance(op, ConstantOp):
            continue
        latest = max(_needed(op, definers), key=lambda each: place[each], default=None)
        if latest is None or _freed(op, place) <= _taken(op):
            continue
        moved = followers.setdefault(latest, [])
        last = _last(latest, followers)
        if last.next_op is not op:
            op.detach()
            block.insert_op_after(op, last)
        moved.append(op)
        place[op] = (*place[latest], len(moved))


def _needed(op: Operation, definers: Mapping[str, Operation]) -> list[Operation]:
    """The operators that compute what an operator reads, and those that define its sizes."""
    names = {name for inner in op.walk() for name in own_sizes(inner)}
    owners = [*(each.owner for each in op.operands), *(definers.get(name) for name in names)]
    return [each for each in owners if isinstance(each, Operation)]


def _last(op: Operation, followers: Mapping[Operation, list[Operation]]) -> Operation:
    """The last of the operators that were moved behind one."""
    while followers.get(op):
        op = followers[op][-1]
    return op


def _taken(op: Operation) -> int:
    """The memory of the results."""
    return sum(map(nominal_bytes, op.results))


def _freed(op: Operation, place: Mapping[Operation, Place]) -> int:
    """The memory of the operands that nothing reads behind the operator."""
    return sum(
        nominal_bytes(each)
        for each in dict.fromkeys(op.operands)
        if isinstance(each.owner, Operation) and _ends_at(each, op, place)
    )


def _ends_at(value: SSAValue, op: Operation, place: Mapping[Operation, Place]) -> bool:
    """Whether no other operator reads the value later."""
    users = (use.operation for use in value.uses if use.operation is not op)
    return all(user in place and place[user] < place[op] for user in users)
