"""The threads of a context: how a parallel loop is cut into chunks that its caller and idle workers
claim.

The caller publishes a loop and claims chunks like everyone else; when none is left it waits only
for those that others have claimed. So a worker that the system does not run costs nothing.

All turns on one word, the ticket: 40 bits that number the loop, 12 that count the chunks which its
caller has claimed, and 12 for those that nobody has. Whoever finds chunks left reads the loop's
description and then claims one by compare-and-swap. That succeeds only while the ticket still says
what it said before the description was read; and as the description is changed only after the
loop's last chunk was claimed and finished, it is the description of that loop. A late worker
therefore never runs a stale body: its swap fails, and it holds nothing of the caller's but what a
claimed chunk keeps alive.

The caller goes through the first chunks, its share, and the workers through those behind it, each
upwards; who comes to the end of its own helps the others from behind. So a thread has neighbouring
chunks, and from loop to loop about the same part of the arrays, which its own caches hold.

tests/compiler/loop_to_llvm/runtime/pool_model.py states this protocol step by step and explores
every order of the steps; a change here is a change there.
"""

from __future__ import annotations

from typing import Final

import msgspec
from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime.code import (
    BODY,
    I1,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    declare_function,
    i32,
    i64,
    new_function,
)
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT, Field, Struct
from weft.compiler.loop_to_llvm.runtime.platform import SIG_SETMASK, SIGSET_BYTES, Platform
from weft.compiler.loop_to_llvm.runtime.profile import Part, Profile
from weft.compiler.loop_to_llvm.runtime.status import fail
from weft.compiler.loop_to_llvm.runtime.worker_core import WorkerCore
from weft.dialects.loop.iteration_cost import CHUNKS_PER_THREAD

SPINS: Final = 4000

_COUNT_BITS: Final = 12
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1
_ASLEEP: Final = 1 << 31
_EVERYONE: Final = (1 << 31) - 1

PARALLEL_FOR: Final = ir.FunctionType(VOID, [POINTER, I64, I64, POINTER, POINTER])
HOST_PARALLEL_FOR: Final = ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER])
_WITH_CONTEXT: Final = ir.FunctionType(VOID, [POINTER])
_THREAD: Final = ir.FunctionType(POINTER, [POINTER])

# What a loop of the host's gets as argument: the loop of ours that its indices are chunks of.
# `worked` is when the caller's thread ended its last part of a loop that is profiled.
_SHARED: Final = Struct(
    64,
    body=Field(POINTER, 0),
    argument=Field(POINTER, 8),
    count=Field(I64, 16),
    chunks=Field(I64, 24),
    context=Field(POINTER, 32),
    part_name=Field(POINTER, 40),
    part_number=Field(I32, 48),
    worked=Field(I64, 56),
)


class Loop(msgspec.Struct, frozen=True):
    """A parallel loop: `body(argument, begin, end)` over `count` iterations in so many chunks."""

    body: ir.Value
    argument: ir.Value
    count: ir.Value
    chunks: ir.Value

    def part(self, begin: ir.Value, end: ir.Value) -> Part:
        """Iterations of it."""
        return Part(self.body, [self.argument, begin, end])

    def run_all(self, code: Code) -> None:
        self.part(i64(0), self.count).run(code)

    def start(self, code: Code, chunk: ir.Value) -> ir.Value:
        """The first iteration of a chunk; chunks differ by at most one iteration, and so do those
        of each half.
        """
        share = code.udiv(self.count, self.chunks)
        left = code.mul(chunk, code.urem(self.count, self.chunks))
        return code.add(code.mul(chunk, share), code.udiv(left, self.chunks))


