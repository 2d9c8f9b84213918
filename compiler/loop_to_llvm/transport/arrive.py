"""How ranks of a group wait for each other: each counts its arrivals, and waits for the counts of
the others, at first spinning, then asleep. Who waits in vain finds out who is to blame.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from weft.compiler.loop_to_llvm.runtime.code import (
    I32,
    I64,
    POINTER,
    VOID,
    Code,
    declare_function,
    i32,
    i64,
    new_function,
)
from weft.compiler.loop_to_llvm.runtime.platform import Platform
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, HEAD, RANK, Endpoint

_NAP: Final = 20_000_000
"""Nanoseconds that a rank sleeps before it looks whether others are still there."""

_MONOTONIC: Final = 1
_EVERYONE: Final = (1 << 31) - 1

_ARRIVE: Final = ir.FunctionType(I32, [POINTER, POINTER, I64])
_AWAIT: Final = ir.FunctionType(I32, [POINTER, I32, I32])
_BLAME: Final = ir.FunctionType(I32, [POINTER, I32])
_ABORT: Final = ir.FunctionType(VOID, [POINTER])
_NOW: Final = ir.FunctionType(I64, [])


class Arrival:
    """Emits the functions by which ranks meet."""

    def __init__(self, module: ir.Module, platform: Platform):
        self.module, self.platform = module, platform

    def _declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        function = declare_function(self.module, f"transport.{name}", function_type)
        function.linkage = "internal"
        return function

    @property
    def arrive(self) -> ir.Function:
        """`i32 (endpoint, members, count)`: returns when all members of a group have arrived as
        often as this rank; 0, or 1 + the rank that is lost.
        """
        return self._declare("arrive", _ARRIVE)

    @property
    def _await(self) -> ir.Function:
        return self._declare("await", _AWAIT)

    @property
    def blame(self) -> ir.Function:
        """`i32 (endpoint, rank)`: notes a rank as lost, unless another one is; what is noted."""
        return self._declare("blame", _BLAME)

    @property
    def _now(self) -> ir.Function:
        return self._declare("now", _NOW)

    def define(self) -> None:
        """Defines `arrive`, and `weft_abort`."""
        self._define_now()
        self._define_blame()
        self._define_await()
        self._define_arrive()
        code = new_function(self.module, "weft_abort", _ABORT, visible=True)
        rank = ENDPOINT.load(code, code.arguments[0], "rank")
        code.call(self.blame, [code.arguments[0], rank])
        code.ret_void()

    def _define_now(self) -> None:
        code = Code(self._now.append_basic_block("entry"))
        time = code.variable(ir.ArrayType(I64, 2))
        clock = declare_function(
            self.module, "clock_gettime", ir.FunctionType(I32, [I32, POINTER]), visible=True
        )
        code.call(clock, [i32(_MONOTONIC), time])
        seconds, rest = code.load(time, typ=I64), code.load(code.at(time, 8), typ=I64)
        code.ret(code.add(code.mul(seconds, i64(1_000_000_000)), rest))

    def _define_blame(self) -> None:
        code = Code(self.blame.append_basic_block("entry"))
        address, rank = code.arguments
        segment = ENDPOINT.load(code, address, "segment")
        HEAD.exchange(code, segment, "lost", i32(0), code.add(rank, i32(1)), "seq_cst")
        code.ret(HEAD.load_atomic(code, segment, "lost", "seq_cst"))

    def _define_await(self) -> None:
        """Waits until a rank has arrived so often; 0, or 1 + the rank that is lost."""
        code = Code(self._await.append_basic_block("entry"))
        address, rank, wanted = code.arguments
        spin, timeout = code.variable(I64), code.variable(ir.ArrayType(I64, 2))
        endpoint = Endpoint(code, address)
        line, own = endpoint.line(rank), endpoint.line(endpoint.rank)
        with code.repeat(ENDPOINT.load(code, address, "spins"), spin):
            code.return_if(_has_arrived(code, line, wanted)[0], i32(0))
            self.platform.spin_hint(code)
        RANK.store_atomic(code, own, "waits", code.add(rank, i32(1)), "seq_cst")
        start = code.call(self._now, [])
        code.store(i64(0), timeout)
        code.store(i64(_NAP), code.at(timeout, 8))
        with code.forever() as after:
            left = RANK.load_atomic(code, line, "left", "acquire")
            arrived, seen = _has_arrived(code, line, wanted)
            code.jump_if(arrived, after)
            lost = HEAD.load_atomic(code, endpoint.segment, "lost", "acquire")
            code.return_if(code.icmp_unsigned("!=", lost, i32(0)), lost)
            with code.unlikely(code.icmp_unsigned("!=", left, i32(0))):
                code.ret(code.call(self.blame, [address, rank]))
            waited = code.sub(code.call(self._now, []), start)
            late = code.icmp_signed(">", waited, ENDPOINT.load(code, address, "limit"))
            with code.unlikely(late):
                code.ret(code.call(self.blame, [address, self._culprit(code, endpoint, rank)]))
            # Either the other sees a sleeper, or the sleeper sees its count and does not sleep.
            RANK.update(code, line, "sleepers", "add", i32(1), "seq_cst")
            self.platform.sleep_shared(code, RANK.address(code, line, "arrived"), seen, timeout)
            RANK.update(code, line, "sleepers", "sub", i32(1), "seq_cst")
        RANK.store_atomic(code, own, "waits", i32(0), "seq_cst")
        code.ret(i32(0))

    def _culprit(self, code: Code, endpoint: Endpoint, rank: ir.Value) -> ir.Value:
        """Who the rank waits for, who that one waits for, and so on."""
        found, hops = code.variable_at_entry(I32), code.variable_at_entry(I64)
        code.store(rank, found)
        ranks = code.zext(ENDPOINT.load(code, endpoint.address, "ranks"), I64)
        with code.repeat(ranks, hops):
            line = endpoint.line(code.load(found, typ=I32))
            waits = RANK.load_atomic(code, line, "waits", "acquire")
            is_free = code.icmp_unsigned("==", waits, i32(0))
            one = code.sub(waits, i32(1))
            code.store(code.select(is_free, code.load(found, typ=I32), one), found)
        return code.load(found, typ=I32)

    def _define_arrive(self) -> None:
        code = Code(self.arrive.append_basic_block("entry"))
        address, members, count = code.arguments
        number = code.variable(I64)
        endpoint = Endpoint(code, address)
        own = endpoint.line(endpoint.rank)
        before = RANK.update(code, own, "arrived", "add", i32(1), "seq_cst")
        wanted = code.add(before, i32(1))
        sleepers = RANK.load_atomic(code, own, "sleepers", "seq_cst")
        with code.unlikely(code.icmp_unsigned("!=", sleepers, i32(0))):
            self.platform.wake_shared(code, RANK.address(code, own, "arrived"), i32(_EVERYONE))
        with code.repeat(count, number) as position:
            rank = code.load(code.element(members, position, I32), typ=I32)
            status = code.call(self._await, [address, rank, wanted])
            code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)
        code.ret(i32(0))


def _has_arrived(code: Code, line: ir.Value, wanted: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether a rank has arrived so often, and how often it has; counts wrap around."""
    seen = RANK.load_atomic(code, line, "arrived", "acquire")
    return code.icmp_signed(">=", code.sub(seen, wanted), i32(0)), seen
