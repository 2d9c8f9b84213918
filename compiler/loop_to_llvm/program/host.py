"""What a program hands to others: texts to print, calls of the host's functions, and of functions
that users bring along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.program.calls import hidden
from weft.compiler.loop_to_llvm.runtime import Runtime, clipped

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class Host:
    """Emits calls of the context's functions; `fail` ends the program where the builder stands."""

    def __init__(
        self,
        frame: Frame,
        runtime: Runtime,
        context: ir.Value,
        fail: Callable[[Status, str, Sequence[ir.Value]], None],
    ):
        self.frame = frame
        self.runtime = runtime
        self.context = context
        self.fail = fail

    def print(self, text: str, values: ir.Value, dims: ir.Value) -> None:
        """Hands a text, the values' addresses and their dims to what prints for the context."""
        builder, context = self.frame.builder, self.frame.local(self.context)
        self.runtime.print(builder, context, text, values, dims)
        builder.position_at_end(builder.block)

    def call(self, text: str, values: ir.Value, dims: ir.Value, origin: str) -> None:
        """Runs a function of the host, whose failure is the program's."""
        builder, context = self.frame.builder, self.frame.local(self.context)
        function = self.runtime.host_caller(builder, context)
        builder.position_at_end(builder.block)
        rule, null = f"run requires the host's {clipped(text)}", function.type(None)
        with builder.if_then(builder.icmp_unsigned("==", function, null), likely=False):
            self.fail(Status.BAD_VALUE, f"{rule}, got no call_host{origin}", [])
        status = self.runtime.call_host(builder, context, function, text, values, dims)
        builder.position_at_end(builder.block)
        failed = builder.icmp_signed("!=", status, ir.Constant(_I32, 0))
        with builder.if_then(failed, likely=False):
            code = builder.sext(status, _I64)
            self.fail(Status.CANCELLED, f"{rule} to succeed, got {{}}{origin}", [code])

    def native(self, prefix: str, callee: str | int, arguments: Sequence[ir.Value]) -> None:
        """Calls a function of the user's, which returns nothing: of an object file in the artifact,
        or at an address of this process.
        """
        builder = self.frame.builder
        function_type = ir.FunctionType(ir.VoidType(), [each.type for each in arguments])
        if isinstance(callee, int):
            address = ir.Constant(_I64, callee)
            function = builder.inttoptr(address, function_type.as_pointer())
        else:
            name = f"{prefix}.{callee}"
            known = builder.module.globals.get(name)
            function = hidden(builder.module, function_type, name) if known is None else known
        builder.call(function, arguments)
