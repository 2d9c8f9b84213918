"""program -> program: loops that may run for long get a place where they can be told to end.

    loop.while { ... } do { loop.call @step ... }
    ->  loop.while { ... } do { loop.call @step ...  loop.poll [124 + 8 * n] }

The poll says what an iteration does: about as many operations and bytes. A program asks whether to
continue only when these add up to `POLLED_WORK`, so that a poll is a subtraction and a branch,
whatever an iteration takes. A loop that does less as a whole has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from weft.compiler.program.describe import call_bytes, call_flops
from weft.compiler.program.memory.plan_memory import buffer_bytes, kernels_of
from weft.dialects.expr import Expr
from weft.dialects.loop.concurrent import ConcurrentOp
from weft.dialects.loop.dynamic import CopyOp
from weft.dialects.loop.effects import POLLED_WORK, PollOp
from weft.dialects.loop.ops import ForOp, IfOp, WhileOp
from weft.dialects.loop.program import CallOp, KernelOp, ProgramOp, size_ranges
from weft.dialects.loop.types import buffer_type_of

_ITERATION = 64
"""What the loop itself counts as: some tens of nanoseconds."""

_CALL = 60
"""What a call itself counts as, on any CPU: how often a loop polls need not be known closely."""


class PollLoopsPass(ModulePass):
    """Adds polls to the loops of the program, by what kernels that are not scheduled compute."""

    name = "weft-poll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = kernels_of(op)
        for program in op.ops:
            if isinstance(program, ProgramOp):
                poll_loops(program, kernels)


def poll_loops(program: ProgramOp, kernels: Mapping[str, KernelOp]) -> None:
    """Adds polls to the loops of a program."""
    _Polling(program, kernels).work(program.body.block)


class _Polling:
    """Adds up the work of blocks, from the innermost on."""

    def __init__(self, program: ProgramOp, kernels: Mapping[str, KernelOp]):
        self._ranges = size_ranges(program)
        self._kernels = kernels

    def work(self, block: Block) -> Expr:
        """The work of a block, but for what polls inside of it count."""
        return sum((self._of(op) for op in block.ops), Expr.of(0))

    def _of(self, op: Operation) -> Expr:
        match op:
            case CallOp():
                moved = call_bytes(op) + _CALL
                return moved + call_flops(op, self._kernels[op.kernel])
            case CopyOp():
                return buffer_bytes(buffer_type_of(op.source))
            case ConcurrentOp():
                return sum((self.work(each.block) for each in op.branches), Expr.of(0))
            case IfOp():
                return self._branches(op)
            case ForOp():
                return self._for(op)
            case WhileOp():
                return self._while(op)
            case _:
                return Expr.of(1)

    def _branches(self, op: IfOp) -> Expr:
        """The longer branch; work over sizes, which a branch may find, is counted inside."""
        works = [self._number(each.block) for each in (op.then, op.otherwise)]
        return Expr.of(max(works))

    def _number(self, block: Block, before: Operation | None = None) -> int:
        """The work of a block where it is a number; else a poll counts it there."""
        work = self.work(block)
        if work.constant is not None:
            return work.constant
        poll = PollOp.of(work)
        if before is None:
            block.add_op(poll)
        else:
            block.insert_op_before(poll, before)
        return 1

    def _for(self, op: ForOp) -> Expr:
        iteration = self.work(op.body.block) + _ITERATION
        total = (op.upper - op.lower).ceildiv(op.step.data) * iteration
        _, most = total.range(self._ranges)
        if most is not None and most <= POLLED_WORK:
            return Expr.of(most)
        op.body.block.add_op(PollOp.of(iteration))
        return Expr.of(_ITERATION)

    def _while(self, op: WhileOp) -> Expr:
        condition = op.condition.block
        asked = self._number(condition, condition.last_op)
        op.body.block.add_op(PollOp.of(self.work(op.body.block) + asked + _ITERATION))
        return Expr.of(_ITERATION)
