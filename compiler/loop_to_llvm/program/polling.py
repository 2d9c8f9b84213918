"""loop.poll -> LLVM IR: a program counts down the work that it does, and asks the run time whether
to continue each time that a share of it is done.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.runtime import Runtime
from weft.compiler.loop_to_llvm.scalar.elements import I32, I64, intrinsic
from weft.dialects.loop.effects import POLLED_WORK

_ALL = ir.Constant(I64, POLLED_WORK)
_MORE_THAN_ALL = ir.Constant(I64, POLLED_WORK + 1)


class Polling:
    """Emits the polls of one program; `leave` ends it with a status where the builder stands."""

    def __init__(
        self, frame: Frame, runtime: Runtime, context: ir.Value, leave: Callable[[ir.Value], None]
    ):
        self.frame = frame
        self.runtime = runtime
        self.context = context
        self.leave = leave
        self._begun: tuple[ir.Value, ir.Value] | None = None

    def _begin(self) -> tuple[ir.Value, ir.Value]:
        """Where the work is counted down, and what the call knows from its start."""
        left, start = self.frame.alloca(I64, 1, 8), self.frame.prologue
        start.store(_ALL, left)
        before = self.runtime.cancels_so_far(start, self.context)
        start.position_at_end(start.block)
        return left, before

    def poll(self, work: ir.Value) -> None:
        """Counts the work; asks whether to continue where that is enough, and ends where not."""
        self._begun = self._begun or self._begin()
        address, before = self._begun
        builder = self.frame.builder
        # Sizes whose work wraps around count as much.
        counted = intrinsic(builder, "umin", I64, [work, _MORE_THAN_ALL], I64)
        left = builder.sub(builder.load(address, typ=I64), counted)
        builder.store(left, address)
        with builder.if_then(builder.icmp_signed("<", left, ir.Constant(I64, 0)), likely=False):
            builder.store(_ALL, address)
            status = self.runtime.ask_to_go_on(builder, self.context, before)
            builder.position_at_end(builder.block)
            ends = builder.icmp_signed("!=", status, ir.Constant(I32, Status.OK))
            with builder.if_then(ends, likely=False):
                self.leave(status)
