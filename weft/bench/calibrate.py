"""The costs of this machine, measured by loops that weft compiles and rounded: the fields of
CostModel that no manual has to say.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from math import floor, log10, prod
from typing import Final

import numpy as np
from msgspec.structs import replace

from weft.bench.limits import (
    FMA,
    READ,
    call_seconds,
    compiled_loops,
    levels_of_memory,
    on_cores,
    repeats_per_second,
    touched_memory,
)
from weft.bench.rounds import choose_cores
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_loops
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.python.executable import Executable
from weft.compiler.target.cost import CALIBRATED, CostModel
from weft.compiler.target.target import Target
from weft.dialects.weights import Array

OnStep = Callable[[str, int, int], None]
"""Is told what is measured, how many measurements are done, and how many there are."""

STEPS: Final = 16
"""Additions and exclusive ors of each iteration of the clock's loop: two cycles each pair."""

ROWS: Final = 12
"""Accumulators of loops in L1, more than additions that are under way."""

SECTION_SECONDS: Final = 1e-5
"""Of each thread's work in a parallel section whose cost is measured."""

PAUSE_SECONDS: Final = 1e-5
"""Between two sections, as other work of a program is."""

SECTIONS: Final = 1000
LEAST_SECTION_NS: Final = 100.0
"""What a section takes at least, whatever noise makes of the difference that is measured."""

PAGES: Final = 1 << 13
PASSES: Final = 2

_CLOCK: Final = """\
loop.kernel @loops[repeats](%x: !loop.buffer<[4], i64>, %z: !loop.buffer<[4], i64>) {{
  %state = loop.alloc registers : !loop.buffer<[1], i64>
  %start = loop.load %x[0] : !loop.buffer<[4], i64>
  loop.store %start, %state[0] : !loop.buffer<[1], i64>
  loop.for %again = 0 to repeats {{
    loop.for %r = 0 to {steps} unroll {{
      %s = loop.load %state[0] : !loop.buffer<[1], i64>
      %a = loop.load %x[1] : !loop.buffer<[4], i64>
      %b = loop.load %x[2] : !loop.buffer<[4], i64>
      %t = arith.addi %s, %a : i64
      %u = arith.xori %t, %b : i64
      loop.store %u, %state[0] : !loop.buffer<[1], i64>
    }}
  }}
  %end = loop.load %state[0] : !loop.buffer<[1], i64>
  loop.store %end, %z[0] : !loop.buffer<[4], i64>
}}
loop.program @main[repeats](%x: !loop.buffer<[4], i64>, %y: !loop.buffer<[4], i64>,
    %again: !loop.buffer<[repeats], i8>, %z: !loop.buffer<[4], i64>) inputs 3 {{
  loop.call @loops[repeats](%x, %z) : !loop.buffer<[4], i64>, !loop.buffer<[4], i64>
}}
"""
"""A chain of operations of one cycle on every CPU, of which no compiler makes fewer."""

_FILL: Final = """\
    loop.for %again = 0 to repeats {{
      loop.for %i = 0 to n {{
        loop.for %r = 0 to {unrolled} unroll {{
          loop.for %c = 0 to {lanes} unroll vector({lanes}) {{
            %a = loop.load %x[%t, 0, 0, %c] : {big}
            loop.store %a, %z[%t, %i, %r, %c] : {big}
          }}
        }}
      }}
    }}
"""


def calibrate(target: Target, on_step: OnStep = lambda name, done, total: None) -> CostModel:
    """The costs of this machine, for which the target's are: sizes of caches, ways, lines and TLBs
    stay, as does what a call costs. Numbers have two digits. Raises WeftError.

    Everything is measured a few times, some seconds apart, and the best counts: other processes
    make nothing faster.
    """
    measurements = _measurements(target)
    total = PASSES * len(measurements)
    best: dict[str, float] = dict.fromkeys(measurements, 0.0)
    for number, (name, measure) in enumerate(PASSES * [*measurements.items()]):
        on_step(name, number, total)
        best[name] = max(best[name], measure())
    return replace(target.cost, source=CALIBRATED, **_costs(best, target))


def _costs(best: Mapping[str, float], target: Target) -> dict[str, float | int]:
    """The fields of the costs of these rates: each second, or GB/s."""
    hertz = best["clock"]
    gbs = {name: best[name] for name in ("L2", "L3", "memory", "memory of all")}
    threads = 2 * target.cost.parallel_each_ns
    return {
        "ghz": rounded(hertz * 1e-9),
        "fma_ports": max(1, round(best["multiply-adds"] / hertz)),
        "fma_latency": max(1, round(hertz / best["chain"])),
        "load_ports": _in_halves(best["loads"] / hertz),
        "store_ports": _in_halves(best["stores"] / hertz),
        "l2_bandwidth": rounded(gbs["L2"] * 1e9 / hertz),
        "l3_bandwidth": rounded(gbs["L3"] * 1e9 / hertz),
        "memory_gbs": rounded(gbs["memory"]),
        "total_memory_gbs": rounded(max(gbs["memory"], gbs["memory of all"])),
        "page_fault_ns": rounded(1e9 / best["page faults"]),
        "parallel_ns": rounded(max(LEAST_SECTION_NS, 1e9 / best["sections"] - threads)),
    }