class Pool:
    """Emits the pool's functions into a module, under names that start with the model's prefix."""

    def __init__(self, module: ir.Module, platform: Platform, prefix: str):
        self.module = module
        self.platform = platform
        self.prefix = prefix
        self.profile = Profile(module, platform, prefix)
        self.core = WorkerCore(module, platform, prefix)

    def declare(self, name: str, function_type: ir.FunctionType) -> ir.Function:
        """A function of the model's own, hidden from others."""
        return declare_function(self.module, f"{self.prefix}.{name}", function_type)

    def define_own(self, name: str, function_type: ir.FunctionType) -> Code:
        """The builder of such a function."""
        return new_function(self.module, f"{self.prefix}.{name}", function_type)

    def define_exported(self, name: str, function_type: ir.FunctionType) -> Code:
        """The builder of a function of the ABI, `m_cancel` for the name `cancel`."""
        return new_function(self.module, f"{self.prefix}_{name}", function_type, visible=True)

    def define(self) -> None:
        """Defines parallel_for, start_workers and stop_workers, and what these need."""
        if self.profile.is_available:
            self.profile.define()
        self.core.define()
        self._define_parallel_for()
        self._define_share()
        self._define_share_part()
        self._define_fork_join()
        self._define_claim()
        self._define_wait_finished()
        self._define_worker()
        self._define_wait_epoch()
        self._define_start_workers()
        self._define_stop_workers()
        if self.platform.has_threads:
            self._define_lent()

    @property
    def parallel_for(self) -> ir.Function:
        """`void (context, count, grain, body, argument)`."""
        return self.declare("parallel_for", PARALLEL_FOR)

    @property
    def start_workers(self) -> ir.Function:
        """`void (context, workers)`: starts as many as the system lets it. Where that is not all,
        loops are for fewer threads and the context holds the reason.
        """
        return self.declare("start_workers", ir.FunctionType(VOID, [POINTER, I64]))

    @property
    def stop_workers(self) -> ir.Function:
        """`void (context)`: returns when all have ended."""
        return self.declare("stop_workers", _WITH_CONTEXT)

    @property
    def _fork_join(self) -> ir.Function:
        return self.declare(
            "fork_join", ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64])
        )

    def _define_parallel_for(self) -> None:
        code = self.define_own("parallel_for", PARALLEL_FOR)
        context, count, grain, body, argument = code.arguments
        code.return_if(code.icmp_signed("<=", count, i64(0)))
        with code.if_then(code.is_null(context)):
            Loop(body, argument, count, i64(1)).run_all(code)
            code.ret_void()
        chunks = _chunk_count(code, context, count, grain)
        loop = Loop(body, argument, count, chunks)
        with code.if_then(code.icmp_unsigned("<=", chunks, i64(1))):
            loop.run_all(code)
            code.ret_void()
        described = [context, body, argument, count, chunks]
        with code.if_then(code.not_(code.is_null(CONTEXT.load(code, context, "parallel_for")))):
            code.call(self._share, described)
            code.ret_void()
        # Taken: by another caller on this context, or this is a loop inside a body.
        free = CONTEXT.exchange(code, context, "busy", i32(0), i32(1), "acquire")
        with code.if_else(free) as (then, otherwise):
            with then:
                code.call(self._fork_join, described)
                CONTEXT.store_atomic(code, context, "busy", i32(0), "release")
            with otherwise:
                loop.run_all(code)
        code.ret_void()

    def _define_lent(self) -> None:
        """`m_parallel_for`, by which other contexts, of any artifact, run their loops here."""
        code = self.define_exported("parallel_for", HOST_PARALLEL_FOR)
        pool, count, body, argument = code.arguments
        code.call(self.parallel_for, [pool, count, i64(1), body, argument])
        code.ret_void()

    @property
    def _share(self) -> ir.Function:
        return self.declare("share", ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64]))

    def _define_share(self) -> None:
        """Lets the host's `parallel_for` run a loop over the chunks."""
        code = Code(self._share.append_basic_block("entry"))
        context, body, argument, count, chunks = code.arguments
        shared = code.variable(ir.ArrayType(I64, _SHARED.size // 8))
        _SHARED.store(code, shared, "body", body)
        _SHARED.store(code, shared, "argument", argument)
        _SHARED.store(code, shared, "count", count)
        _SHARED.store(code, shared, "chunks", chunks)
        _SHARED.store(code, shared, "context", context)
        self.profile.note_span(code, context, (_SHARED, shared))
        host = CONTEXT.load(code, context, "parallel_for")
        user = CONTEXT.load(code, context, "parallel_for_user")
        with self.profile.waiting_since(code, context, _SHARED.address(code, shared, "worked")):
            code.call_pointer(host, HOST_PARALLEL_FOR, [user, chunks, self._share_part, shared])
        code.ret_void()

    @property
    def _share_part(self) -> ir.Function:
        return self.declare("share_part", BODY)

    def _define_share_part(self) -> None:
        """The body that the host runs: chunks `begin` to `end` are one run of iterations."""
        code = Code(self._share_part.append_basic_block("entry"))
        shared, begin, end = code.arguments
        described = ("body", "argument", "count", "chunks")
        loop = Loop(*(_SHARED.load(code, shared, name) for name in described))
        code.return_if(code.icmp_signed(">=", begin, end))
        part = loop.part(loop.start(code, begin), loop.start(code, end))
        context = _SHARED.load(code, shared, "context")
        self.profile.run_part(code, context, (_SHARED, shared), part)
        self.profile.note_worked(code, context, _SHARED.address(code, shared, "worked"))
        code.ret_void()

    def _define_fork_join(self) -> None:
        """Publishes the loop, works on it and waits for its end; the context's `busy` is the
        caller's.
        """
        code = Code(self._fork_join.append_basic_block("entry"))
        context, body, argument, count, chunks = code.arguments
        threads = CONTEXT.load(code, context, "threads")
        share = code.udiv(code.sub(code.add(chunks, threads), i64(1)), threads)
        for name, value in (
            ("body", body),
            ("argument", argument),
            ("count", count),
            ("chunks", chunks),
            ("share", share),
        ):
            CONTEXT.store_atomic(code, context, name, value, "monotonic")
        self.core.note_caller(code, context)
        self.profile.note_span(code, context, (CONTEXT, context))
        CONTEXT.store_atomic(code, context, "finished", i32(0), "monotonic")
        last = CONTEXT.load_atomic(code, context, "ticket", "monotonic")
        number = code.add(code.lshr(last, i64(2 * _COUNT_BITS)), i64(1))
        ticket = code.or_(code.shl(number, i64(2 * _COUNT_BITS)), chunks)
        CONTEXT.store_atomic(code, context, "ticket", ticket, "release")
        # Either this caller sees a sleeper, or the sleeper sees the new epoch and does not sleep.
        CONTEXT.update(code, context, "epoch", "add", i32(1), "seq_cst")
        sleepers = CONTEXT.load_atomic(code, context, "sleepers", "seq_cst")
        with code.unlikely(code.icmp_unsigned("!=", sleepers, i32(0))):
            others = code.trunc(code.sub(chunks, i64(1)), I32)
            self.platform.wake(code, CONTEXT.address(code, context, "epoch"), others)
        code.call(self._claim, [context, I1(1)])
        awaited = code.trunc(chunks, I32)
        finished = CONTEXT.load_atomic(code, context, "finished", "acquire")
        waits = code.icmp_unsigned("!=", finished, awaited)
        with self.profile.waiting(code, context, waits):
            code.call(self._wait_finished, [context, awaited])
        code.ret_void()

    @property
    def _claim(self) -> ir.Function:
        return self.declare("claim", ir.FunctionType(VOID, [POINTER, I1]))

    def _define_claim(self) -> None:
        """Claims and runs chunks until none is left, as the loop's caller or as a worker."""
        code = Code(self._claim.append_basic_block("entry"))
        context, is_caller = code.arguments
        mine = code.select(is_caller, i64(1 << _COUNT_BITS), i64(0))
        with code.forever() as after:
            ticket = CONTEXT.load_atomic(code, context, "ticket", "acquire")
            left = code.and_(ticket, i64(_COUNT_MASK))
            code.jump_if(code.icmp_unsigned("==", left, i64(0)), after)
            described = ("body", "argument", "count", "chunks")
            loop = Loop(*(CONTEXT.load_atomic(code, context, n, "monotonic") for n in described))
            share = CONTEXT.load_atomic(code, context, "share", "monotonic")
            claims = code.sub(code.add(ticket, mine), i64(1))
            # Acquires and releases: the reads above may not sink below a claim that succeeds.
            claimed = CONTEXT.exchange(code, context, "ticket", ticket, claims, "acq_rel")
            with code.if_then(claimed):
                taken = code.and_(code.lshr(ticket, i64(_COUNT_BITS)), i64(_COUNT_MASK))
                chunk = _next_chunk(code, loop.chunks, share, left, taken, is_caller)
                following = code.add(chunk, i64(1))
                part = loop.part(loop.start(code, chunk), loop.start(code, following))
                # A worker's span is told before the chunk counts as finished: then the caller may
                # return, and its host forget what it profiles into.
                self.profile.run_part(code, context, (CONTEXT, context), part)
                self._report(code, context, loop)
        code.ret_void()

    def _report(self, code: Code, context: ir.Value, loop: Loop) -> None:
        """Counts a chunk as finished, and wakes the loop's caller where that was the last one."""
        before = CONTEXT.update(code, context, "finished", "add", i32(1), "acq_rel")
        last = code.or_(i32(_ASLEEP), code.trunc(code.sub(loop.chunks, i64(1)), I32))
        with code.unlikely(code.icmp_unsigned("==", before, last)):
            self.platform.wake(code, CONTEXT.address(code, context, "finished"), i32(1))

    @property
    def _wait_finished(self) -> ir.Function:
        return self.declare("wait_finished", ir.FunctionType(VOID, [POINTER, I32]))

    def _define_wait_finished(self) -> None:
        """Waits until so many chunks are finished: first spinning, then asleep."""
        code = Code(self._wait_finished.append_basic_block("entry"))
        context, chunks = code.arguments
        spin = code.variable(I64)
        with code.repeat(i64(SPINS), spin):
            finished = CONTEXT.load_atomic(code, context, "finished", "acquire")
            code.return_if(code.icmp_unsigned("==", finished, chunks))
            self.platform.spin_hint(code)
        with code.forever() as after:
            marked = CONTEXT.update(code, context, "finished", "or", i32(_ASLEEP), "acq_rel")
            finished = code.and_(marked, i32(_ASLEEP - 1))
            code.jump_if(code.icmp_unsigned("==", finished, chunks), after)
            asleep = code.or_(marked, i32(_ASLEEP))
            self.platform.sleep(code, CONTEXT.address(code, context, "finished"), asleep)
        code.ret_void()

    @property
    def _worker(self) -> ir.Function:
        return self.declare("worker", _THREAD)

    def _define_worker(self) -> None:
        """What a thread of the pool runs until it is told to stop."""
        code = Code(self._worker.append_basic_block("entry"))
        (context,) = code.arguments
        state = self.core.new_state(code)
        with code.forever() as after:
            # Before looking for work: what is published later changes it.
            epoch = CONTEXT.load_atomic(code, context, "epoch", "acquire")
            stop = CONTEXT.load_atomic(code, context, "stop", "acquire")
            code.jump_if(code.icmp_unsigned("!=", stop, i32(0)), after)
            self.core.leave_caller(code, context, state)
            code.call(self._claim, [context, I1(0)])
            self.core.give_up(code, state)
            code.call(self._wait_epoch, [context, epoch])
        code.ret(NULL)

    @property
    def _wait_epoch(self) -> ir.Function:
        return self.declare("wait_epoch", ir.FunctionType(VOID, [POINTER, I32]))

    def _define_wait_epoch(self) -> None:
        """Returns when the epoch is another one, or sooner."""
        code = Code(self._wait_epoch.append_basic_block("entry"))
        context, seen = code.arguments
        spin = code.variable(I64)
        with code.repeat(i64(SPINS), spin):
            epoch = CONTEXT.load_atomic(code, context, "epoch", "acquire")
            code.return_if(code.icmp_unsigned("!=", epoch, seen))
            self.platform.spin_hint(code)
        CONTEXT.update(code, context, "sleepers", "add", i32(1), "seq_cst")
        self.platform.sleep(code, CONTEXT.address(code, context, "epoch"), seen)
        CONTEXT.update(code, context, "sleepers", "sub", i32(1), "seq_cst")
        code.ret_void()

    def _define_start_workers(self) -> None:
        """Starts threads that take no signals, so that the host's handlers run on the host's
        threads.
        """
        code = Code(self.start_workers.append_basic_block("entry"))
        context, workers = code.arguments
        error = code.variable(I32, i32(0))
        every, before = (code.variable(ir.ArrayType(I64, SIGSET_BYTES // 8)) for _ in range(2))
        self.platform.call(code, "sigfillset", [every])
        self.platform.call(code, "pthread_sigmask", [i32(SIG_SETMASK), every, before])
        handles = CONTEXT.load(code, context, "handles")
        with code.forever() as after:
            started = CONTEXT.load(code, context, "workers")
            code.jump_if(code.icmp_unsigned(">=", started, workers), after)
            arguments = [code.element(handles, started, I64), NULL, self._worker, context]
            code.store(self.platform.call(code, "pthread_create", arguments), error)
            failed = code.icmp_unsigned("!=", code.load(error, typ=I32), i32(0))
            code.jump_if(failed, after)
            CONTEXT.store(code, context, "workers", code.add(started, i64(1)))
        self.platform.call(code, "pthread_sigmask", [i32(SIG_SETMASK), before, NULL])
        started = CONTEXT.load(code, context, "workers")
        with code.unlikely(code.icmp_unsigned("<", started, workers)):
            threads = code.add(started, i64(1))
            CONTEXT.store(code, context, "threads", threads)
            text = "create requires {} threads, got {}: pthread_create gave {}"
            shown = [code.add(workers, i64(1)), threads, code.sext(code.load(error, typ=I32), I64)]
            fail(code, context, Status.OUT_OF_MEMORY, text, shown)
        code.ret_void()

    def _define_stop_workers(self) -> None:
        code = Code(self.stop_workers.append_basic_block("entry"))
        (context,) = code.arguments
        number = code.variable(I64)
        # A fork copies the context and no worker that could be waited for.
        process = self.platform.call(code, "getpid", [])
        code.return_if(code.icmp_unsigned("!=", process, CONTEXT.load(code, context, "process")))
        CONTEXT.store_atomic(code, context, "stop", i32(1), "release")
        CONTEXT.update(code, context, "epoch", "add", i32(1), "seq_cst")
        self.platform.wake(code, CONTEXT.address(code, context, "epoch"), i32(_EVERYONE))
        handles = CONTEXT.load(code, context, "handles")
        with code.repeat(CONTEXT.load(code, context, "workers"), number) as joined:
            handle = code.load(code.element(handles, joined, I64), typ=I64)
            self.platform.call(code, "pthread_join", [handle, NULL])
        code.ret_void()


def _next_chunk(
    code: Code,
    chunks: ir.Value,
    share: ir.Value,
    left: ir.Value,
    taken: ir.Value,
    is_caller: ir.Value,
) -> ir.Value:
    """The chunk that the caller, which has taken so many, or a worker claims: the next of its own
    side of the share's end; when that is done, the last of the other side that is left.
    """
    others = code.sub(code.sub(chunks, left), taken)
    done = code.select(is_caller, taken, others)
    begin = code.select(is_caller, i64(0), share)
    end = code.select(is_caller, share, chunks)
    behind = code.select(is_caller, chunks, share)
    own = code.sub(end, begin)
    last = code.sub(code.sub(behind, i64(1)), code.sub(done, own))
    return code.select(code.icmp_unsigned("<", done, own), code.add(begin, done), last)


def _chunk_count(code: Code, context: ir.Value, count: ir.Value, grain: ir.Value) -> ir.Value:
    """In how many chunks a loop is run: so many that none has more than `grain` iterations, but
    only a few for each thread.
    """
    least = code.select(code.icmp_signed("<", grain, i64(1)), i64(1), grain)
    enough = code.add(code.udiv(code.sub(count, i64(1)), least), i64(1))
    threads = CONTEXT.load(code, context, "threads")
    most = code.least(code.mul(threads, i64(CHUNKS_PER_THREAD)), i64(_COUNT_MASK))
    chunks = code.least(enough, most)
    return code.select(code.icmp_unsigned("==", threads, i64(1)), i64(1), chunks)
