"""The core that a worker runs on, where other threads want it too.

A system that wakes a worker on the core of its caller leaves both there while another process
keeps the next core busy: so the worker goes elsewhere. There it gets a part of the core's time,
and what it holds when that is over waits with it, and its caller too: so it gives the core up
between two loops, when it holds nothing, before the system takes it away.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import (
    I64,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    declare_function,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT, Field, Struct
from weft.compiler.loop_to_llvm.runtime.platform import (
    CPU_SET_BYTES,
    MONOTONIC,
    THREAD_TIME,
    Platform,
)

_TURN_NS: Final = 1_000_000
"""How long a worker computes on a core before it gives it up: systems let a thread have one for 2
to 4 ms while others wait. As long it stays on a core that it went to.
"""

_AWAY_NS: Final = 100_000
"""A worker that did not compute for so long of its turn slept, or was interrupted."""

_WORD_BITS: Final = 6

_STATE: Final = Struct(24, moved=Field(I64, 0), began=Field(I64, 8), computed=Field(I64, 16))
"""When the worker changed its core, when its turn began, and what it had computed until then."""

_LEAVE: Final = ir.FunctionType(VOID, [POINTER, I64, POINTER])
_GIVE_UP: Final = ir.FunctionType(VOID, [POINTER])


class WorkerCore:
    """Emits the functions of a model with that prefix, and calls of them."""

    def __init__(self, module: ir.Module, platform: Platform, prefix: str):
        self.module = module
        self.platform = platform
        self.prefix = prefix

    def define(self) -> None:
        """Defines what the calls need."""
        if self.platform.has_threads:
            self._define_leave()
            self._define_give_up()

    def note_caller(self, code: Code, context: ir.Value) -> None:
        """Writes which core the caller of a loop is on."""
        if self.platform.has_threads:
            core = self.platform.call(code, "sched_getcpu", [])
            CONTEXT.store_atomic(code, context, "core", core, "monotonic")

    @staticmethod
    def new_state(code: Code) -> ir.Value:
        """Room for what a worker remembers."""
        words = ir.ArrayType(I64, _STATE.size // 8)
        return code.variable(words, ir.Constant(words, None))

    def leave_caller(self, code: Code, context: ir.Value, state: ir.Value) -> None:
        """Goes to another core where the worker is on that of the last loop's caller."""
        if not self.platform.has_threads:
            return
        core = self.platform.call(code, "sched_getcpu", [])
        callers = CONTEXT.load_atomic(code, context, "core", "monotonic")
        with code.unlikely(code.icmp_unsigned("==", core, callers)):
            code.call(self._leave, [context, code.zext(core, I64), state])

    def give_up(self, code: Code, state: ir.Value) -> None:
        """Lets others have the core where the worker's turn is over."""
        if self.platform.has_threads:
            code.call(self._give_up, [state])

    @property
    def _leave(self) -> ir.Function:
        return declare_function(self.module, f"{self.prefix}.leave_core", _LEAVE)

    def _define_leave(self) -> None:
        """Allows this thread all its cores but that one, which moves it, and then all again; not
        where a pool has more threads than cores.
        """
        code = Code(self._leave.append_basic_block("entry"))
        compile_plainly(code.function)
        context, core, state = code.arguments
        now = self.platform.clock(code, MONOTONIC)
        stayed = code.sub(now, _STATE.load(code, state, "moved"))
        code.return_if(code.icmp_unsigned("<", stayed, i64(_TURN_NS)))
        _STATE.store(code, state, "moved", now)
        cores, count = self.platform.usable_cores(code)
        code.return_if(code.icmp_unsigned("<", count, CONTEXT.load(code, context, "threads")))
        number = code.lshr(core, i64(_WORD_BITS))
        code.return_if(code.icmp_unsigned(">=", number, i64(CPU_SET_BYTES // 8)))
        word = code.element(cores, number, I64)
        before = code.load(word, typ=I64)
        bit = code.shl(i64(1), code.and_(core, i64((1 << _WORD_BITS) - 1)))
        for allowed in (code.and_(before, code.not_(bit)), before):
            code.store(allowed, word)
            self.platform.call(code, "sched_setaffinity", [i32(0), i64(CPU_SET_BYTES), cores])
        code.ret_void()

    @property
    def _give_up(self) -> ir.Function:
        return declare_function(self.module, f"{self.prefix}.give_up_core", _GIVE_UP)

    def _define_give_up(self) -> None:
        code = Code(self._give_up.append_basic_block("entry"))
        (state,) = code.arguments
        now = self.platform.clock(code, MONOTONIC)
        passed = code.sub(now, _STATE.load(code, state, "began"))
        code.return_if(code.icmp_unsigned("<", passed, i64(_TURN_NS)))
        total = self.platform.clock(code, THREAD_TIME)
        away = code.sub(passed, code.sub(total, _STATE.load(code, state, "computed")))
        _STATE.store(code, state, "began", now)
        _STATE.store(code, state, "computed", total)
        with code.if_then(code.icmp_signed("<", away, i64(_AWAY_NS))):
            self.platform.call(code, "sched_yield", [])
        code.ret_void()
