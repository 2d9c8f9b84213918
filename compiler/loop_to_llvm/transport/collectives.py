"""`weft_start` and `weft_wait`: a collective of a group, chunk by chunk, or a message.

    all_reduce      put others' shares in; arrive; reduce the own one; arrive; take all shares out
    all_gather      put the part in; arrive; take all parts out; arrive
    reduce_scatter  put others' pieces in; arrive; reduce the own one; arrive

Shares are reduced in the order of ranks, so that the bits are the same in each run and on each
rank. What a rank has put in stays until all have arrived again; and as ranks of a group may be
in other groups next, a group that is not all ranks arrives once more at the end. Over a wire that
is to be slower than memory, a collective ends when that would have brought it.
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
from weft.compiler.loop_to_llvm.transport.arrive import Arrival
from weft.compiler.loop_to_llvm.transport.messages import define_recv, define_send
from weft.compiler.loop_to_llvm.transport.reduce import define_combine
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, RANK, STARTS, Endpoint

MOST_RANKS: Final = 1024

_COMMUNICATE: Final = ir.FunctionType(I32, [POINTER] * 4)
_MEMBERS: Final = ir.FunctionType(I64, [I32, POINTER, POINTER])
_WIRE: Final = ir.FunctionType(I64, [POINTER, POINTER, I64])
_CHUNKS: Final = ir.FunctionType(I32, [POINTER, POINTER, POINTER, POINTER, POINTER, I64, I64])
_ALL_REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _SEND, _RECV = range(5)
_BYTES: Final = i32(4)
_FEMTO: Final = 1_000_000
"""Femtoseconds of a nanosecond."""


class _Call:
    """What the function of a collective knows of a call."""

    def __init__(self, code: Code, collectives: Collectives):
        self.code, self.collectives = code, collectives
        address, self.what, self.source, self.target, self.members, self.group, self.own = (
            code.arguments
        )
        self.address = address
        self.number, self.other = code.variable(I64), code.variable(I64)
        self.endpoint = Endpoint(code, address)
        self.dtype = COLLECTIVE.load(code, self.what, "dtype")
        self.reduction = COLLECTIVE.load(code, self.what, "reduction")
        self.count = COLLECTIVE.load(code, self.what, "count")
        self.bytes = _width(code, self.dtype)
        area = ENDPOINT.load(code, address, "area")
        self.room = code.udiv(area, self.bytes)  # elements of an area

    def rank(self, position: ir.Value) -> ir.Value:
        """The rank of a member of the group."""
        return self.code.load(self.code.element(self.members, position, I32), typ=I32)

    def at(self, base: ir.Value, element: ir.Value) -> ir.Value:
        """The address of an element."""
        return self.code.at(base, self.code.mul(element, self.bytes))

    def copy(self, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Copies so many elements."""
        size = self.code.mul(count, self.bytes)
        self.collectives.arrival.platform.call(self.code, "memcpy", [target, source, size])

    def arrive(self) -> None:
        """Ends the function where a rank is lost."""
        code = self.code
        status = code.call(
            self.collectives.arrival.arrive, [self.address, self.members, self.group]
        )
        code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)

    def check_tags(self) -> None:
        """Ends the function where a rank of the group does something else."""
        code, endpoint = self.code, self.endpoint
        own = COLLECTIVE.load(code, self.what, "tag")
        with code.repeat(self.group, self.other) as position:
            rank = self.rank(position)
            tag = RANK.load(code, endpoint.line(rank), "tag")
            with code.unlikely(code.icmp_unsigned("!=", tag, own)):
                code.call(self.collectives.arrival.blame, [self.address, rank])
                code.ret(code.xor(rank, i32(-1)))

    def reduce(self, result: ir.Value, start: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Combines so many elements of all parts from an element on, in the order of ranks; the
        rank's own are in the source.
        """
        code, how = self.code, [count, self.dtype, self.reduction]
        first, second = (self._operand(i64(number), start, source) for number in (0, 1))
        code.call(self.collectives.combine, [result, first, second, *how])
        with code.repeat(code.sub(self.group, i64(2)), self.other) as rest:
            part = self._operand(code.add(rest, i64(2)), start, source)
            code.call(self.collectives.combine, [result, result, part, *how])

    def _operand(self, position: ir.Value, start: ir.Value, source: ir.Value) -> ir.Value:
        """Where the elements of a member are."""
        part = self.at(self.endpoint.part(self.rank(position)), start)
        is_own = self.code.icmp_unsigned("==", position, self.own)
        return self.code.select(is_own, source, part)


def _width(code: Code, dtype: ir.Value) -> ir.Value:
    """The bytes of an element."""
    wide = code.or_(*(code.icmp_unsigned("==", dtype, i32(each)) for each in (1, 3)))
    single = code.icmp_unsigned("==", dtype, _BYTES)
    return code.select(single, i64(1), code.select(wide, i64(8), i64(4)))


def _start_of(code: Code, line: ir.Value, what: ir.Value) -> ir.Value:
    """Where a rank notes when it has started a collective."""
    number = code.urem(COLLECTIVE.load(code, what, "tag"), i64(STARTS))
    return code.element(RANK.address(code, line, "starts"), number, I64)


def _latest(code: Code, one: ir.Value, other: ir.Value) -> ir.Value:
    return code.select(code.icmp_signed(">", one, other), one, other)


class Collectives:
    """Emits the functions of a table of communication."""

    def __init__(self, module: ir.Module, arrival: Arrival):
        self.module, self.arrival = module, arrival
        self.combine = define_combine(module)

    def define(self) -> None:
        """Defines `weft_start` and `weft_wait`."""
        code = new_function(self.module, "weft_start", _COMMUNICATE, visible=True)
        address, what, *_ = code.arguments  # ranks that share processors work when all have come
        endpoint = Endpoint(code, address)
        start = _start_of(code, endpoint.line(endpoint.rank), what)
        code.store(code.call(self.arrival.now, []), start)
        code.ret(i32(0))
        self._define_members()
        self._define_all_reduce()
        self._define_all_gather()
        self._define_reduce_scatter()
        define_send(self._declare("send", _CHUNKS), self.arrival)
        define_recv(self._declare("recv", _CHUNKS), self.arrival)
        self._define_wire()
        self._define_wait()

    def _declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        function = declare_function(self.module, f"transport.{name}", function_type)
        function.linkage = "internal"
        return function

    def _begin(self, name: str) -> _Call:
        function = self._declare(name, _CHUNKS)
        return _Call(Code(function.append_basic_block("entry")), self)

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
        members, number = code.variable(ir.ArrayType(I32, MOST_RANKS)), code.variable(I64)
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
                code.ret(code.call(self._declare(name, _CHUNKS), given))
        end = self._start_wire(code, address, given)
        line = endpoint.line(endpoint.rank)
        RANK.store(code, line, "tag", COLLECTIVE.load(code, what, "tag"))
        names = {
            _ALL_REDUCE: "all_reduce",
            _ALL_GATHER: "all_gather",
            _REDUCE_SCATTER: "reduce_scatter",
        }
        for which, name in names.items():
            with code.if_then(code.icmp_unsigned("==", operation, i32(which))):
                code.store(code.call(self._declare(name, _CHUNKS), given), status)
        found = code.load(status, typ=I32)
        code.return_if(code.icmp_unsigned("!=", found, i32(0)), found)
        code.call(self.arrival.sleep_until, [code.load(end, typ=I64)])
        ranks = code.zext(ENDPOINT.load(code, address, "ranks"), I64)
        code.return_if(code.icmp_unsigned("==", group, ranks), i32(0))
        code.ret(code.call(self.arrival.arrive, [address, members, group]))

    def _start_wire(self, code: Code, address: ir.Value, given: list[ir.Value]) -> ir.Value:
        """A variable with when a collective ends that all have come to: over a wire that is slower
        than memory, which it has had since all have started it, else at once.
        """
        end = code.variable_at_entry(I64)
        code.store(i64(0), end)
        slow = code.or_(*(ENDPOINT.load(code, address, name) for name in ("latency", "byte")))
        with code.unlikely(code.icmp_unsigned("!=", slow, i64(0))):
            status = code.call(self.arrival.arrive, [address, given[4], given[5]])
            code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)
            takes = code.call(self._declare("wire", _WIRE), [address, given[1], given[5]])
            begin, endpoint = self._last_start(code, address, given)
            own = endpoint.line(endpoint.rank)
            code.store(code.add(_latest(code, begin, RANK.load(code, own, "free")), takes), end)
            RANK.store(code, own, "free", code.load(end, typ=I64))
        return end

    @staticmethod
    def _last_start(
        code: Code, address: ir.Value, given: list[ir.Value]
    ) -> tuple[ir.Value, Endpoint]:
        """When the last member of a group has started a collective."""
        endpoint = Endpoint(code, address)
        begin, number = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), begin)
        with code.repeat(given[5], number) as position:
            rank = code.load(code.element(given[4], position, I32), typ=I32)
            start = code.load(_start_of(code, endpoint.line(rank), given[1]), typ=I64)
            code.store(_latest(code, start, code.load(begin, typ=I64)), begin)
        return code.load(begin, typ=I64), endpoint

    def _define_wire(self) -> None:
        """What a collective takes on a ring of a group, in nanoseconds: a message for each step,
        and a part of the bytes in each; all_reduce goes round twice.
        """
        code = Code(self._declare("wire", _WIRE).append_basic_block("entry"))
        address, what, group = code.arguments
        count = code.mul(
            COLLECTIVE.load(code, what, "count"), _width(code, COLLECTIVE.load(code, what, "dtype"))
        )
        operation = COLLECTIVE.load(code, what, "operation")
        twice = code.icmp_unsigned("==", operation, i32(_ALL_REDUCE))
        once = code.sub(group, i64(1))
        steps = code.select(twice, code.mul(once, i64(2)), once)
        part = code.select(twice, code.udiv(count, group), count)
        latency, byte = (ENDPOINT.load(code, address, name) for name in ("latency", "byte"))
        sent = code.udiv(code.mul(code.mul(part, steps), byte), i64(_FEMTO))
        code.ret(code.add(code.mul(steps, latency), sent))

    def _define_all_reduce(self) -> None:
        call = self._begin("all_reduce")
        code, endpoint = call.code, call.endpoint
        start, shares = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), start)
        own_part, reduced = endpoint.part(endpoint.rank), endpoint.reduced(endpoint.rank)
        with code.forever() as after:
            offset = code.load(start, typ=I64)
            count = code.least(code.sub(call.count, offset), call.room)
            source = call.at(call.source, offset)
            first, length = self._share(call, count, call.own)
            end = code.add(first, length)
            call.copy(own_part, source, first)
            call.copy(call.at(own_part, end), call.at(source, end), code.sub(count, end))
            call.arrive()
            call.check_tags()
            call.reduce(call.at(reduced, first), first, call.at(source, first), length)
            call.arrive()
            with code.repeat(call.group, shares) as index:
                begin, size = self._share(call, count, index)
                found = call.at(endpoint.reduced(call.rank(index)), begin)
                call.copy(call.at(call.target, code.add(offset, begin)), found, size)
            code.store(code.add(offset, count), start)
            done = code.icmp_unsigned(">=", code.load(start, typ=I64), call.count)
            code.jump_if(done, after)
        code.ret(i32(0))

    @staticmethod
    def _share(call: _Call, count: ir.Value, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first element of a rank's share of a chunk, and how many it has."""
        code = call.code
        begin = code.udiv(code.mul(count, index), call.group)
        end = code.udiv(code.mul(count, code.add(index, i64(1))), call.group)
        return begin, code.sub(end, begin)

    def _define_all_gather(self) -> None:
        call = self._begin("all_gather")
        code, endpoint = call.code, call.endpoint
        start, members = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), start)
        own_part = endpoint.part(endpoint.rank)
        with code.forever() as after:
            offset = code.load(start, typ=I64)
            count = code.least(code.sub(call.count, offset), call.room)
            call.copy(own_part, call.at(call.source, offset), count)
            call.arrive()
            call.check_tags()
            with code.repeat(call.group, members) as index:
                place = code.add(code.mul(index, call.count), offset)
                found = endpoint.part(call.rank(index))
                call.copy(call.at(call.target, place), found, count)
            call.arrive()
            code.store(code.add(offset, count), start)
            done = code.icmp_unsigned(">=", code.load(start, typ=I64), call.count)
            code.jump_if(done, after)
        code.ret(i32(0))

    def _define_reduce_scatter(self) -> None:
        call = self._begin("reduce_scatter")
        code, endpoint = call.code, call.endpoint
        start, members = code.variable_at_entry(I64), code.variable_at_entry(I64)
        code.store(i64(0), start)
        own_part = endpoint.part(endpoint.rank)
        piece = code.udiv(call.room, call.group)
        with code.forever() as after:
            offset = code.load(start, typ=I64)
            count = code.least(code.sub(call.count, offset), piece)
            with code.repeat(call.group, members) as index:
                is_own = code.icmp_unsigned("==", index, call.own)
                size = code.select(is_own, i64(0), count)
                place = code.add(code.mul(index, call.count), offset)
                other = call.at(own_part, code.mul(index, piece))
                call.copy(other, call.at(call.source, place), size)
            call.arrive()
            call.check_tags()
            mine = code.mul(call.own, piece)
            own = call.at(call.source, code.add(code.mul(call.own, call.count), offset))
            call.reduce(call.at(call.target, offset), mine, own, count)
            call.arrive()
            code.store(code.add(offset, count), start)
            done = code.icmp_unsigned(">=", code.load(start, typ=I64), call.count)
            code.jump_if(done, after)
        code.ret(i32(0))
