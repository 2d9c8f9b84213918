"""`direct_all_reduce`, `direct_all_gather`, `direct_reduce_scatter`: collectives whose ranks reach
each other's buffers, so that no byte is copied on the way.

    all_reduce      arrive; reduce the own share of all sources into all targets; arrive
    all_gather      arrive; copy all sources; arrive
    reduce_scatter  arrive; reduce the own piece of all sources; arrive

With the first arrival each rank shows where its buffers are, from the address that all count from;
where one does not reach another's, the function returns STAGED before it has touched any. Results
that were not operands are written by non-temporal stores: their lines are in no cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I64, i32, i64
from weft.compiler.loop_to_llvm.transport.call import Call
from weft.compiler.loop_to_llvm.transport.reduce import LINE
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, RANGE, RANGES, RANK

STAGED: Final = 1 << 30
"""What a function returns that has not done the collective."""

LARGE: Final = 1 << 16
"""Bytes of a source from which one is done so: a smaller one is in caches anyway."""

_STREAMED: Final = 1 << 20
"""Bytes from which results are written past the caches."""

_PIECE: Final = 1 << 14
"""Bytes that are reduced at a time: they stay in L1 until all targets have them."""

_NOWHERE: Final = -1


class Direct:
    """The code of one such function."""

    def __init__(self, call: Call, stream: ir.Function):
        self.call, self.stream = call, stream
        self.code = call.code
        self.base = ENDPOINT.load(self.code, call.address, "base")
        self._members = self.code.variable_at_entry(I64)
        self._done = self.code.variable_at_entry(I64)

    def begin(self, source: ir.Value, target: ir.Value, *, writes: bool) -> ir.Value:
        """Shows where buffers of so many elements are, the target's only where another rank writes
        there, and meets the others; returns whether results are written past the caches.
        """
        call, code = self.call, self.code
        line = call.endpoint.line(call.endpoint.rank)
        sizes = [code.mul(each, call.bytes) for each in (source, target)]
        RANK.store(code, line, "source", self._position(call.source, sizes[0]))
        there = self._position(call.target, sizes[1]) if writes else i64(0)
        RANK.store(code, line, "target", there)
        call.arrive()
        call.check_tags()
        with code.repeat(call.group, self._members) as index:
            other = call.endpoint.line(call.rank(index))
            for name in ("source", "target"):
                found = RANK.load(code, other, name)
                code.return_if(code.icmp_signed("==", found, i64(_NOWHERE)), i32(STAGED))
        elsewhere = code.icmp_unsigned("!=", call.source, call.target)
        return code.and_(elsewhere, code.icmp_unsigned(">=", sizes[1], i64(_STREAMED)))

    def _position(self, address: ir.Value, size: ir.Value) -> ir.Value:
        """Where others find a buffer, or _NOWHERE."""
        code, found = self.code, self.code.variable_at_entry(I64)
        code.store(i64(_NOWHERE), found)
        first = code.ptrtoint(address, I64)
        ranges = ENDPOINT.load(code, self.call.address, "ranges")
        with code.repeat(i64(RANGES), self._members) as number:
            each = code.at(ranges, code.mul(number, i64(RANGE.size)))
            begin, end, start = (RANGE.load(code, each, name) for name in ("begin", "end", "start"))
            inside = code.and_(
                code.icmp_unsigned(">=", first, begin),
                code.icmp_unsigned("<=", code.add(first, size), end),
            )
            moved = code.add(code.sub(first, begin), start)
            code.store(code.select(inside, moved, code.load(found, typ=I64)), found)
        return code.load(found, typ=I64)

    def buffer(self, index: ir.Value, name: str) -> ir.Value:
        """The address of a member's source or target."""
        line = self.call.endpoint.line(self.call.rank(index))
        return self.code.at(self.base, RANK.load(self.code, line, name))

    def put(self, streams: ir.Value, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Copies so many elements, past the caches where that is wanted and lines begin there."""
        code = self.code
        aligned = code.icmp_unsigned(
            "==", code.and_(code.ptrtoint(target, I64), i64(LINE - 1)), i64(0)
        )
        with code.if_else(code.and_(streams, aligned)) as (past, through):
            with past:
                code.call(self.stream, [target, source, code.mul(count, self.call.bytes)])
            with through:
                self.call.copy(target, source, count)

    def reduce(
        self, first: ir.Value, count: ir.Value, put: Callable[[ir.Value, ir.Value, ir.Value], None]
    ) -> None:
        """Reduces so many elements of all sources, piece by piece and in the order of ranks;
        `put(piece, done, size)` takes each on, of which so many came before.
        """
        call, code = self.call, self.code
        piece = call.endpoint.reduced(call.endpoint.rank)
        most = code.udiv(i64(_PIECE), call.bytes)
        code.store(i64(0), self._done)
        with code.forever() as after:
            done = code.load(self._done, typ=I64)
            code.jump_if(code.icmp_unsigned(">=", done, count), after)
            size = code.least(code.sub(count, done), most)
            start, how = code.add(first, done), [size, call.dtype, call.reduction]
            one, other = (call.at(self.buffer(i64(n), "source"), start) for n in (0, 1))
            code.call(call.combine, [piece, one, other, *how])
            with code.repeat(code.sub(call.group, i64(2)), self._members) as rest:
                part = call.at(self.buffer(code.add(rest, i64(2)), "source"), start)
                code.call(call.combine, [piece, piece, part, *how])
            put(piece, done, size)
            code.store(code.add(done, size), self._done)

    def end(self) -> None:
        """Returns when no other reads or writes this rank's buffers any more."""
        self.call.arrive()
        self.code.ret(i32(0))


def define_all_reduce(direct: Direct) -> None:
    """Each rank reduces its share, and writes it into all targets."""
    call, code = direct.call, direct.code
    members = code.variable_at_entry(I64)
    streams = direct.begin(call.count, call.count, writes=True)
    first, count = call.share(call.count, call.own)

    def put(piece: ir.Value, done: ir.Value, size: ir.Value) -> None:
        with code.repeat(call.group, members) as index:
            target = call.at(direct.buffer(index, "target"), code.add(first, done))
            direct.put(streams, target, piece, size)

    direct.reduce(first, count, put)
    direct.end()


def define_reduce_scatter(direct: Direct) -> None:
    """Each rank reduces its piece."""
    call, code = direct.call, direct.code
    streams = direct.begin(code.mul(call.count, call.group), call.count, writes=False)

    def put(piece: ir.Value, done: ir.Value, size: ir.Value) -> None:
        direct.put(streams, call.at(call.target, done), piece, size)

    direct.reduce(code.mul(call.own, call.count), call.count, put)
    direct.end()


def define_all_gather(direct: Direct) -> None:
    """Each rank copies the parts of all."""
    call, code = direct.call, direct.code
    members = code.variable_at_entry(I64)
    streams = direct.begin(call.count, code.mul(call.count, call.group), writes=False)
    with code.repeat(call.group, members) as index:
        target = call.at(call.target, code.mul(index, call.count))
        direct.put(streams, target, direct.buffer(index, "source"), call.count)
    direct.end()
