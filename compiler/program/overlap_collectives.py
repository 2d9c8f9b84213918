"""program -> program: collectives start as soon as what they read is there, and are waited for
where their result is read, so that calls between run while ranks communicate.

    loop.start %g, %s, loop.wait %g, %s, loop.call @a(%x, %y), loop.call @b(%s, %z)
    ->  loop.start %g, %s, loop.call @a(%x, %y), loop.wait %g, %s, loop.call @b(%s, %z)

Starts are in the order in which operands are there, not in that of waits: gradients are there from
the last layer to the first, while an optimiser may begin with the first, for whose gradient all
others would wait. All ranks of a group run the same operations, so either order is the same on all.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from weft.compiler.program.memory.plan_memory import buffer_bytes
from weft.dialects.loop.communication import CommunicationOp, StartOp, WaitOp
from weft.dialects.loop.dynamic import SubviewOp, root
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import ProgramOp, ViewOp
from weft.dialects.loop.types import buffer_type_of


class OverlapCollectivesPass(ModulePass):
    """Moves starts up and waits down, each in its block."""

    name = "weft-overlap-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in op.ops:
            if isinstance(program, ProgramOp):
                found = [each for each in program.walk() if isinstance(each, CommunicationOp)]
                for block in dict.fromkeys(each.parent for each in found):
                    assert block is not None, "an operation of a program stands in a block"
                    _overlap(block)


class _Uses(NamedTuple):
    """What an operation, with all inside of it, means to one that is to pass it: the buffers whose
    elements it uses, and the starts and waits that it has.
    """

    touched: frozenset[SSAValue]
    ordered: frozenset[type[Operation]]

    @staticmethod
    def of(op: Operation) -> _Uses:
        inside = [each for each in op.walk() if not isinstance(each, ViewOp | SubviewOp)]
        touched = (root(value) for each in inside for value in each.operands)
        ordered = (type(each) for each in inside if isinstance(each, CommunicationOp))
        return _Uses(frozenset(touched), frozenset(ordered))


def _overlap(block: Block) -> None:
    uses = {op: _Uses.of(op) for op in block.ops}
    for op in list(block.ops):
        if isinstance(op, StartOp):
            for value in op.operands:
                _define_first(value, block)
            _put_behind(op, _last_before(op, block, uses), block)
    for op in reversed(list(block.ops)):
        if isinstance(op, WaitOp):
            behind = op
            while behind.next_op is not None and _commutes(behind.next_op, op, uses):
                behind = behind.next_op
            _put_behind(op, behind, block)


def _define_first(value: SSAValue, block: Block) -> None:
    """Moves what defines a buffer of constant size, of the workspace or a view, to the beginning of
    a block.
    """
    op = value.owner
    if not isinstance(op, Operation) or op.parent is not block:
        return
    if buffer_bytes(buffer_type_of(value)).constant is None:
        return
    if isinstance(op, AllocOp):
        _put_behind(op, None, block)
    elif isinstance(op, ViewOp):
        _define_first(op.source, block)
        owner = op.source.owner
        inside = owner if isinstance(owner, Operation) and owner.parent is block else None
        _put_behind(op, inside, block)


def _last_before(op: StartOp, block: Block, uses: dict[Operation, _Uses]) -> Operation | None:
    """What a start comes behind: what it has to, and the starts that are there."""
    before = op.prev_op
    while before is not None and _commutes(before, op, uses):
        before = before.prev_op
    behind = block.first_op if before is None else before.next_op
    while isinstance(behind, StartOp) and behind is not op:
        before, behind = behind, behind.next_op
    return before


def _commutes(other: Operation, op: CommunicationOp, uses: dict[Operation, _Uses]) -> bool:
    """Whether an operation may stand on the other side: it uses none of the buffers, defines none
    of the operands, and is neither another wait, nor has starts or waits, nor ends the block.
    """
    defines = not set(op.operands).isdisjoint(other.results)
    passed = isinstance(op, StartOp) and isinstance(other, StartOp)
    ordered = not passed and type(op) in uses[other].ordered
    if defines or ordered or other.has_trait(IsTerminator):
        return False
    return uses[op].touched.isdisjoint(uses[other].touched)


def _put_behind(op: Operation, other: Operation | None, block: Block) -> None:
    """Moves an operation behind another one of its block, or to the beginning."""
    if op is (block.first_op if other is None else other):
        return
    op.detach()
    if other is not None:
        block.insert_op_after(op, other)
    elif block.first_op is not None:
        block.insert_op_before(op, block.first_op)
    else:
        block.add_op(op)