def rounded(value: float) -> float:
    """Two digits of a number."""
    return round(value, 1 - floor(log10(value))) if value > 0 else value


def _in_halves(value: float) -> float:
    return max(0.5, round(2 * value) / 2)


def _measurements(target: Target) -> dict[str, Callable[[], float]]:
    """What is measured, all of it as rates."""
    chains = min(16, target.vector_registers - 4)
    rows = target.l1_bytes // 2 // (ROWS * target.vector_bytes)
    sizes = dict(levels_of_memory(target, 1))
    threads = len(os.sched_getaffinity(0))
    whole = dict(levels_of_memory(target, threads))["memory"]

    def vectors(loops: str, chains: int, rows: int) -> Callable[[], float]:
        return lambda: _vectors_per_second(target, loops, chains, rows)

    memory = touched_memory(max(whole, *sizes.values()))

    def read(threads: int, size: int) -> Callable[[], float]:
        return lambda: _read_gbs(target, threads, size, memory)

    return {
        "clock": lambda: _hertz(target),
        "multiply-adds": vectors(FMA, chains, 1),
        "chain": vectors(FMA, 1, 1),
        "loads": vectors(READ, 0, rows),
        "stores": vectors(_FILL, 0, rows),
        **{name: read(1, sizes[name]) for name in ("L2", "L3", "memory")},
        "memory of all": read(threads, whole),
        "sections": lambda: _sections_per_second(target),
        "page faults": _page_faults_per_second,
    }


def _hertz(target: Target) -> float:
    x = np.array([1, 3, 5, 7], np.int64)
    with on_cores(choose_cores(1)):
        return 2 * STEPS * repeats_per_second(_clock(target).executable(1), x)


@cache
def _clock(target: Target) -> Compiled:
    return compile_loops(_CLOCK.format(steps=STEPS), Options(target, artifact=Artifact("clock")))


def _vectors_per_second(target: Target, loops: str, chains: int, rows: int) -> float:
    """Of multiply-adds in so many chains, or of so many rows of vectors in L1."""
    compiled = compiled_loops(loops, target, 1, chains, ROWS)
    x = np.full((1, max(rows, chains), ROWS, target.lanes(4)), 0.5, np.float32)
    with on_cores(choose_cores(1)):
        return (chains or rows * ROWS) * repeats_per_second(compiled.executable(1), x)


def _read_gbs(target: Target, threads: int, size: int, memory: Array) -> float:
    """GB/s that so many threads read of one array of that many bytes of `memory`."""
    rows = max(1, size // (threads * ROWS * target.vector_bytes))
    shape = (threads, rows, ROWS, target.lanes(4))
    array = memory[: prod(shape)].reshape(shape)
    compiled = compiled_loops(READ, target, threads, 0, ROWS)
    with on_cores(choose_cores(threads)):
        return array.nbytes * repeats_per_second(compiled.executable(threads), array) * 1e-9


def _sections_per_second(target: Target) -> float:
    """One over what a section of two threads costs; over what the target has on one core."""
    if len(os.sched_getaffinity(0)) < 2:
        return 1e9 / (target.cost.parallel_ns + 2 * target.cost.parallel_each_ns)
    return 1 / max(measure_section(target, 2), LEAST_SECTION_NS * 1e-9)


def measure_section(target: Target, threads: int) -> float:
    """The seconds that a parallel section of so many threads takes longer than the work of each.
    Raises OptionError for more threads than cores.
    """
    compiled = compiled_loops(FMA, target, threads, 1, ROWS)
    x = np.full((threads, 1, ROWS, target.lanes(4)), 0.5, np.float32)
    with on_cores(choose_cores(threads)):
        alone, all_ = compiled.executable(1), compiled.executable(threads)
        repeats = max(1, round(repeats_per_second(alone, x[:1]) * SECTION_SECONDS))
        return _section_seconds(all_, x, repeats) - _section_seconds(alone, x[:1], repeats)


def _section_seconds(executable: Executable, x: Array, repeats: int) -> float:
    """What a tenth of the sections are done in: in most another process may have a core."""
    second, again = x.copy(), np.empty(repeats, np.int8)

    def paused() -> float:
        end = time.perf_counter() + PAUSE_SECONDS
        while time.perf_counter() < end:
            pass
        return call_seconds(executable, x, second, again)

    return sorted(paused() for _ in range(SECTIONS))[SECTIONS // 10]


def _page_faults_per_second() -> float:
    """Of pages of the usual size that are touched for the first time."""
    size = PAGES * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        bytes_of_pages = np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE]
        start = time.perf_counter()
        bytes_of_pages[:] = 1
        first = time.perf_counter()
        bytes_of_pages[:] = 2
        again = time.perf_counter()
        del bytes_of_pages
    return PAGES / max(first - start - (again - first), 1e-9)
