"""How a call is told to end before it is done: `m_cancel`, the host's `poll`, and who asks them.

`m_cancel` counts. A call compares with the count that it began with, so that it is ended by what
came after its start alone, several calls are ended at once, and nothing has to be taken back.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime.code import (
    I32,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    declare_function,
    i32,
)
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.status import fail

POLL: Final = ir.FunctionType(I32, [POINTER])
"""The host's function: what is not 0 ends the call."""

_CANCEL: Final = ir.FunctionType(VOID, [POINTER])
_SET_POLL: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER])
_ASK: Final = ir.FunctionType(I32, [POINTER, I32])


def define_cancel(pool: Pool) -> None:
    """Defines `m_cancel` and `m_set_poll`."""
    code = pool.define_exported("cancel", _CANCEL)
    (context,) = code.arguments
    code.return_if(code.is_null(context))
    CONTEXT.update(code, context, "cancels", "add", i32(1), "monotonic")
    code.ret_void()
    code = pool.define_exported("set_poll", _SET_POLL)
    context, poll, user = code.arguments
    CONTEXT.store(code, context, "poll", poll)
    CONTEXT.store(code, context, "poll_user", user)
    code.ret_void()


def cancels_so_far(code: Code, context: ir.Value) -> ir.Value:
    """The count of `m_cancel` on the context."""
    return CONTEXT.load_atomic(code, context, "cancels", "monotonic")


def ask_to_go_on(code: Code, context: ir.Value, before: ir.Value) -> ir.Value:
    """The status OK, or CANCELLED with its reason in the context: for a call that began when the
    count was `before`.
    """
    return code.call(_asker(code.module), [context, before])


def _asker(module: ir.Module) -> ir.Function:
    """`i32 (context, i32 before)`; each module has a copy of its own, made at its first use."""
    name = "weft.ask_to_go_on"
    function = module.globals.get(name)
    if function is not None:
        return function
    function = declare_function(module, name, _ASK)
    function.linkage = "internal"
    compile_plainly(function)
    code = Code(function.append_basic_block("entry"))
    context, before = code.arguments
    now = cancels_so_far(code, context)
    with code.unlikely(code.icmp_unsigned("!=", now, before)):
        code.ret(_cancelled(code, context, "m_cancel"))
    poll = CONTEXT.load(code, context, "poll")
    code.return_if(code.is_null(poll), i32(Status.OK))
    answer = code.call_pointer(poll, POLL, [CONTEXT.load(code, context, "poll_user")])
    with code.unlikely(code.icmp_unsigned("!=", answer, i32(0))):
        code.ret(_cancelled(code, context, "a poll that is not 0"))
    code.ret(i32(Status.OK))
    return function


def _cancelled(code: Code, context: ir.Value, by: str) -> ir.Value:
    return fail(code, context, Status.CANCELLED, f"run requires time to end, got {by}")
