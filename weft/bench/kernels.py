"""What each kernel of a model takes, by a build of the program that reads a clock between calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Final

import numpy as np
from msgspec import Struct

from weft.bench.limits import Limits, on_cores
from weft.bench.rounds import choose_cores
from weft.bench.rows import Row, rates
from weft.bench.session import Inputs
from weft.bench.work import Work
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.python.executable import Executable
from weft.dialects.weights import Array

SECONDS: Final = 1.0
LEAST_CALLS: Final = 5
MOST_CALLS: Final = 500


class KernelTime(Struct, frozen=True):
    """The milliseconds of all calls of one kernel in one call of the model."""

    name: str
    milliseconds: float


def time_kernels(
    builds: Sequence[Compiled], inputs: Inputs, threads: int, seconds: float = SECONDS
) -> list[list[KernelTime]]:
    """The kernels' times in each timed build, medians over calls that the builds take in turns for
    so many seconds each. Raises OptionError for more threads than cores.
    """
    with on_cores(choose_cores(threads)):
        timed = [_Timed(build, inputs, threads) for build in builds]
        calls = 0
        start = time.perf_counter()
        while calls < LEAST_CALLS or (
            time.perf_counter() - start < seconds * len(builds) and calls < MOST_CALLS
        ):
            calls += 1
            for each in timed:
                each.call()
        return [each.times() for each in timed]


class _Timed:
    """A build and the ticks of its calls."""

    def __init__(self, build: Compiled, inputs: Inputs, threads: int):
        self._executable: Executable = build.executable(threads)
        self._arrays = [inputs[spec.name] for spec in self._executable.inputs]
        self._names: list[str] = build.metadata["timed_calls"]
        self._ticks: list[Array] = []
        self._executable(*self._arrays)
        self._begin = (self._read(), time.perf_counter())

    def _read(self) -> int:
        """The clock at the end of a call."""
        return int(self._executable(*self._arrays)[-1][-1])

    def call(self) -> None:
        self._ticks.append(self._executable(*self._arrays)[-1])

    def times(self) -> list[KernelTime]:
        ticks, seconds = self._read() - self._begin[0], time.perf_counter() - self._begin[1]
        by_call = np.array([each[:-1] for each in self._ticks], np.float64) * (seconds / ticks)
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self._names):
            found.setdefault(name, []).append(position)
        return [
            KernelTime(name, 1e3 * median(by_call[:, positions].sum(axis=1)))
            for name, positions in found.items()
        ]


def kernel_rows(times: Sequence[KernelTime], work: Work, limits: Limits) -> list[Row]:
    """A row of each kernel, the slowest first: its time, share and rates, and its schedules."""
    by_name = {kernel.name: kernel for kernel in work.kernels}
    total = sum(each.milliseconds for each in times)
    rows: list[Row] = []
    for each in sorted(times, key=lambda each: -each.milliseconds):
        kernel = by_name[each.name]
        row: Row = {"kind": "kernel", "kernel": each.name, "calls": kernel.calls}
        row |= {"threads": limits.threads, "ms": float(f"{each.milliseconds:.4g}")}
        row |= {"share_percent": round(100 * each.milliseconds / total, 1)}
        row |= rates(max(each.milliseconds, 1e-6), kernel.flops, kernel.bytes, limits)
        rows.append(row | {"schedules": list(kernel.schedules)})
    return rows
