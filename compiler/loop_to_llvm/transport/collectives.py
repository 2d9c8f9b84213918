"""`weft_start` and `weft_wait`: a collective of a group, or a message.

A large collective is done in place where ranks reach each other's buffers, others through the
segment. Either way elements are reduced in the order of ranks, so that the bits are the same in
each run and on each rank. As ranks of a group may be in other groups next, a group that is not all
ranks arrives once more at the end. Over wires that are to be slower than memory, which bring one
collective behind the other in the order of starts, each ends when that would have brought it.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import (
    I32,
    I64,
    POINTER,
    Code,
    declare_function,
    i32,
    i64,
    new_function,
)
from weft.compiler.loop_to_llvm.runtime.layout import COLLECTIVE
from weft.compiler.loop_to_llvm.transport import direct, staged
from weft.compiler.loop_to_llvm.transport.arrive import Arrival
from weft.compiler.loop_to_llvm.transport.call import CALL, Call, width
from weft.compiler.loop_to_llvm.transport.direct import LARGE, STAGED, Direct
from weft.compiler.loop_to_llvm.transport.messages import define_recv, define_send
from weft.compiler.loop_to_llvm.transport.reduce import define_combine, define_stream
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, RANK, UNDER_WAY, Endpoint

MOST_RANKS: Final = 1024
_RANKS: Final = ir.ArrayType(I32, MOST_RANKS)

_COMMUNICATE: Final = ir.FunctionType(I32, [POINTER] * 4)
_MEMBERS: Final = ir.FunctionType(I64, [I32, POINTER, POINTER])
_WIRE: Final = ir.FunctionType(I64, [POINTER, POINTER, I64])
_ALL_REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _SEND, _RECV = range(5)
_COLLECTIVES: Final = {
    _ALL_REDUCE: ("all_reduce", direct.define_all_reduce, staged.define_all_reduce),
    _ALL_GATHER: ("all_gather", direct.define_all_gather, staged.define_all_gather),
    _REDUCE_SCATTER: (
        "reduce_scatter", direct.define_reduce_scatter, staged.define_reduce_scatter
    ),
}  # fmt: skip
"""By the operation of a `weft_collective`: what it is called, in place and through the segment."""

_FEMTO: Final = 1_000_000
"""Femtoseconds of a nanosecond."""


def _end_of(code: Code, line: ir.Value, what: ir.Value) -> ir.Value:
    """Where a rank notes when its wire is done with a collective."""
    number = code.urem(COLLECTIVE.load(code, what, "tag"), i64(UNDER_WAY))
    return code.element(RANK.address(code, line, "ends"), number, I64)


def _is_slow(code: Code, address: ir.Value) -> ir.Value:
    """Whether a rank's wire is to be slower than memory."""
    slow = code.or_(*(ENDPOINT.load(code, address, name) for name in ("latency", "byte")))
    return code.icmp_unsigned("!=", slow, i64(0))


def _latest(code: Code, one: ir.Value, other: ir.Value) -> ir.Value:
    return code.select(code.icmp_signed(">", one, other), one, other)


