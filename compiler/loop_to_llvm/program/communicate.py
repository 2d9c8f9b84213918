"""loop.rank, loop.start and loop.wait, loop.send and loop.recv -> LLVM IR: calls of the context's
table of communication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from llvmlite import ir
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute

from weft.compiler.abi.constants import SpanNumber, Status
from weft.compiler.loop_to_llvm.frame import Frame
from weft.compiler.loop_to_llvm.program.concurrent import enter_span, leave_kernels
from weft.compiler.loop_to_llvm.runtime import Runtime
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
    GroupOp,
    MessageOp,
    RankOp,
    SendOp,
    WaitOp,
    communications,
)
from weft.dialects.loop.program import DIGEST, RANKS, ProgramOp
from weft.dialects.loop.types import BufferType, buffer_type_of

COMMUNICATE: Final = ir.FunctionType(I32, [POINTER] * 4)
"""`start` and `wait` of a table."""

_DTYPES: Final[dict[Attribute, int]] = {F32: 0, F64: 1, INT: 2, LONG: 3}
_BYTES: Final = 4
_SEND: Final = len(COLLECTIVES)
_RECV: Final = _SEND + 1
_MESSAGES: Final = 1 << 15
"""The tag of the first message of a program, behind those of its collectives."""

Fail = Callable[[Status, str, Sequence[ir.Value]], None]


class Communication:
    """Emits the communication of one program; `fail` ends it with a status and its reason."""

    def __init__(
        self, frame: Frame, runtime: Runtime, context: ir.Value, program: ProgramOp, fail: Fail
    ):
        self.frame, self.context, self.program, self.fail = frame, context, program, fail
        self.runtime = runtime
        self._spans = {
            (isinstance(op, MessageOp), op.number.value.data, op.name): SpanNumber.RANKS - position
            for position, op in enumerate(communications(program))
        }
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
        name = "wait" if isinstance(op, WaitOp) else "start"
        operation, element = op.operation.data, buffer_type_of(op.source).element
        numbers = {
            "operation": i32(COLLECTIVES.index(operation)),
            "reduction": i32(REDUCTIONS.index(op.reduction.data)),
            "dtype": i32(_DTYPES.get(element, _BYTES)),
            "count": count,
            "peer": i64(0),
        }
        what = self._described(op, op.number.value.data, numbers)
        key = (False, op.number.value.data, WaitOp.name)
        self._call(name, what, [source, target], operation, node, self._spans[key])

    def message(self, op: MessageOp, buffer: ir.Value, count: ir.Value, node: str) -> None:
        """Sends or receives so many bytes of a buffer."""
        operation = _SEND if isinstance(op, SendOp) else _RECV
        numbers = {
            "operation": i32(operation),
            "reduction": i32(0),
            "dtype": i32(_BYTES),
            "count": count,
            "peer": i64(op.peer.value.data),
        }
        what = self._described(op, _MESSAGES + op.number.value.data, numbers)
        for name in ("start", "wait"):
            key = (True, op.number.value.data, op.name)
            operation_name = op.name.removeprefix("loop.")
            self._call(name, what, [buffer, buffer], operation_name, node, self._spans[key])

    def _call(
        self,
        name: str,
        what: ir.Value,
        buffers: Sequence[ir.Value],
        operation: str,
        node: str,
        span: int,
    ) -> None:
        builder = self.frame.builder
        enter_span(self.frame, self.runtime, self.context, span, operation)
        with Code.continuing(builder) as code:
            table = CONTEXT.load(code, self.context, "communication")
            function, user = (COMMUNICATION.load(code, table, each) for each in (name, "user"))
            status = code.call_pointer(function, COMMUNICATE, [user, what, *buffers])
        builder.position_at_end(builder.block)
        leave_kernels(self.frame, self.runtime, self.context)
        with builder.if_then(builder.icmp_signed("!=", status, i32(0)), likely=False):
            self._fail(operation, builder.sext(status, I64), node)

    def _fail(self, operation: str, status: ir.Value, node: str) -> None:
        builder = self.frame.builder
        with builder.if_then(builder.icmp_signed("<", status, i64(0))):
            other = builder.xor(status, i64(-1))
            text = "run requires one program on all ranks, got another on rank {}"
            self.fail(Status.LOST_RANK, text, [other])
        lost = builder.sub(status, i64(1))
        text = f"{operation} requires every rank to take part in time, got none of rank {{}}{node}"
        self.fail(Status.LOST_RANK, text, [lost])

    def _described(self, op: GroupOp, number: int, numbers: Mapping[str, ir.Value]) -> ir.Value:
        """A weft_collective on the stack."""
        what = self.frame.alloca(I64, COLLECTIVE.size // 8, 8)
        own = {
            "size": i64(COLLECTIVE.size),
            "tag": i64(self._tag + number),
            "axes": i32(len(op.axes)),
        }
        with Code.continuing(self.frame.builder) as code:
            for name, value in {**own, **numbers}.items():
                COLLECTIVE.store(code, what, name, value)
            for position, name in enumerate(("sizes", "strides")):
                values = constant_integers(
                    code.module, name, I64, [axis[position] for axis in op.axes]
                )
                COLLECTIVE.store(code, what, name, values)
        self.frame.builder.position_at_end(self.frame.builder.block)
        return what


def is_counted_in_bytes(buffer_type: BufferType) -> bool:
    """Whether a collective moves a buffer's bytes, and knows nothing of its elements."""
    return buffer_type.element not in _DTYPES
