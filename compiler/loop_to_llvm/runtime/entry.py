"""The exported functions of an artifact beside create and destroy: what a call must satisfy, and
what it reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from weft.compiler.abi.constants import ABI_VERSION, WORKSPACE_ALIGNMENT, Status
from weft.compiler.loop_to_llvm.runtime.code import (
    I1,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    constant_bytes,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.context import RELEASE
from weft.compiler.loop_to_llvm.runtime.create_failure import CreateFailure
from weft.compiler.loop_to_llvm.runtime.layout import (
    CALL,
    CHECK_SIZES,
    CONTEXT,
    PROGRAM,
    SYMBOL,
    TENSOR,
    WORKSPACE,
)
from weft.compiler.loop_to_llvm.runtime.metadata import Metadata
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.status import NO_CONTEXT_TEXT, Shown, fail
from weft.compiler.loop_to_llvm.runtime.table import Table
from weft.dialects.extent import MOST

CHECK: Final = ir.FunctionType(I32, [POINTER, POINTER])
"""A status of a context and a weft_call."""

RUN: Final = "call.run"
"""What `m_run` does, behind the prefix; no kernel is called so. A self-test, another object, calls
this one: that of another library cannot take its place.
"""

_NO_WORKSPACE: Final = -1
_EXTENT: Final = f"0 to {MOST}"


class EntryPoints:
    """Emits the exported functions; the program and its workspace are defined in another module."""

    def __init__(self, pool: Pool, metadata: Metadata, table: Table, refusal: ir.Function):
        self.module: ir.Module = pool.module
        self.platform = pool.platform
        self.prefix = pool.prefix
        self.pool = pool
        self.metadata = metadata
        self.table = table
        self.refusal = refusal

    def define(self) -> None:
        self._define_abi_version()
        self._define_metadata()
        self._define_last_error()
        self._define_level()
        self._define_release_output()
        self._define_workspace_size()
        self._define_check_head()
        self._define_check_tables()
        self._define_check_dims()
        self._define_check_workspace()
        self._define_run()

    def _export(self, name: str, result: ir.Type, operands: Sequence[ir.Type]) -> Code:
        return self.pool.define_exported(name, ir.FunctionType(result, operands))

    def _fail(self, code: Code, status: Status, text: str, shown: Sequence[Shown] = ()) -> None:
        """Ends the function with the status, and the text in the context of its first argument."""
        code.ret(fail(code, code.arguments[0], status, text, shown))

    def _define_abi_version(self) -> None:
        self._export("abi_version", I32, []).ret(i32(ABI_VERSION))

    def _define_metadata(self) -> None:
        self._export("metadata", POINTER, []).ret(self.metadata.metadata)

    def _define_last_error(self) -> None:
        code = self._export("last_error", POINTER, [POINTER])
        (context,) = code.arguments
        text = constant_bytes(
            self.module, f"{self.prefix}.no_context", NO_CONTEXT_TEXT.encode() + b"\0"
        )
        with code.if_then(code.is_null(context)):
            refusal = code.call(self.refusal, [])
            otherwise = code.select(code.is_null(refusal), text, refusal)
            failure = CreateFailure(self.module, self.platform, self.prefix)
            code.ret(failure.reason(code, otherwise))
        code.ret(CONTEXT.address(code, context, "error"))

    def _define_level(self) -> None:
        """The number of the level that the context was made for, -1 without one."""
        code = self._export("level", I32, [POINTER])
        (context,) = code.arguments
        code.return_if(code.is_null(context), i32(-1))
        code.ret(CONTEXT.load(code, context, "level"))

    def _define_release_output(self) -> None:
        """Takes back an output that the model made."""
        code = self._export("release", VOID, [POINTER, POINTER])
        context, memory = code.arguments
        with code.if_then(code.not_(code.is_null(memory))):
            function = CONTEXT.load(code, context, "release")
            user = CONTEXT.load(code, context, "allocator_user")
            code.call_pointer(function, RELEASE, [user, memory])
        code.ret_void()

    def _define_workspace_size(self) -> None:
        """Bytes, or the greatest number where dims are missing or not allowed."""
        code = self._export("workspace_size", I64, [POINTER])
        (dims,) = code.arguments
        number, count = code.variable(I64), self.metadata.count(code, "dims")
        code.return_if(is_missing(code, dims, count), i64(_NO_WORKSPACE))
        with code.repeat(count, number) as position:
            dim = code.load(code.element(dims, position, I64), typ=I64)
            code.return_if(code.icmp_unsigned(">", dim, i64(MOST)), i64(_NO_WORKSPACE))
        status = code.call(self.pool.declare("check_sizes", CHECK_SIZES), [NULL, dims])
        refused = code.icmp_unsigned("!=", status, i32(Status.OK))
        code.return_if(refused, i64(_NO_WORKSPACE))
        code.ret(code.call(self.pool.declare("workspace", WORKSPACE), [dims]))

    def _check(self, name: str) -> ir.Function:
        return self.pool.declare(name, CHECK)

    def _define_check_head(self) -> None:
        """Whether the call is a weft_call of this version."""
        code = Code(self._check("check_head").append_basic_block("entry"))
        _, call = code.arguments
        with code.unlikely(code.is_null(call)):
            self._fail(code, Status.NULL_POINTER, "run requires a weft_call, got NULL")
        size = CALL.load(code, call, "size")
        with code.unlikely(code.icmp_unsigned("!=", size, i64(CALL.size))):
            text = f"run requires a weft_call of {CALL.size} bytes, got {{}}"
            self._fail(code, Status.BAD_CALL, text, [size])
        for position in range(CALL.fields["reserved"].count):
            offset = CALL.fields["reserved"].offset + 8 * position
            word = code.load(code.at(call, offset), typ=I64)
            with code.unlikely(code.icmp_unsigned("!=", word, i64(0))):
                text = f"run requires reserved[{position}] to be 0, got {{}}"
                self._fail(code, Status.BAD_CALL, text, [word])
        code.ret(i32(Status.OK))

    def _define_check_tables(self) -> None:
        """Whether the call has the buffers that it needs."""
        code = Code(self._check("check_tables").append_basic_block("entry"))
        _, call = code.arguments
        number = code.variable(I64)
        for name in ("inputs", "outputs"):
            self._check_pointers(code, call, name, number)
        code.ret(i32(Status.OK))

    def _check_pointers(self, code: Code, call: ir.Value, name: str, number: ir.Value) -> None:
        """Fails where the table or one of its entries is NULL, those that the model makes aside."""
        count, table = self.metadata.count(code, name), CALL.load(code, call, name)
        with code.unlikely(is_missing(code, table, count)):
            text = f"run requires a table of {{}} {name}, got NULL"
            self._fail(code, Status.NULL_POINTER, text, [count])
        with code.repeat(count, number) as position:
            pointer = code.load(code.element(table, position, POINTER), typ=POINTER)
            with code.unlikely(code.is_null(pointer)):
                made = self.metadata.is_made(code, position) if name == "outputs" else I1(0)
                with code.if_then(code.not_(made)):
                    self._refuse_null(code, name, position)

    def _refuse_null(self, code: Code, name: str, position: ir.Value) -> None:
        """Fails for a tensor without an address."""
        with code.if_then(code.not_(self.metadata.is_described(code))):
            text = f"run requires a buffer in {name}[{{}}], got NULL"
            self._fail(code, Status.NULL_POINTER, text, [position])
        entry = self.table.entry(code, name, position, TENSOR)
        shown = [
            self.table.address_of(code, entry, TENSOR, each)
            for each in ("dtype", "shape", "shown_name")
        ]
        text = f"run requires a buffer of {{}} {{}} for {name[:-1]} '{{}}', got NULL"
        self._fail(code, Status.NULL_POINTER, text, shown)

    def _define_check_dims(self) -> None:
        """Whether the free dims are there, each an extent, and are allowed together."""
        code = Code(self._check("check_dims").append_basic_block("entry"))
        context, call = code.arguments
        number, dims = code.variable(I64), CALL.load(code, call, "dims")
        free = self.metadata.count(code, "dims")
        count = code.add(free, self.metadata.count(code, "found"))
        with code.unlikely(is_missing(code, dims, count)):
            text = "run requires a table of {} dims, got NULL"
            self._fail(code, Status.NULL_POINTER, text, [count])
        with code.repeat(free, number) as position:
            dim = code.load(code.element(dims, position, I64), typ=I64)
            with code.unlikely(code.icmp_unsigned(">", dim, i64(MOST))):
                self._refuse_dim(code, position, dim)
        code.ret(code.call(self.pool.declare("check_sizes", CHECK_SIZES), [context, dims]))

    def _refuse_dim(self, code: Code, position: ir.Value, dim: ir.Value) -> None:
        """Fails for a size that is no extent, with the first input that has it."""
        with code.if_then(code.not_(self.metadata.is_described(code))):
            text = f"run requires dims[{{}}] to be {_EXTENT}, got {{}}"
            self._fail(code, Status.BAD_DIMS, text, [position, dim])
        symbol = self.table.entry(code, "symbols", position, SYMBOL)
        name = self.table.address_of(code, symbol, SYMBOL, "name")
        given = SYMBOL.load(code, symbol, "input")
        text = f"run requires size {{}} to be {_EXTENT}, got {{}}"
        with code.if_then(code.icmp_signed("==", given, i32(-1))):
            self._fail(code, Status.BAD_DIMS, text, [name, dim])
        entry = self.table.entry(code, "inputs", code.zext(given, I64), TENSOR)
        axis = code.zext(SYMBOL.load(code, symbol, "axis"), I64)
        shape, tensor = (
            self.table.address_of(code, entry, TENSOR, n) for n in ("shape", "shown_name")
        )
        where = "(dim {} of shape {} of input '{}')"
        text = f"run requires size {{}} {where} to be {_EXTENT}, got {{}}"
        self._fail(code, Status.BAD_DIMS, text, [name, axis, shape, tensor, dim])

    def _define_check_workspace(self) -> None:
        """Whether the workspace is there, aligned, and large enough for the dims."""
        code = Code(self._check("check_workspace").append_basic_block("entry"))
        _, call = code.arguments
        workspace = CALL.load(code, call, "workspace")
        given = CALL.load(code, call, "workspace_size")
        dims = CALL.load(code, call, "dims")
        needed = code.call(self.pool.declare("workspace", WORKSPACE), [dims])
        code.return_if(code.icmp_unsigned("==", needed, i64(0)), i32(Status.OK))
        with code.unlikely(code.icmp_unsigned("<", given, needed)):
            text = "run requires a workspace of {} bytes, got {}"
            self._fail(code, Status.BAD_WORKSPACE, text, [needed, given])
        with code.unlikely(code.is_null(workspace)):
            text = "run requires a workspace of {} bytes, got NULL"
            self._fail(code, Status.NULL_POINTER, text, [needed])
        address = code.ptrtoint(workspace, I64)
        beyond = code.and_(address, i64(WORKSPACE_ALIGNMENT - 1))
        with code.unlikely(code.icmp_unsigned("!=", beyond, i64(0))):
            aligned = f"a workspace aligned to {WORKSPACE_ALIGNMENT} bytes"
            text = f"run requires {aligned}, got one {{}} bytes beyond"
            self._fail(code, Status.BAD_WORKSPACE, text, [beyond])
        code.ret(i32(Status.OK))

    def _define_run(self) -> None:
        visible = self._export("run", I32, [POINTER, POINTER])
        code = Code(self._check(RUN).append_basic_block("entry"))
        visible.ret(visible.call(code.function, visible.arguments, tail=True))
        context, _ = code.arguments
        code.return_if(code.is_null(context), i32(Status.NULL_POINTER))
        checked = self._checked_run()
        if self.pool.profile.is_available:
            profiled = self.pool.profile.define_run(checked)
            with code.unlikely(self.pool.profile.is_on(code, context)):
                code.ret(code.call(profiled, code.arguments))
        code.ret(code.call(checked, code.arguments, tail=True))

    def _checked_run(self) -> ir.Function:
        """Runs the program where the call is as it has to be."""
        code = Code(self._check("checked_run").append_basic_block("entry"))
        context, call = code.arguments
        for name in ("check_head", "check_tables", "check_dims", "check_workspace"):
            status = code.call(self._check(name), [context, call])
            with code.unlikely(code.icmp_unsigned("!=", status, i32(Status.OK))):
                code.ret(status)
        names = ("inputs", "outputs", "dims", "workspace")
        arguments = [context, *(CALL.load(code, call, name) for name in names)]
        code.ret(code.call(self.pool.declare("program", PROGRAM), arguments, tail=True))
        return code.function


def is_missing(code: Code, array: ir.Value, count: ir.Value) -> ir.Value:
    """Whether there is no array of something, which there has to be of what there is any of."""
    return code.and_(code.is_null(array), code.icmp_unsigned("!=", count, i64(0)))
