"""Which stage of a pipeline computes each operator, from the values that `graph.stage` marks.

What follows from a marked value is in its stage, and what several stages lead to in the last of
them. Behind `graph.stage_of`, in a derivative, the largest operand decides, so that updates are
where their parameters are, and of equals the first stage. What no mark leads to, such as all of the
first stage, is where it is read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.graph.differentiate.residuals import nominal_bytes
from weft.dialects.graph import ConstantOp, StageOfOp, StageOp

BOUNDARIES = (StageOp, StageOfOp)


class Assignment(Struct):
    """The stage of each operator but constants and marks, and those that follow a `stage_of`."""

    stages: dict[Operation, int] = field(default_factory=dict[Operation, int])
    reverse: set[Operation] = field(default_factory=set[Operation])


def assign_stages(block: Block) -> Assignment:
    """The stages of a block's operators, and of marks: those that they begin."""
    assignment = Assignment()
    free: list[Operation] = []
    for op in block.ops:
        if isinstance(op, ConstantOp) or op is block.last_op:
            continue
        placed = [value for value in reads(op) if value.owner in assignment.stages]
        if isinstance(op, StageOp):
            assignment.stages[op] = op.index.value.data
        elif isinstance(op, StageOfOp):
            assignment.stages[op] = _stage(op.like, assignment.stages)
            assignment.reverse.add(op)
        elif placed:
            _assign(op, placed, assignment)
        else:
            free.append(op)
    for op in reversed(free):
        assignment.stages[op] = min(_readers(op, assignment), default=0)
    return assignment


def reads(op: Operation) -> list[SSAValue]:
    """The values that an operator reads, in its regions too, each once."""
    inner = (value for each in op.walk() for value in each.operands)
    own = {result for each in op.walk() if each is not op for result in each.results}
    own |= {arg for region in op.regions for block in region.blocks for arg in block.args}
    return [value for value in dict.fromkeys(inner) if value not in own]


def _assign(op: Operation, placed: list[SSAValue], assignment: Assignment) -> None:
    stages: Mapping[Operation, int] = assignment.stages
    behind = [value for value in placed if value.owner in assignment.reverse]
    if not behind:
        assignment.stages[op] = max(_stage(value, stages) for value in placed)
        return
    assignment.reverse.add(op)
    most = max(map(nominal_bytes, behind))
    largest = (each for each in behind if nominal_bytes(each) == most)
    assignment.stages[op] = min(_stage(each, stages) for each in largest)


def _stage(value: SSAValue, stages: Mapping[Operation, int]) -> int:
    """That of what computes a value; the first of what is not assigned yet."""
    owner = value.owner
    return stages.get(owner, 0) if isinstance(owner, Operation) else 0


def _readers(op: Operation, assignment: Assignment) -> Iterator[int]:
    """The stages that read an operator's results. A mark takes them from the first."""
    for result in op.results:
        for use in result.uses:
            user = use.operation
            while user.parent is not op.parent:
                outer = user.parent_op()
                assert outer is not None, "what reads a value of a block is in it"
                user = outer
            if isinstance(user, StageOp):
                yield 0
            elif user in assignment.stages and not (isinstance(user, StageOfOp) and use.index):
                yield assignment.stages[user]
