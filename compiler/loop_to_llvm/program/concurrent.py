"""loop.concurrent -> LLVM IR: a parallel loop over the branches, of which each is one thread's.

Kernels that a branch calls get no context, so that they run their parallel loops alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from msgspec import Struct

from weft.compiler.abi.constants import SpanNumber
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.parallel import BODY_TYPE
from weft.compiler.loop_to_llvm.runtime import Runtime
from weft.compiler.loop_to_llvm.scalar.elements import I64, POINTER


class KernelCall(Struct, frozen=True):
    """A kernel, and the sizes and buffers that it is called with; the number of the call, where the
    run time is told of it.
    """

    kernel: ir.Function
    arguments: Sequence[ir.Value]
    name: str
    number: int | None

    def emit(
        self, frame: Frame, runtime: Runtime, context: ir.Value, *, alone: bool = False
    ) -> None:
        """Calls the kernel at the end of a frame, `alone` on this thread."""
        if self.number is not None:
            enter_span(frame, runtime, context, self.number, self.name)
        own = ir.Constant(POINTER, None) if alone else frame.local(context)
        arguments = [frame.local(argument) for argument in self.arguments]
        frame.builder.call(self.kernel, [own, *arguments])


def leave_kernels(frame: Frame, runtime: Runtime, context: ir.Value) -> None:
    """Tells the run time that the program itself does something from now on."""
    enter_span(frame, runtime, context, SpanNumber.OTHER, "other")


def enter_span(frame: Frame, runtime: Runtime, context: ir.Value, number: int, name: str) -> None:
    """Tells the run time what the program does from now on; `number` as in a weft_span."""
    runtime.enter_span(frame.builder, frame.local(context), number, name)
    frame.builder.position_at_end(frame.builder.block)


Branch = Sequence[KernelCall]


def emit_branches(
    frame: Frame,
    runtime: Runtime,
    context: ir.Value,
    branches: Sequence[Branch],
    threads: tuple[int, int],
) -> None:
    """Runs the branches side by side where the context has a number of threads in the range, else
    one after the other.
    """
    builder = frame.builder
    number = runtime.threads(builder, context)
    builder.position_at_end(builder.block)
    least, most = (ir.Constant(I64, bound) for bound in threads)
    enough = builder.icmp_unsigned(">=", number, least)
    fits = builder.and_(enough, builder.icmp_unsigned("<=", number, most))
    with builder.if_else(fits) as (then, otherwise):
        with then:
            body = _outlined(frame, runtime, context, branches)
            closure = frame.closure(body.captured)
            count, one = ir.Constant(I64, len(branches)), ir.Constant(I64, 1)
            function = builder.bitcast(body.function, POINTER)
            runtime.parallel_for(builder, context, count, one, function, closure)
        with otherwise:
            _emit_branch(frame, runtime, context, [call for each in branches for call in each])


def _emit_branch(
    frame: Frame, runtime: Runtime, context: ir.Value, calls: Branch, *, alone: bool = False
) -> None:
    for call in calls:
        call.emit(frame, runtime, context, alone=alone)
    if calls and calls[-1].number is not None:
        leave_kernels(frame, runtime, context)


def _outlined(
    outer: Frame, runtime: Runtime, context: ir.Value, branches: Sequence[Branch]
) -> Frame:
    """The function `void (closure, begin, end)` that runs branches by number."""
    module = outer.builder.module
    name = module.get_unique_name(f"{outer.function.name}.branches")
    function = ir.Function(module, BODY_TYPE, name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    frame = Frame(function, outer)
    builder = frame.builder
    _, begin, end = function.args
    head, choose, after, done = (frame.block(n) for n in ("branch", "choose", "after", "done"))
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    number = builder.phi(I64)
    number.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", number, end), choose, done)
    builder.position_at_end(choose)
    switch = builder.switch(number, after)
    for position, branch in enumerate(branches):
        block = frame.block(f"branch{position}")
        switch.add_case(ir.Constant(I64, position), block)
        builder.position_at_end(block)
        _emit_branch(frame, runtime, context, branch, alone=True)
        builder.branch(after)
    builder.position_at_end(after)
    number.add_incoming(builder.add(number, ir.Constant(I64, 1)), after)
    builder.branch(head)
    builder.position_at_end(done)
    builder.ret_void()
    frame.finish()
    return frame
