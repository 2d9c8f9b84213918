"""`send` and `recv`: a message from one rank to another, slot by slot of the mailbox between them.

A sender waits for a free slot only, so it may be as far ahead as there are slots. Both count the
slots; a mailbox that is empty is filled from its first slot on, so that messages stay in caches.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import I32, I64, Code, i32, i64
from weft.compiler.loop_to_llvm.runtime.layout import COLLECTIVE
from weft.compiler.loop_to_llvm.transport.arrive import Arrival
from weft.compiler.loop_to_llvm.transport.segment import (
    ENDPOINT,
    PAIR,
    SLOT,
    SLOT_HEAD,
    Endpoint,
)

_ROOM: Final = SLOT - SLOT_HEAD.size
_PER_NANOSECOND: Final = 1_000_000
"""Femtoseconds."""


class _Message:
    """What both ends know: `(endpoint, what, source, target, members, group, own)`."""

    def __init__(self, function: ir.Function, arrival: Arrival):
        self.code = code = Code(function.append_basic_block("entry"))
        self.arrival = arrival
        self.address, self.what, self.source, self.target, members, _, _ = code.arguments
        self.done = code.variable(I64, i64(0))
        self.endpoint = Endpoint(code, self.address)
        peer = COLLECTIVE.load(code, self.what, "peer")
        self.other = code.load(code.element(members, peer, I32), typ=I32)
        self.own = self.endpoint.pair(self.endpoint.rank, self.other)
        self.others = self.endpoint.pair(self.other, self.endpoint.rank)
        self.bytes = COLLECTIVE.load(code, self.what, "count")
        self.tag = COLLECTIVE.load(code, self.what, "tag")

    def wait_for(self, name: str, wanted: ir.Value) -> None:
        """Waits for a count of the other; ends the function where a rank is lost."""
        code, word = self.code, PAIR.address(self.code, self.others, name)
        given = [self.address, self.other, word, wanted]
        status = code.call(self.arrival.wait_for, given)
        code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)

    def count(self, name: str) -> None:
        """Counts one more towards the other."""
        word = PAIR.address(self.code, self.own, name)
        self.code.call(self.arrival.count, [self.own, word])

    def copy(self, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Copies bytes, and counts them as done."""
        code = self.code
        self.arrival.platform.call(code, "memcpy", [target, source, count])
        code.store(code.add(code.load(self.done, typ=I64), count), self.done)

    def is_done(self) -> ir.Value:
        """Whether all bytes are."""
        return self.code.icmp_unsigned(">=", self.code.load(self.done, typ=I64), self.bytes)

    def part(self) -> tuple[ir.Value, ir.Value]:
        """How many bytes are done, and how many the next slot has."""
        code, done = self.code, self.code.load(self.done, typ=I64)
        return done, code.least(code.sub(self.bytes, done), i64(_ROOM))

    def slot(self, pair: ir.Value, one: ir.Value, other: ir.Value, count: ir.Value) -> ir.Value:
        """The slot of a count in a mailbox."""
        code = self.code
        number = code.zext(code.sub(count, PAIR.load(code, pair, "first")), I64)
        return self.endpoint.slot(one, other, number)


def define_send(function: ir.Function, arrival: Arrival) -> None:
    """Fills slots, each once the other has freed it."""
    message = _Message(function, arrival)
    code, endpoint, own = message.code, message.endpoint, message.own
    slots = code.trunc(ENDPOINT.load(code, message.address, "slots"), I32)
    ready = _arrival_time(message)
    with code.forever() as after:
        filled = PAIR.load(code, own, "filled")
        message.wait_for("freed", code.add(code.sub(filled, slots), i32(1)))
        freed = PAIR.load_atomic(code, message.others, "freed", "acquire")
        with code.if_then(code.icmp_unsigned("==", freed, filled)):
            PAIR.store(code, own, "first", filled)
        slot = message.slot(own, endpoint.rank, message.other, filled)
        done, size = message.part()
        for name, value in (("ready", ready), ("bytes", message.bytes), ("tag", message.tag)):
            SLOT_HEAD.store(code, slot, name, value)
        message.copy(code.at(slot, SLOT_HEAD.size), code.at(message.source, done), size)
        message.count("filled")
        code.jump_if(message.is_done(), after)
    code.ret(i32(0))


def _arrival_time(message: _Message) -> ir.Value:
    """When the message is there, over a wire that has sent what was sent before; 0 for one that is
    no slower than memory.
    """
    code, address, own = message.code, message.address, message.own
    latency, byte = (ENDPOINT.load(code, address, name) for name in ("latency", "byte"))
    now = code.call(message.arrival.now, [])
    free = PAIR.load(code, own, "free")
    start = code.select(code.icmp_signed(">", free, now), free, now)
    sent = code.udiv(code.mul(message.bytes, byte), i64(_PER_NANOSECOND))
    end = code.add(start, sent)
    PAIR.store(code, own, "free", end)
    is_fast = code.icmp_signed("==", code.or_(latency, byte), i64(0))
    return code.select(is_fast, i64(0), code.add(end, latency))


def define_recv(function: ir.Function, arrival: Arrival) -> None:
    """Empties slots, each once the other has filled it, and what it holds has arrived. A message
    that is not of this program, or of other bytes, is refused.
    """
    message = _Message(function, arrival)
    code, endpoint = message.code, message.endpoint
    with code.forever() as after:
        freed = PAIR.load(code, message.own, "freed")
        message.wait_for("filled", code.add(freed, i32(1)))
        slot = message.slot(message.others, message.other, endpoint.rank, freed)
        same = code.and_(
            code.icmp_unsigned("==", SLOT_HEAD.load(code, slot, "tag"), message.tag),
            code.icmp_unsigned("==", SLOT_HEAD.load(code, slot, "bytes"), message.bytes),
        )
        with code.unlikely(code.not_(same)):
            code.call(arrival.blame, [message.address, message.other])
            code.ret(code.xor(message.other, i32(-1)))
        code.call(arrival.sleep_until, [SLOT_HEAD.load(code, slot, "ready")])
        done, size = message.part()
        message.copy(code.at(message.target, done), code.at(slot, SLOT_HEAD.size), size)
        message.count("freed")
        code.jump_if(message.is_done(), after)
    code.ret(i32(0))