class Collectives:
    """Emits the functions of a table of communication."""

    def __init__(self, module: ir.Module, arrival: Arrival):
        self.module, self.arrival = module, arrival
        self.combine = define_combine(module)
        self.stream = define_stream(module, arrival.platform)

    def define(self) -> None:
        """Defines `weft_start` and `weft_wait`."""
        self._define_start()
        self._define_members()
        for name, in_place, through in _COLLECTIVES.values():
            in_place(Direct(self._call(f"direct_{name}"), self.stream))
            through(self._call(name))
        define_send(self._declare("send", CALL), self.arrival)
        define_recv(self._declare("recv", CALL), self.arrival)
        self._define_wire()
        self._define_wait()

    def _declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        function = declare_function(self.module, f"transport.{name}", function_type)
        function.linkage = "internal"
        return function

    def _call(self, name: str) -> Call:
        return Call(self._declare(name, CALL), self.arrival, self.combine)

    def _define_members(self) -> None:
        """Writes the ranks of a rank's group by index, and returns how many; the last axis counts
        fastest.
        """
        code = Code(self._declare("members", _MEMBERS).append_basic_block("entry"))
        rank, what, members = code.arguments
        number, axis, total = code.variable(I64), code.variable(I64), code.variable(I64, i64(1))
        place, left = code.variable(I64), code.variable(I64)
        axes = code.zext(COLLECTIVE.load(code, what, "axes"), I64)
        sizes, strides = (COLLECTIVE.load(code, what, name) for name in ("sizes", "strides"))
        with code.repeat(axes, axis) as at:
            size = code.load(code.element(sizes, at, I64), typ=I64)
            code.store(code.mul(code.load(total, typ=I64), size), total)
        own = code.zext(rank, I64)
        with code.repeat(code.load(total, typ=I64), number) as index:
            code.store(own, place)
            code.store(index, left)
            with code.repeat(axes, axis) as at:
                back = code.sub(code.sub(axes, at), i64(1))
                size = code.load(code.element(sizes, back, I64), typ=I64)
                stride = code.load(code.element(strides, back, I64), typ=I64)
                digit = code.urem(code.load(left, typ=I64), size)
                mine = code.urem(code.udiv(own, stride), size)
                moved = code.mul(code.sub(digit, mine), stride)
                code.store(code.add(code.load(place, typ=I64), moved), place)
                code.store(code.udiv(code.load(left, typ=I64), size), left)
            member = code.trunc(code.load(place, typ=I64), I32)
            code.store(member, code.element(members, index, I32))
        code.ret(code.load(total, typ=I64))

    def _define_wait(self) -> None:
        code = new_function(self.module, "weft_wait", _COMMUNICATE, visible=True)
        address, what, source, target = code.arguments
        members, number = code.variable(_RANKS), code.variable(I64)
        own, status = code.variable(I64, i64(0)), code.variable(I32, i32(0))
        endpoint = Endpoint(code, address)
        group = code.call(self._declare("members", _MEMBERS), [endpoint.rank, what, members])
        with code.repeat(group, number) as index:
            member = code.load(code.element(members, index, I32), typ=I32)
            with code.if_then(code.icmp_unsigned("==", member, endpoint.rank)):
                code.store(index, own)
        operation = COLLECTIVE.load(code, what, "operation")
        given = [address, what, source, target, members, group, code.load(own, typ=I64)]
        for which, name in ((_SEND, "send"), (_RECV, "recv")):
            with code.if_then(code.icmp_unsigned("==", operation, i32(which))):
                code.ret(code.call(self._declare(name, CALL), given))
        end = self._end_of_wire(code, address, given)
        line = endpoint.line(endpoint.rank)
        RANK.store(code, line, "tag", COLLECTIVE.load(code, what, "tag"))
        size = code.mul(
            COLLECTIVE.load(code, what, "count"), width(code, COLLECTIVE.load(code, what, "dtype"))
        )
        small = code.icmp_unsigned("<", size, i64(LARGE))
        code.store(code.select(small, i32(STAGED), i32(0)), status)
        for prefix, wanted in (("direct_", 0), ("", STAGED)):
            for which, (name, *_) in _COLLECTIVES.items():
                is_next = code.icmp_unsigned("==", code.load(status, typ=I32), i32(wanted))
                chosen = code.and_(is_next, code.icmp_unsigned("==", operation, i32(which)))
                with code.if_then(chosen):
                    function = self._declare(f"{prefix}{name}", CALL)
                    code.store(code.call(function, given), status)
        found = code.load(status, typ=I32)
        code.return_if(code.icmp_unsigned("!=", found, i32(0)), found)
        code.call(self.arrival.sleep_until, [code.load(end, typ=I64)])
        ranks = code.zext(ENDPOINT.load(code, address, "ranks"), I64)
        code.return_if(code.icmp_unsigned("==", group, ranks), i32(0))
        code.ret(code.call(self.arrival.arrive, [address, members, group]))

    def _define_start(self) -> None:
        """Ranks that share processors work when all have come. A wire that is slower than memory
        is busy from now on.
        """
        code = new_function(self.module, "weft_start", _COMMUNICATE, visible=True)
        address, what, *_ = code.arguments
        with code.unlikely(_is_slow(code, address)):
            members, endpoint = code.variable_at_entry(_RANKS), Endpoint(code, address)
            group = code.call(self._declare("members", _MEMBERS), [endpoint.rank, what, members])
            takes = code.call(self._declare("wire", _WIRE), [address, what, group])
            line, now = endpoint.line(endpoint.rank), code.call(self.arrival.now, [])
            end = code.add(_latest(code, now, RANK.load(code, line, "free")), takes)
            code.store(end, _end_of(code, line, what))
            RANK.store(code, line, "free", end)
        code.ret(i32(0))

    def _end_of_wire(self, code: Code, address: ir.Value, given: list[ir.Value]) -> ir.Value:
        """A variable with when a collective ends: when the wires of all members are done with it,
        or at once where they are no slower than memory.
        """
        end, number = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), end)
        with code.unlikely(_is_slow(code, address)):
            status = code.call(self.arrival.arrive, [address, given[4], given[5]])
            code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)
            endpoint = Endpoint(code, address)
            with code.repeat(given[5], number) as position:
                rank = code.load(code.element(given[4], position, I32), typ=I32)
                its = code.load(_end_of(code, endpoint.line(rank), given[1]), typ=I64)
                code.store(_latest(code, its, code.load(end, typ=I64)), end)
        return end

    def _define_wire(self) -> None:
        """What a collective takes on a ring of a group, in nanoseconds: a message for each step,
        and a part of the bytes in each; all_reduce goes round twice.
        """
        code = Code(self._declare("wire", _WIRE).append_basic_block("entry"))
        address, what, group = code.arguments
        count = code.mul(
            COLLECTIVE.load(code, what, "count"), width(code, COLLECTIVE.load(code, what, "dtype"))
        )
        operation = COLLECTIVE.load(code, what, "operation")
        twice = code.icmp_unsigned("==", operation, i32(_ALL_REDUCE))
        once = code.sub(group, i64(1))
        steps = code.select(twice, code.mul(once, i64(2)), once)
        part = code.select(twice, code.udiv(count, group), count)
        latency, byte = (ENDPOINT.load(code, address, name) for name in ("latency", "byte"))
        sent = code.udiv(code.mul(code.mul(part, steps), byte), i64(_FEMTO))
        code.ret(code.add(code.mul(steps, latency), sent))
