"""Where the time of calls goes: `m_set_profile`, and what programs and the pool tell the host.

Each thread has a record of the span that it is in. To enter another one ends it, with one reading
of the clock for both, so that the spans of the thread that called `m_run` leave no gap. A context
without a profile costs a comparison for each kernel.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import msgspec
from llvmlite import ir

from weft.compiler.abi.constants import SpanNumber
from weft.compiler.loop_to_llvm.runtime.code import (
    BODY,
    I8,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    constant_bytes,
    declare_function,
    i32,
    i64,
    new_function,
)
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT, SPAN, Field, Struct
from weft.compiler.loop_to_llvm.runtime.platform import MONOTONIC, Platform

_PROFILE: Final = ir.FunctionType(VOID, [POINTER, POINTER])
"""The host's function: `profile(user, span)`."""

_SET_PROFILE: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER])
_ENTER: Final = ir.FunctionType(VOID, [POINTER, I32, POINTER])
_RUN: Final = ir.FunctionType(I32, [POINTER, POINTER])
_RUN_PART: Final = ir.FunctionType(VOID, [POINTER, I32, POINTER, POINTER, POINTER, I64, I64])
_TELL: Final = ir.FunctionType(VOID, [POINTER, I64, I64, I32, POINTER])

Noted = tuple[Struct, ir.Value]
"""A structure with members `part_number` and `part_name`, and its address."""

_RECORD: Final = Struct(24, begin=Field(I64, 0), name=Field(POINTER, 8), number=Field(I32, 16))
"""The span that a thread is in; its name is NULL outside of calls that are profiled."""


class Part(msgspec.Struct, frozen=True):
    """Iterations of a parallel loop: `body(argument, begin, end)`."""

    body: ir.Value
    arguments: list[ir.Value]

    def run(self, code: Code) -> None:
        code.call_pointer(self.body, BODY, self.arguments)


