"""What the machine can do, measured by loops that weft compiles: multiply-adds, and bytes to and
from each level of memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.bench.rounds import Measured, choose_cores
from weft.bench.session import Session
from weft.bench.worker import Job
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_loops
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.target.target import Target
from weft.dialects.errors import WeftError
from weft.dialects.weights import Array

SECONDS: Final = 0.08
"""How long each loop is repeated; its best time counts."""

CALL_SECONDS: Final = 2e-3
LEAST_OF: Final = 3
"""Calls of which the best tells how many repeats a call has."""

LINE_BYTES: Final = 64
"""Of a line of the cache, or a multiple of it."""

TURN_REPEATS: Final = 1 << 18
"""Of the loop of multiply-adds in a call that takes its turn: about a millisecond."""

READ_BYTES: Final = 1 << 23
"""Of each thread in a call of the loop that reads."""

UNROLLED: Final = 4
"""Vectors of each iteration of the loops over memory."""

READ: Final = """\
    %sums = loop.alloc registers : !loop.buffer<[{unrolled}, {lanes}], f32>
    loop.for %r = 0 to {unrolled} unroll {{
      loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %sums[%r, %c] : !loop.buffer<[{unrolled}, {lanes}], f32>
      }}
    }}
    loop.for %again = 0 to repeats {{
      loop.for %i = 0 to n {{
        loop.for %r = 0 to {unrolled} unroll {{
          loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
            %a = loop.load %x[%t, %i, %r, %c] : {big}
            %s = loop.load %sums[%r, %c] : !loop.buffer<[{unrolled}, {lanes}], f32>
            %sum = arith.addf %s, %a : f32
            loop.store %sum, %sums[%r, %c] : !loop.buffer<[{unrolled}, {lanes}], f32>
          }}
        }}
      }}
    }}
    loop.for %r = 0 to {unrolled} unroll {{
      loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
        %s = loop.load %sums[%r, %c] : !loop.buffer<[{unrolled}, {lanes}], f32>
        loop.store %s, %z[%t, 0, %r, %c] : {big}
      }}
    }}
"""

_EACH: Final = """\
    loop.for %again = 0 to repeats {{
      loop.for %i = 0 to n {{
        loop.for %r = 0 to {unrolled} unroll {{
          loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
            %a = loop.load %x[%t, %i, %r, %c] : {big}
{body}          }}
        }}
      }}
    }}
"""

COPY: Final = _EACH.replace("{body}", "            loop.store %a, %z[%t, %i, %r, %c] : {big}\n")

TRIAD: Final = _EACH.replace(
    "{body}",
    """\
            %b = loop.load %y[%t, %i, %r, %c] : {big}
            %three = arith.constant 3.0 : f32
            %p = arith.mulf %b, %three : f32
            %q = arith.addf %a, %p : f32
            loop.store %q, %z[%t, %i, %r, %c] : {big}
""",
)

FMA: Final = """\
    %sums = loop.alloc registers : !loop.buffer<[{chains}, {lanes}], f32>
    loop.for %r = 0 to {chains} unroll {{
      loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
        %start = loop.load %x[%t, %r, 0, %c] : {big}
        loop.store %start, %sums[%r, %c] : !loop.buffer<[{chains}, {lanes}], f32>
      }}
    }}
    loop.for %again = 0 to repeats {{
      loop.for %r = 0 to {chains} unroll {{
        loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
          %a = loop.load %x[%t, 0, 0, %c] : {big}
          %b = loop.load %y[%t, 0, 0, %c] : {big}
          %s = loop.load %sums[%r, %c] : !loop.buffer<[{chains}, {lanes}], f32>
          %p = arith.mulf %a, %b : f32
          %sum = arith.addf %s, %p : f32
          loop.store %sum, %sums[%r, %c] : !loop.buffer<[{chains}, {lanes}], f32>
        }}
      }}
    }}
    loop.for %r = 0 to {chains} unroll {{
      loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
        %s = loop.load %sums[%r, %c] : !loop.buffer<[{chains}, {lanes}], f32>
        loop.store %s, %z[%t, %r, 0, %c] : {big}
      }}
    }}
