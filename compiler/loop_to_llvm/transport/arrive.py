"""How ranks wait for each other: each counts what it does towards each other one, and waits for the
counts of the others, at first spinning, then asleep. Who waits in vain finds out who is to blame.
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
from weft.compiler.loop_to_llvm.transport.segment import ENDPOINT, HEAD, PAIR, RANK, Endpoint

_NAP: Final = 20_000_000
"""Nanoseconds that a rank sleeps before it looks whether others are still there."""

_MONOTONIC: Final = 1
_SECOND: Final = 1_000_000_000
_EVERYONE: Final = (1 << 31) - 1

_ARRIVE: Final = ir.FunctionType(I32, [POINTER, POINTER, I64])
_AWAIT: Final = ir.FunctionType(I32, [POINTER, I32, POINTER, I32])
_COUNT: Final = ir.FunctionType(VOID, [POINTER, POINTER])
_SLEEP: Final = ir.FunctionType(VOID, [I64])
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
        """`i32 (endpoint, members, count)`: returns when all members of a group have come to meet
        this rank as often as it has come; 0, or 1 + the rank that is lost.
        """
        return self._declare("arrive", _ARRIVE)

    @property
    def wait_for(self) -> ir.Function:
        """`i32 (endpoint, rank, word, wanted)`: returns when a count in the rank's line towards
        this one is no less than wanted; 0, or 1 + the rank that is lost.
        """
        return self._declare("await", _AWAIT)

    @property
    def count(self) -> ir.Function:
        """`void (line, word)`: adds 1 to a count in this rank's line towards another one, and wakes
        that.
        """
        return self._declare("count", _COUNT)

    @property
    def sleep_until(self) -> ir.Function:
        """`void (i64)`: returns when the clock has come to so many nanoseconds."""
        return self._declare("sleep_until", _SLEEP)

    @property
    def blame(self) -> ir.Function:
        """`i32 (endpoint, rank)`: notes a rank as lost, unless another one is; what is noted."""
        return self._declare("blame", _BLAME)

    @property
    def now(self) -> ir.Function:
        """`i64 ()`: nanoseconds of a clock that all ranks of a machine share."""
        return self._declare("now", _NOW)

    def define(self) -> None:
        """Defines the functions, and `weft_abort`."""
        self._define_now()
        self._define_sleep_until()
        self._define_blame()
        self._define_count()
        self._define_await()
        self._define_arrive()
        code = new_function(self.module, "weft_abort", _ABORT, visible=True)
        rank = ENDPOINT.load(code, code.arguments[0], "rank")
        code.call(self.blame, [code.arguments[0], rank])
        code.ret_void()

    def _define_now(self) -> None:
        code = Code(self.now.append_basic_block("entry"))
        time = code.variable(ir.ArrayType(I64, 2))
        clock = declare_function(
            self.module, "clock_gettime", ir.FunctionType(I32, [I32, POINTER]), visible=True
        )
        code.call(clock, [i32(_MONOTONIC), time])
        seconds, rest = code.load(time, typ=I64), code.load(code.at(time, 8), typ=I64)
        code.ret(code.add(code.mul(seconds, i64(_SECOND)), rest))

    def _define_blame(self) -> None:
        code = Code(self.blame.append_basic_block("entry"))
        address, rank = code.arguments
        segment = ENDPOINT.load(code, address, "segment")
        HEAD.exchange(code, segment, "lost", i32(0), code.add(rank, i32(1)), "seq_cst")
        code.ret(HEAD.load_atomic(code, segment, "lost", "seq_cst"))

    def _define_sleep_until(self) -> None:
        code = Code(self.sleep_until.append_basic_block("entry"))
        word, timeout = code.variable(I32, i32(0)), code.variable(ir.ArrayType(I64, 2))
        with code.forever() as after:
            left = code.sub(code.arguments[0], code.call(self.now, []))
            code.jump_if(code.icmp_signed("<=", left, i64(0)), after)
            code.store(code.sdiv(left, i64(_SECOND)), timeout)
            code.store(code.srem(left, i64(_SECOND)), code.at(timeout, 8))
            self.platform.sleep_shared(code, word, i32(0), timeout)
        code.ret_void()

    def _define_count(self) -> None:
        code = Code(self.count.append_basic_block("entry"))
        line, word = code.arguments
        code.atomic_rmw("add", word, i32(1), "seq_cst")
        sleepers = PAIR.load_atomic(code, line, "sleepers", "seq_cst")
        with code.unlikely(code.icmp_unsigned("!=", sleepers, i32(0))):
            self.platform.wake_shared(code, word, i32(_EVERYONE))
        code.ret_void()

    def _define_await(self) -> None:
        code = Code(self.wait_for.append_basic_block("entry"))
        address, rank, word, wanted = code.arguments
        spin, timeout = code.variable(I64), code.variable(ir.ArrayType(I64, 2))
        endpoint = Endpoint(code, address)
        line, own = endpoint.line(rank), endpoint.line(endpoint.rank)
        pair = endpoint.pair(rank, endpoint.rank)
        with code.repeat(ENDPOINT.load(code, address, "spins"), spin):
            code.return_if(_has_come(code, word, wanted)[0], i32(0))
            self.platform.spin_hint(code)
        RANK.store_atomic(code, own, "waits", code.add(rank, i32(1)), "seq_cst")
        start = code.call(self.now, [])
        code.store(i64(0), timeout)
        code.store(i64(_NAP), code.at(timeout, 8))
        with code.forever() as after:
            left = RANK.load_atomic(code, line, "left", "acquire")
            come, seen = _has_come(code, word, wanted)
            code.jump_if(come, after)
            lost = HEAD.load_atomic(code, endpoint.segment, "lost", "acquire")
            code.return_if(code.icmp_unsigned("!=", lost, i32(0)), lost)
            with code.unlikely(code.icmp_unsigned("!=", left, i32(0))):
                code.ret(code.call(self.blame, [address, rank]))
            waited = code.sub(code.call(self.now, []), start)
            late = code.icmp_signed(">", waited, ENDPOINT.load(code, address, "limit"))
            with code.unlikely(late):
                code.ret(code.call(self.blame, [address, self._culprit(code, endpoint, rank)]))
            # Either the other sees a sleeper, or the sleeper sees its count and does not sleep.
            PAIR.update(code, pair, "sleepers", "add", i32(1), "seq_cst")
            self.platform.sleep_shared(code, word, seen, timeout)
            PAIR.update(code, pair, "sleepers", "sub", i32(1), "seq_cst")
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
        with code.repeat(count, number) as position:
            rank = code.load(code.element(members, position, I32), typ=I32)
            line = endpoint.pair(endpoint.rank, rank)
            code.call(self.count, [line, PAIR.address(code, line, "arrived")])
        with code.repeat(count, number) as position:
            rank = code.load(code.element(members, position, I32), typ=I32)
            own, other = endpoint.pair(endpoint.rank, rank), endpoint.pair(rank, endpoint.rank)
            wanted = PAIR.load(code, own, "arrived")
            word = PAIR.address(code, other, "arrived")
            status = code.call(self.wait_for, [address, rank, word, wanted])
            code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)
        code.ret(i32(0))


def _has_come(code: Code, word: ir.Value, wanted: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether a count is no less than wanted, and what it is; counts wrap around."""
    seen = code.load_atomic(word, "acquire", 4, typ=I32)
    return code.icmp_signed(">=", code.sub(seen, wanted), i32(0)), seen
