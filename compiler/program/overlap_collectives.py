"""program -> program: collectives start as soon as what they read is there, and are waited for
where their result is read, so that calls between run while ranks communicate.

    loop.start %g, %s, loop.wait %g, %s, loop.call @a(%x, %y), loop.call @b(%s, %z)
    ->  loop.start %g, %s, loop.call @a(%x, %y), loop.wait %g, %s, loop.call @b(%s, %z)

All ranks of a group run the same operations, so the order in which they start collectives, and in
which they wait for them, is the same on all.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from weft.dialects.loop.communication import CommunicationOp, StartOp, WaitOp
from weft.dialects.loop.dynamic import SubviewOp, root
from weft.dialects.loop.program import ProgramOp, ViewOp


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


def _overlap(block: Block) -> None:
    touched = {op: frozenset(_touched(op)) for op in block.ops}
    for op in list(block.ops):
        if isinstance(op, StartOp):
            before = op.prev_op
            while before is not None and _commutes(before, op, touched):
                before = before.prev_op
            _put_behind(op, before, block)
    for op in reversed(list(block.ops)):
        if isinstance(op, WaitOp):
            behind = op
            while behind.next_op is not None and _commutes(behind.next_op, op, touched):
                behind = behind.next_op
            _put_behind(op, behind, block)


def _touched(op: Operation) -> Iterator[SSAValue]:
    """The buffers whose elements an operation, or one inside of it, uses."""
    for each in op.walk():
        if not isinstance(each, ViewOp | SubviewOp):
            yield from map(root, each.operands)


def _commutes(
    other: Operation, op: CommunicationOp, touched: dict[Operation, frozenset[SSAValue]]
) -> bool:
    """Whether an operation may stand on the other side: it uses none of the buffers, defines none
    of the operands, and is neither another start, or wait, nor the end of the block.
    """
    defines = not set(op.operands).isdisjoint(other.results)
    ordered = any(isinstance(each, type(op)) for each in other.walk())
    if defines or ordered or other.has_trait(IsTerminator):
        return False
    return touched[op].isdisjoint(touched[other])


def _put_behind(op: Operation, other: Operation | None, block: Block) -> None:
    if other is op:
        return
    first = block.first_op
    op.detach()
    if other is not None:
        block.insert_op_after(op, other)
    elif first is not None and first is not op:
        block.insert_op_before(op, first)
    else:
        block.add_op(op)