"""

_MODULE: Final = """\
loop.kernel @loops[threads, n, repeats](%x: {big}, %y: {big}, %z: {big}) {{
  loop.for %t = 0 to threads parallel {{
{loops}  }}
}}
loop.program @main[threads, n, repeats](
    %x: {big}, %y: {big}, %again: !loop.buffer<[repeats], i8>, %z: {big}) inputs 3 {{
  loop.call @loops[threads, n, repeats](%x, %y, %z) : {big}, {big}, {big}
}}
"""

ARRAYS: Final[Mapping[str, tuple[str, int]]] = {
    "read": (READ, 1),
    "copy": (COPY, 2),
    "triad": (TRIAD, 3),
}
"""Loops over memory, and how many arrays each goes through."""


class Bandwidth(Struct, frozen=True):
    """GB/s of a loop over arrays of so many bytes together, that are in one level of memory."""

    access: str
    level: str
    bytes: int
    gbs: float


class Limits(Struct, frozen=True):
    """GFLOP/s of f32 multiply-adds, two operations each, and bandwidths, of so many threads.
    `best_gflops` are those of the best moment, where `gflops` are a median.
    """

    cpu: str
    threads: int
    gflops: float
    bandwidths: tuple[Bandwidth, ...]
    best_gflops: float = 0.0

    def during(self, turns: Measured) -> Limits:
        """With the multiply-adds that the machine did while it was measured: the median of rounds,
        as engines have it, so that a slow hour or a low clock is no fault of theirs.

        Raises WeftError where `MultiplyAdds` has not run.
        """
        if turns.milliseconds is None:
            raise WeftError(f"bench requires multiply-adds to be timed, got: {turns.reason}")
        operations = _multiply_add_operations(host_target(), self.threads) * TURN_REPEATS
        least = min([turns.milliseconds, *turns.rounds])
        return replace(
            self,
            gflops=operations / turns.milliseconds * 1e-6,
            best_gflops=max(self.gflops, operations / least * 1e-6),
        )

    def memory_gbs(self, access: str) -> float:
        """GB/s of a kind of loop over arrays that fit in no cache."""
        return next(each.gbs for each in self.bandwidths[::-1] if each.access == access)

    def gbs(self, size: int) -> float:
        """The best bandwidth of arrays of `size` bytes together, as their level has it."""
        accesses = {each.access for each in self.bandwidths}
        return max(self._gbs(each, size) for each in accesses)

    def _gbs(self, access: str, size: int) -> float:
        of_access = [each for each in self.bandwidths if each.access == access]
        larger = [each for each in of_access if each.bytes >= size]
        return larger[0].gbs if larger else of_access[-1].gbs

    def seconds(self, flops: int, size: int) -> float:
        """The least time in which so much can be computed and moved: the roofline."""
        return max(flops / self.gflops, size / self.gbs(size)) * 1e-9


@dataclass(frozen=True)
class MultiplyAdds(Job):
    """The loop of multiply-adds, which takes turns with engines; see `Limits.during`."""

    @property
    def package(self) -> str:
        return "weft"

    @property
    def has_answer(self) -> bool:
        return False

    @property
    def operations(self) -> int:
        """Of a call, two for each multiply-add."""
        return _multiply_add_operations(host_target(), len(self.cores)) * TURN_REPEATS

    def prepare(self) -> None:
        _compiled_multiply_adds(host_target(), len(self.cores))

    def load(self) -> Session:
        target, threads = host_target(), len(self.cores)
        executable = _compiled_multiply_adds(target, threads).executable(threads)
        x = _multiplied(target, threads)
        y, again = x.copy(), np.empty(TURN_REPEATS, np.int8)
        return Session(lambda: executable(x, y, again), list)


@dataclass(frozen=True)
class Reads(MultiplyAdds):
    """The loop that reads; each thread has READ_BYTES of its own, which no L2 holds."""

    def prepare(self) -> None:
        compiled_loops(READ, host_target(), len(self.cores), 0)

    def load(self) -> Session:
        target, threads = host_target(), len(self.cores)
        executable = compiled_loops(READ, target, threads, 0).executable(threads)
        lanes = target.lanes(4)
        shape = (threads, READ_BYTES // (UNROLLED * lanes * 4), UNROLLED, lanes)
        x = touched_memory(4 * prod(shape))[: prod(shape)].reshape(shape)
        again = np.empty(1, np.int8)
        return Session(lambda: executable(x, x, again), list)


def multiply_adds(threads: int) -> dict[str, Job]:
    """The job by its name, on the cores that engines with as many threads have."""
    return {"multiply-adds": MultiplyAdds(choose_cores(threads))}


def measure_limits(threads: int) -> Limits:
    """Measures for as many threads, on cores of their own. Raises OptionError for too many."""
    target = host_target()
    levels = levels_of_memory(target, threads)
    gflops = measure_gflops(threads)
    with on_cores(choose_cores(threads)):
        memory = touched_memory(max(size for _, size in levels))
        bandwidths = [
            Bandwidth(each, level, size, _bandwidth(each, target, threads, size, memory))
            for each in ARRAYS
            for level, size in levels
        ]
    return Limits(target.cpu, threads, gflops, tuple(bandwidths))


def measure_gflops(threads: int) -> float:
    """Measures multiply-adds alone, as `Limits.gflops` has them. Raises OptionError for too many
    threads.
    """
    with on_cores(choose_cores(threads)):
        return _multiply_adds(host_target(), threads)


def measure_gbs(access: str, threads: int, size: int) -> float:
    """GB/s of a loop of ARRAYS over so many bytes. Raises OptionError for too many threads."""
    with on_cores(choose_cores(threads)):
        return _bandwidth(access, host_target(), threads, size, touched_memory(size))


@contextmanager
def on_cores(cores: Sequence[int]) -> Generator[None]:
    """This process and the threads that it starts on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def levels_of_memory(target: Target, threads: int) -> list[tuple[str, int]]:
    """Each level of memory, and bytes that fit in it and not in the one before."""
    return [
        ("L1", target.l1_bytes * threads // 2),
        ("L2", target.l2_bytes * threads // 2),
        ("L3", max(target.l3_bytes // 2, target.l2_bytes * threads)),
        ("memory", 4 * max(target.l3_bytes, target.l2_bytes * threads)),
    ]


def _multiply_adds(target: Target, threads: int) -> float:
    """GFLOP/s of as many chains as registers hold; each starts elsewhere, lest they be one."""
    executable = _compiled_multiply_adds(target, threads).executable(threads)
    operations = _multiply_add_operations(target, threads)
    return operations * repeats_per_second(executable, _multiplied(target, threads)) * 1e-9


def _chains(target: Target) -> int:
    return min(16, target.vector_registers - 4)


def _multiply_add_operations(target: Target, threads: int) -> int:
    """Of one repetition of the loop, on all threads."""
    return 2 * _chains(target) * target.lanes(4) * threads


def _multiplied(target: Target, threads: int) -> Array:
    return np.full((threads, _chains(target), UNROLLED, target.lanes(4)), 0.5, np.float32)


def _compiled_multiply_adds(target: Target, threads: int) -> Compiled:
    return compiled_loops(FMA, target, threads, _chains(target))


def touched_memory(size: int) -> Array:
    """At least so many bytes of ones, which begin with a line of the cache. Loops share them: that
    a page is touched for the first time takes longer than to read it.
    """
    lines = -(-size // LINE_BYTES)
    memory = np.ones((lines + 1) * LINE_BYTES // 4, np.float32)
    skipped = -memory.ctypes.data % LINE_BYTES // 4
    return memory[skipped : skipped + lines * LINE_BYTES // 4]


def _bandwidth(access: str, target: Target, threads: int, size: int, memory: Array) -> float:
    """GB/s over arrays of so many bytes together, those that are read at both ends of `memory`."""
    loops, arrays = ARRAYS[access]
    lanes = target.lanes(4)
    rows = max(1, size // (arrays * threads * UNROLLED * lanes * 4))
    shape = (threads, rows, UNROLLED, lanes)
    x, y = (part.reshape(shape) for part in (memory[: prod(shape)], memory[-prod(shape) :]))
    executable = compiled_loops(loops, target, threads, 0).executable(threads)
    return arrays * x.nbytes * repeats_per_second(executable, x, y) * 1e-9


@cache
def compiled_loops(
    loops: str, target: Target, threads: int, chains: int, unrolled: int = UNROLLED
) -> Compiled:
    """A program of these loops: over `[threads, n, unrolled, lanes]` arrays %x and %y, the last of
    which is %z, `repeats` times, or of multiply-adds in so many `chains`.
    """
    lanes = target.lanes(4)
    big = f"!loop.buffer<[threads, n, {unrolled}, {lanes}], f32>"
    body = loops.format(big=big, unrolled=unrolled, lanes=lanes, chains=chains)
    text = _MODULE.format(big=big, loops=body)
    return compile_loops(text, Options(target, artifact=Artifact("limits")))


def repeats_per_second(executable: Executable, x: Array, y: Array | None = None) -> float:
    """How often the loops go through the arrays in a second, at their best; through one of them
    alone unless there are two.
    """
    y = x if y is None else y
    repeats = 1
    while (spent := _least(executable, x, y, repeats)) < CALL_SECONDS:
        repeats = max(2 * repeats, round(repeats * CALL_SECONDS / spent))
    best, total = spent, LEAST_OF * spent
    while total < SECONDS:
        spent = _call(executable, x, y, repeats)
        best, total = min(best, spent), total + spent
    return repeats / best


def _least(executable: Executable, x: Array, y: Array, repeats: int) -> float:
    """The best of a few calls: any one may have waited for a core."""
    return min(_call(executable, x, y, repeats) for _ in range(LEAST_OF))


def _call(executable: Executable, x: Array, y: Array, repeats: int) -> float:
    return call_seconds(executable, x, y, np.empty(repeats, np.int8))


def call_seconds(executable: Executable, x: Array, y: Array, again: Array) -> float:
    """What a call takes that repeats its loops as often as `again` has elements."""
    start = time.perf_counter()
    executable(x, y, again)
    return time.perf_counter() - start
