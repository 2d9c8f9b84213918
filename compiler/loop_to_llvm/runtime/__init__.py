"""The run time of an artifact as LLVM IR: its exported functions, its context and its thread pool
(docs/abi.md).

`Runtime` is what programs and kernels reach it by. They are compiled as objects of their own, so
the names that they share are hidden globals under the model's prefix, and several models can be
linked into one program.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime.cancel import ask_to_go_on, cancels_so_far, define_cancel
from weft.compiler.loop_to_llvm.runtime.code import POINTER, Code, constant_bytes, i32, i64
from weft.compiler.loop_to_llvm.runtime.context import (
    ALLOCATE,
    CALL_HOST,
    PRINT,
    RELEASE,
    ContextFunctions,
)
from weft.compiler.loop_to_llvm.runtime.dlpack import DlpackCall
from weft.compiler.loop_to_llvm.runtime.entry import CHECK, RUN, EntryPoints
from weft.compiler.loop_to_llvm.runtime.layout import CHECK_SIZES, CONTEXT, PROGRAM, WORKSPACE
from weft.compiler.loop_to_llvm.runtime.message import (
    MESSAGE_WRITER,
    WRITE_MESSAGE,
    define_message_writer,
)
from weft.compiler.loop_to_llvm.runtime.metadata import WEIGHTS, Counts, Metadata, metadata_of
from weft.compiler.loop_to_llvm.runtime.platform import LIBC_NAMES, Platform
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.processor import Level, Processor
from weft.compiler.loop_to_llvm.runtime.self_test import Golden, SelfTestFunction
from weft.compiler.loop_to_llvm.runtime.status import Shown, Sizes, clipped, fail
from weft.compiler.loop_to_llvm.runtime.table import Table
from weft.compiler.target.target import Target

__all__ = [
    "CHECK_SIZES", "EXPORTS", "LATER_EXPORTS", "LIBC_NAMES", "PROGRAM", "WEIGHTS", "WORKSPACE",
    "Counts", "Level", "Runtime", "Sizes", "clipped", "exported_symbols", "metadata_of",
]  # fmt: skip

EXPORTS = (
    "abi_version", "metadata", "create", "destroy", "workspace_size", "run", "last_error",
    "release", "level", "query", "run_dlpack", "cancel", "set_poll",
)  # fmt: skip


"""What every artifact of this version of the ABI has."""

LATER_EXPORTS = "set_profile", "create_pool", "parallel_for"
"""What came later, and needs a system with threads and a clock."""


def exported_symbols(prefix: str, target: Target | None = None) -> tuple[str, ...]:
    """The symbols that an artifact for a target shows to others."""
    has_system = target is None or Platform(target).has_clock
    names = (*EXPORTS, *LATER_EXPORTS) if has_system else EXPORTS
    return tuple(f"{prefix}_{name}" for name in names)


class Runtime:
    """The run time of the model with that prefix, as seen from a module of LLVM IR.

    The prefix is a C identifier. Raises UnsupportedError for a target that the thread pool lacks
    the means for.
    """

    def __init__(self, module: ir.Module, target: Target, prefix: str):
        self.module = module
        self.platform = Platform(target)
        self.pool = Pool(module, self.platform, prefix)
        self.writer = self.pool.declare(WRITE_MESSAGE, MESSAGE_WRITER)
        self.metadata = Metadata(module, prefix)

    def define(self) -> None:
        """Defines all code of the run time here that any model has, on any processor. A linker adds
        what tells the levels, the program, the workspace, the blob of weights and the metadata.
        """
        processor = Processor(self.pool)
        define_message_writer(self.writer)
        self.pool.define()
        ContextFunctions(self.pool, self.metadata, processor).define()
        table = Table(self.pool, self.metadata.table)
        table.define()
        table.define_sizes()
        define_cancel(self.pool)
        EntryPoints(self.pool, self.metadata, table, processor.refusal).define()
        DlpackCall(self.pool, self.metadata, table).define()
        run = self.pool.declare(RUN, CHECK)
        # What the other modules of a model call:
        called = [self.pool.parallel_for, run, self.writer, *self.pool.profile.shared]
        self._hide_internals({each.name for each in called})

    def define_levels(self, levels: Sequence[Level] = ()) -> None:
        """Defines here what chooses among `levels`, from the least on, each of which has a program
        and a workspace under its own prefix where there are several; none is one that any CPU runs.
        """
        others = {each.name for each in self.module.functions if each.blocks}
        processor = Processor(self.pool, levels or [Level(self.pool.prefix)])
        processor.define()
        self._hide_internals({*others, *processor.shared})

    def define_self_test(self, golden: Golden, counts: Counts) -> None:
        """Defines the test of a model with this golden data here, beside the run time."""
        table = Table(self.pool, self.metadata.table)
        SelfTestFunction(self.pool, golden, table, counts).define()
        self._hide_internals(())

    def _hide_internals(self, shared: Container[str]) -> None:
        """Keeps what only this module calls to itself, so that kernels may have any other name."""
        for function in self.module.functions:
            if function.blocks and function.linkage == "hidden" and function.name not in shared:
                function.linkage = "internal"

    @property
    def program(self) -> ir.Function:
        """What `m_run` calls when all is well: `i32 (context, inputs, outputs, dims, workspace)`,
        a Status.
        """
        return self.pool.declare("program", PROGRAM)

    @property
    def check_sizes(self) -> ir.Function:
        """Whether the program allows the sizes: `i32 (context, dims)`, a Status."""
        return self.pool.declare("check_sizes", CHECK_SIZES)

    @property
    def workspace(self) -> ir.Function:
        """The bytes that the program needs: `i64 (dims)`."""
        return self.pool.declare("workspace", WORKSPACE)

    def parallel_for(
        self,
        builder: ir.IRBuilder,
        context: ir.Value,
        count: ir.Value,
        grain: ir.Value,
        body: ir.Value,
        argument: ir.Value,
    ) -> None:
        """Runs `body(argument, begin, end)` over 0 to `count`, about `grain` iterations or more at
        once, and returns when all are done.
        """
        builder.call(self.pool.parallel_for, [context, count, grain, body, argument])

    def threads(self, builder: ir.IRBuilder, context: ir.Value) -> ir.Value:
        """How many threads compute, the caller's among them: an i64."""
        with Code.continuing(builder) as code:
            return CONTEXT.load(code, context, "threads")

    def enter_span(self, builder: ir.IRBuilder, context: ir.Value, number: int, name: str) -> None:
        """Notes that the thread is at a call of a kernel from now on, or at something else, where
        the context has a profile; `number` as in a weft_span.
        """
        profile = self.pool.profile
        if profile.is_available:
            text = profile.kernel_name(name) if number >= 0 else profile.name(name)
            with Code.continuing(builder) as code:
                code.call(profile.enter, [context, i32(number), text])

    def weight_pointer(self, builder: ir.IRBuilder, context: ir.Value, index: int) -> ir.Value:
        """The address of a weight, by its place in what `define` was given."""
        with Code.continuing(builder) as code:
            table = CONTEXT.load(code, context, "weights")
            return code.load(code.element(table, i64(index), POINTER), typ=POINTER)

    def allocate(
        self, builder: ir.IRBuilder, context: ir.Value, size: ir.Value, alignment: int
    ) -> ir.Value:
        """Memory of the context's allocator, of an i64 of bytes; NULL where there is none."""
        with Code.continuing(builder) as code:
            function = CONTEXT.load(code, context, "allocate")
            user = CONTEXT.load(code, context, "allocator_user")
            return code.call_pointer(function, ALLOCATE, [user, size, i64(alignment)])

    def release(self, builder: ir.IRBuilder, context: ir.Value, memory: ir.Value) -> None:
        """Gives back what `allocate` gave."""
        with Code.continuing(builder) as code:
            function = CONTEXT.load(code, context, "release")
            user = CONTEXT.load(code, context, "allocator_user")
            code.call_pointer(function, RELEASE, [user, memory])

    def cancels_so_far(self, builder: ir.IRBuilder, context: ir.Value) -> ir.Value:
        """What a call has to know from its start for `ask_to_go_on`."""
        with Code.continuing(builder) as code:
            return cancels_so_far(code, context)

    def ask_to_go_on(self, builder: ir.IRBuilder, context: ir.Value, before: ir.Value) -> ir.Value:
        """The status OK, or CANCELLED where the call is to end."""
        with Code.continuing(builder) as code:
            return ask_to_go_on(code, context, before)

    def print(
        self, builder: ir.IRBuilder, context: ir.Value, text: str, values: ir.Value, dims: ir.Value
    ) -> None:
        """Hands a text and the addresses of values and dims to the context's `print`, if any."""
        with Code.continuing(builder) as code:
            function = CONTEXT.load(code, context, "print")
            with code.if_then(code.not_(code.is_null(function))):
                form = constant_bytes(code.module, "printed", text.encode() + b"\0")
                user = CONTEXT.load(code, context, "print_user")
                code.call_pointer(function, PRINT, [user, form, values, dims])

    def host_caller(self, builder: ir.IRBuilder, context: ir.Value) -> ir.Value:
        """The context's `call_host`, or NULL."""
        with Code.continuing(builder) as code:
            return CONTEXT.load(code, context, "call_host")

    def call_host(
        self,
        builder: ir.IRBuilder,
        context: ir.Value,
        function: ir.Value,
        text: str,
        values: ir.Value,
        dims: ir.Value,
    ) -> ir.Value:
        """Hands a text and the addresses of values and dims to a `call_host`; its status."""
        with Code.continuing(builder) as code:
            form = constant_bytes(code.module, "host_call", text.encode() + b"\0")
            user = CONTEXT.load(code, context, "print_user")
            return code.call_pointer(function, CALL_HOST, [user, form, values, dims])

    def fail(
        self,
        builder: ir.IRBuilder,
        context: ir.Value,
        status: Status,
        text: str,
        shown: Sequence[Shown] = (),
    ) -> ir.Value:
        """Writes the text into the context, each `{}` in it as the next of what is shown.

        Gives the i32 to return.
        """
        with Code.continuing(builder) as code:
            return fail(code, context, status, text, shown)
