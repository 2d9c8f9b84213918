"""loop.rank, loop.start and loop.wait -> LLVM IR: calls of the context's table of communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.runtime.code import (
    I32,
    I64,
    POINTER,
    Code,
    constant_integers,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.layout import COLLECTIVE, COMMUNICATION, CONTEXT
from weft.dialects.graph.core.types import F32, F64
from weft.dialects.graph.core.types import I32 as INT
from weft.dialects.graph.core.types import I64 as LONG
from weft.dialects.loop.communication import (
    COLLECTIVES,
    REDUCTIONS,
    CommunicationOp,
    RankOp,
    WaitOp,
)
from weft.dialects.loop.program import DIGEST, RANKS, ProgramOp
from weft.dialects.loop.types import BufferType, buffer_type_of

COMMUNICATE: Final = ir.FunctionType(I32, [POINTER] * 4)
"""`start` and `wait` of a table."""

_DTYPES: Final[dict[Attribute, int]] = {F32: 0, F64: 1, INT: 2, LONG: 3}
_BYTES: Final = 4

Fail = Callable[[Status, str, Sequence[ir.Value]], None]


class Communication:
    """Emits the communication of one program; `fail` ends it with a status and its reason."""

    def __init__(self, frame: Frame, context: ir.Value, program: ProgramOp, fail: Fail):
        self.frame, self.context, self.program, self.fail = frame, context, program, fail
        digest = program.attributes.get(DIGEST)
        self._tag = int(digest.data[:12], 16) << 16 if isinstance(digest, StringAttr) else 0

    def require_ranks(self) -> None:
        """Ends a call of a program for many ranks whose context does not reach as many."""
        wanted = self.program.attributes.get(RANKS)
        if not isinstance(wanted, IntAttr):
            return
        builder = self.frame.builder
        ranks = self.frame.alloca(I64, 1, 8)
        builder.store(i64(0), ranks)
        with Code.continuing(builder) as code:
            table = CONTEXT.load(code, self.context, "communication")
            with code.if_then(code.not_(code.is_null(table))):
                found = COMMUNICATION.load(code, table, "ranks")
                known = COMMUNICATION.load(code, table, "size")
                fits = code.icmp_unsigned("==", known, i64(COMMUNICATION.size))
                code.store(code.select(fits, code.zext(found, I64), i64(0)), ranks)
            got = code.load(ranks, typ=I64)
        builder.position_at_end(builder.block)
        differs = builder.icmp_unsigned("!=", got, i64(wanted.data))
        with builder.if_then(differs, likely=False):
            text = f"run requires communication of {wanted.data} ranks, got {{}}"
            self.fail(Status.LOST_RANK, text, [got])

    def rank(self, op: RankOp) -> ir.Value:
        """The index of the rank in its group, an i64."""
        with Code.continuing(self.frame.builder) as code:
            table = CONTEXT.load(code, self.context, "communication")
            rank = code.zext(COMMUNICATION.load(code, table, "rank"), I64)
            index: ir.Value = i64(0)
            for size, stride in op.axes:
                digit = code.urem(code.udiv(rank, i64(stride)), i64(size))
                index = code.add(code.mul(index, i64(size)), digit)
        self.frame.builder.position_at_end(self.frame.builder.block)
        return index

    def communicate(
        self, op: CommunicationOp, source: ir.Value, target: ir.Value, count: ir.Value, node: str
    ) -> None:
        """Calls `start` or `wait`; `count` are the elements of one rank's part."""
        builder = self.frame.builder
        name = "wait" if isinstance(op, WaitOp) else "start"
        with Code.continuing(builder) as code:
            table = CONTEXT.load(code, self.context, "communication")
            what = self._described(code, op, count)
            function, user = (COMMUNICATION.load(code, table, each) for each in (name, "user"))
            status = code.call_pointer(function, COMMUNICATE, [user, what, source, target])
        builder.position_at_end(builder.block)
        with builder.if_then(builder.icmp_signed("!=", status, i32(0)), likely=False):
            self._fail(op, builder.sext(status, I64), node)

    def _fail(self, op: CommunicationOp, status: ir.Value, node: str) -> None:
        builder, operation = self.frame.builder, op.operation.data
        with builder.if_then(builder.icmp_signed("<", status, i64(0))):
            other = builder.xor(status, i64(-1))
            text = "run requires one program on all ranks, got another on rank {}"
            self.fail(Status.LOST_RANK, text, [other])
        lost = builder.sub(status, i64(1))
        text = f"{operation} requires every rank to take part in time, got none of rank {{}}{node}"
        self.fail(Status.LOST_RANK, text, [lost])

    def _described(self, code: Code, op: CommunicationOp, count: ir.Value) -> ir.Value:
        """A weft_collective on the stack."""
        what = self.frame.alloca(I64, COLLECTIVE.size // 8, 8)
        buffer_type = buffer_type_of(op.source)
        dtype = _DTYPES.get(buffer_type.element, _BYTES)
        numbers = (
            ("size", i64(COLLECTIVE.size)),
            ("tag", i64(self._tag + int(op.number.value.data))),
            ("operation", i32(COLLECTIVES.index(op.operation.data))),
            ("reduction", i32(REDUCTIONS.index(op.reduction.data))),
            ("dtype", i32(dtype)),
            ("axes", i32(len(op.axes))),
            ("count", count),
        )
        for name, value in numbers:
            COLLECTIVE.store(code, what, name, value)
        for position, name in enumerate(("sizes", "strides")):
            values = [axis[position] for axis in op.axes]
            COLLECTIVE.store(code, what, name, constant_integers(code.module, name, I64, values))
        return what


def is_counted_in_bytes(buffer_type: BufferType) -> bool:
    """Whether a collective moves a buffer's bytes, and knows nothing of its elements."""
    return buffer_type.element not in _DTYPES