class Profile:
    """Emits the functions of a model with that prefix, and calls of them."""

    def __init__(self, module: ir.Module, platform: Platform, prefix: str):
        self.module = module
        self.platform = platform
        self.prefix = prefix

    @property
    def is_available(self) -> bool:
        """Whether artifacts for this system have profiles."""
        return self.platform.has_clock

    def define(self) -> None:
        """Defines `m_set_profile` and what calls of it need."""
        self._define_set_profile()
        self._define_enter()
        self._define_change()
        self._define_clock()
        self._define_tell()
        self._define_run_part()
        self._define_waited()

    def _declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        return declare_function(self.module, f"{self.prefix}.profile.{name}", function_type)

    # What others call

    @property
    def enter(self) -> ir.Function:
        """`void (context, number, name)`: the thread is now at that; nothing without a profile."""
        return self._declare("enter", _ENTER)

    @property
    def shared(self) -> list[ir.Function]:
        """What programs call."""
        return [self.enter] if self.is_available else []

    def is_on(self, code: Code, context: ir.Value) -> ir.Value:
        """Whether the context has a profile."""
        return code.not_(code.is_null(CONTEXT.load(code, context, "profile")))

    def change(self, code: Code, context: ir.Value, number: ir.Value, name: ir.Value) -> None:
        """As `enter`, where there is a profile."""
        code.call(self._change, [context, number, name])

    def _current(self, code: Code) -> tuple[ir.Value, ir.Value]:
        """The number and the name of the calling thread's span."""
        return _RECORD.load(code, self._record, "number"), _RECORD.load(code, self._record, "name")

    @contextmanager
    def waiting(self, code: Code, context: ir.Value, waits: ir.Value) -> Generator[None]:
        """What is emitted within waits for other threads, where the condition holds: that is a span
        of its own, behind which the one before goes on.
        """
        if not self.is_available:
            yield
            return
        told = code.and_(self.is_on(code, context), waits)
        before = code.variable_at_entry(I32), code.variable_at_entry(POINTER)
        with code.unlikely(told):
            for address, value in zip(before, self._current(code), strict=True):
                code.store(value, address)
            self.change(code, context, i32(SpanNumber.WAIT), self.name("wait"))
        yield
        with code.unlikely(told):
            number, name = code.load(before[0], typ=I32), code.load(before[1], typ=POINTER)
            self.change(code, context, number, name)

    @contextmanager
    def waiting_since(self, code: Code, context: ir.Value, worked: ir.Value) -> Generator[None]:
        """What is emitted within is the host's loop, from whose end on the calling thread goes on:
        since it worked last, which `note_worked` writes to the address, it has waited.
        """
        if self.is_available:
            with code.unlikely(self.is_on(code, context)):
                code.store(code.call(self._clock, []), worked)
        yield
        if self.is_available:
            with code.unlikely(self.is_on(code, context)):
                code.call(self._waited, [context, code.load(worked, typ=I64)])

    def note_worked(self, code: Code, context: ir.Value, worked: ir.Value) -> None:
        """Writes the time where the thread is in a span, as that of the call is and no worker."""
        if not self.is_available:
            return
        with (
            code.unlikely(self.is_on(code, context)),
            code.if_then(code.not_(code.is_null(self._current(code)[1]))),
        ):
            code.store(code.call(self._clock, []), worked)

    def note_span(self, code: Code, context: ir.Value, noted: Noted) -> None:
        """Notes which span a loop belongs to, for the threads that run parts of it."""
        if not self.is_available:
            return
        struct, base = noted
        with code.unlikely(self.is_on(code, context)):
            number, name = self._current(code)
            struct.store_atomic(code, base, "part_number", number, "monotonic")
            struct.store_atomic(code, base, "part_name", name, "monotonic")

    def run_part(self, code: Code, context: ir.Value, noted: Noted, part: Part) -> None:
        """Runs a part of a loop, as one of the span that was noted."""
        if not self.is_available:
            part.run(code)
            return
        with code.if_else(self.is_on(code, context), likely=False) as (told, untold):
            with told:
                struct, base = noted
                span = [
                    struct.load_atomic(code, base, each, "monotonic")
                    for each in ("part_number", "part_name")
                ]
                code.call(self._run_part, [context, *span, part.body, *part.arguments])
            with untold:
                part.run(code)

    def name(self, text: str) -> ir.Value:
        """The text in this module, once."""
        symbol = f"profile.name.{text}"
        return self.module.globals.get(symbol) or constant_bytes(
            self.module, symbol, text.encode() + b"\0"
        )

    # Functions

    @property
    def _record(self) -> ir.GlobalVariable:
        name = f"{self.prefix}.profile.record"
        record = self.module.globals.get(name)
        if record is None:
            zeros = ir.Constant(ir.ArrayType(I8, _RECORD.size), None)
            record = ir.GlobalVariable(self.module, zeros.type, name)
            record.type = POINTER
            record.initializer, record.linkage, record.align = zeros, "internal", 8
            record.storage_class = "thread_local"
        return record

    def _define_set_profile(self) -> None:
        name = f"{self.prefix}_set_profile"
        code = new_function(self.module, name, _SET_PROFILE, visible=True)
        context, profile, user = code.arguments
        CONTEXT.store(code, context, "profile", profile)
        CONTEXT.store(code, context, "profile_user", user)
        code.ret_void()

    def _define_enter(self) -> None:
        code = Code(self.enter.append_basic_block("entry"))
        context, number, name = code.arguments
        with code.unlikely(self.is_on(code, context)):
            self.change(code, context, number, name)
        code.ret_void()

    @property
    def _change(self) -> ir.Function:
        return self._declare("change", _ENTER)

    def _define_change(self) -> None:
        """Tells the thread's span, which ends, and notes the next; none where the name is NULL."""
        self._change.attributes.add("noinline")
        code = Code(self._change.append_basic_block("entry"))
        context, number, name = code.arguments
        now = code.call(self._clock, [])
        before, before_name = self._current(code)
        with code.if_then(code.not_(code.is_null(before_name))):
            begin = _RECORD.load(code, self._record, "begin")
            code.call(self._tell, [context, begin, now, before, before_name])
        self._note(code, now, number, name)
        code.ret_void()

    def _note(self, code: Code, begin: ir.Value, number: ir.Value, name: ir.Value) -> None:
        _RECORD.store(code, self._record, "begin", begin)
        _RECORD.store(code, self._record, "number", number)
        _RECORD.store(code, self._record, "name", name)

    @property
    def _clock(self) -> ir.Function:
        return self._declare("clock", ir.FunctionType(I64, []))

    def _define_clock(self) -> None:
        """Nanoseconds since some start."""
        code = Code(self._clock.append_basic_block("entry"))
        code.ret(self.platform.clock(code, MONOTONIC))

    @property
    def _tell(self) -> ir.Function:
        return self._declare("tell", _TELL)

    def _define_tell(self) -> None:
        """Calls the host's function with a span of this thread."""
        code = Code(self._tell.append_basic_block("entry"))
        context, begin, end, number, name = code.arguments
        span = code.variable(ir.ArrayType(I64, SPAN.size // 8))
        thread = self.platform.call(code, "pthread_self", [])
        values = {
            "size": i64(SPAN.size), "begin": begin, "end": end, "thread": thread,
            "name": name, "number": number, "reserved": i32(0),
        }  # fmt: skip
        for member, value in values.items():
            SPAN.store(code, span, member, value)
        profile = CONTEXT.load(code, context, "profile")
        user = CONTEXT.load(code, context, "profile_user")
        code.call_pointer(profile, _PROFILE, [user, span])
        code.ret_void()

    @property
    def _waited(self) -> ir.Function:
        return self._declare("waited", ir.FunctionType(VOID, [POINTER, I64]))

    def _define_waited(self) -> None:
        """Ends the thread's span at a time, tells of waiting from there on, and continues it."""
        code = Code(self._waited.append_basic_block("entry"))
        context, since = code.arguments
        now, span = code.call(self._clock, []), self._current(code)
        code.call(self._tell, [context, _RECORD.load(code, self._record, "begin"), since, *span])
        waiting = i32(SpanNumber.WAIT), self.name("wait")
        code.call(self._tell, [context, since, now, *waiting])
        self._note(code, now, *span)
        code.ret_void()

    @property
    def _run_part(self) -> ir.Function:
        return self._declare("run_part", _RUN_PART)

    def _define_run_part(self) -> None:
        """Runs a part as a span of this thread; one that is in a span already stays there."""
        code = Code(self._run_part.append_basic_block("entry"))
        context, number, name, body, *part = code.arguments
        is_inside = code.not_(code.is_null(self._current(code)[1]))
        with code.if_then(is_inside):
            Part(body, part).run(code)
            code.ret_void()
        self.change(code, context, number, name)
        Part(body, part).run(code)
        self.change(code, context, i32(0), NULL)
        code.ret_void()

    def define_run(self, run: ir.Function) -> ir.Function:
        """`i32 (context, call)`: does what `run` does, and tells its spans and then the whole."""
        code = Code(self._declare("run", _RUN).append_basic_block("entry"))
        context, _ = code.arguments
        # A host may call another model from a function that this one calls.
        outer = _RECORD.load(code, self._record, "begin"), *self._current(code)
        begin = code.call(self._clock, [])
        self._note(code, begin, i32(SpanNumber.OTHER), self.name("other"))
        status = code.call(run, code.arguments)
        self.change(code, context, i32(0), NULL)
        end = _RECORD.load(code, self._record, "begin")
        call = [context, begin, end, i32(SpanNumber.CALL), self.name("call")]
        code.call(self._tell, call)
        self._note(code, *outer)
        code.ret(status)
        return code.function
