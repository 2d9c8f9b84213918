"""graph -> graph: operators that free more memory than they take run as soon as they can.

    a, b, ..., z, sum(a) -> s      ->      a, sum(a) -> s, b, ..., z

A weight's gradient is one: it is read for the update of the weight alone, at the end, and what it
is computed from would be kept until then. What may take the memory of a donated input runs behind
everything that reads that input, so that it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.differentiate.residuals import nominal_bytes
from weft.compiler.graph.simplify.cse_dce import own_sizes
from weft.dialects.graph import ConstantOp, FusedOp, GraphOp
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.loop.program import donated_pairs


class ScheduleMemoryPass(ModulePass):
    """Moves operators of every graph function, those of regions aside."""

    name = "weft-schedule-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                order(function.body.block, donated_pairs(function))


class _Position:
    """Where an operator stands: behind another one with all that was moved behind that before, or
    by its number in the block. Each place knows one far above it, so that the time to compare two
    grows as the logarithm of how often operators were moved behind moved ones.
    """

    __slots__ = ("above", "depth", "far", "number")

    def __init__(self, above: _Position | None, number: int) -> None:
        self.above = above or self
        self.number = number
        self.depth = 0 if above is None else above.depth + 1
        self.far = self.above
        first, second = self.above.far, self.above.far.far
        if self.above.depth - first.depth == first.depth - second.depth:
            self.far = second

    def __lt__(self, other: _Position) -> bool:
        depth = min(self.depth, other.depth)
        one, two = self._at(depth), other._at(depth)
        if one is two:
            return self.depth < other.depth
        while one.above is not two.above:
            together = one.far is two.far
            one, two = (one.above, two.above) if together else (one.far, two.far)
        return one.number < two.number

    def _at(self, depth: int) -> _Position:
        """The place of that depth which this is below."""
        index = self
        while index.depth > depth:
            index = index.far if index.far.depth >= depth else index.above
        return index


def order(block: Block, donated: Sequence[tuple[int, int]] = ()) -> None:
    """Moves operators up, from the first on; `donated` are places of arguments and of results."""
    readers = _readers_of_donated(block, donated)
    top = _Position(None, 0)
    positions = {op: _Position(top, number) for number, op in enumerate(block.ops)}
    definers = {name: op for op in block.ops for name in defined_sizes(op)}
    followers: dict[Operation, list[Operation]] = {}
    later = Counter(operand for op in block.walk() for operand in op.operands)
    for op in list(block.ops):
        later.subtract(op.operands)
        if not isinstance(op, FusedOp | GraphOp) or isinstance(op, ConstantOp):
            continue
        earlier = [each for each in readers.get(op, ()) if positions[each] < positions[op]]
        needed = [*_needed(op, definers), *earlier]
        latest = max(needed, key=lambda each: positions[each], default=None)
        if latest is None or _freed(op, later) <= _taken(op):
            continue
        moved = followers.setdefault(latest, [])
        last = _last(latest, followers)
        if last.next_op is not op:
            op.detach()
            block.insert_op_after(op, last)
        moved.append(op)
        positions[op] = _Position(positions[latest], len(moved))


def _readers_of_donated(
    block: Block, donated: Sequence[tuple[int, int]]
) -> dict[Operation, list[Operation]]:
    """By operator whose result may take a donated input's memory, the others that read it."""
    readers: dict[Operation, list[Operation]] = {}
    last = block.last_op
    assert last is not None, "a function returns"
    for source, target in donated:
        writer = last.operands[target].owner
        if not isinstance(writer, Operation):
            continue
        users = {block.find_ancestor_op_in_block(use.operation) for use in block.args[source].uses}
        found = [each for each in users if each not in (None, writer, last)]
        readers.setdefault(writer, []).extend(found)
    return readers


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


def _freed(op: Operation, later: Mapping[SSAValue, int]) -> int:
    """The memory of the operands that nothing reads behind the operator, and nothing in a region;
    `later` counts what else does.
    """
    return sum(
        nominal_bytes(each)
        for each in dict.fromkeys(op.operands)
        if isinstance(each.owner, Operation) and not later[each]
    )
