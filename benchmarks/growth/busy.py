"""Calls while other processes are busy: `python -m benchmarks.growth.busy [MODEL ...]`.

Networks of the recorded list run on one and on two threads of two cores, then on two threads beside
a process that computes without a pause on one of the cores, then beside one on each. What is told
of a network are the medians over that of one thread on a quiet machine, of so many calls, and the
99th percentile beside one process in milliseconds above it; and how many calls four callers at once
make, each on two threads, in the time of one call of one caller. `--prepare` only compiles, into
the folder of `--artifacts`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any, Final

import weft
from benchmarks.models import find_cases
from benchmarks.options import append_row, parser_of
from benchmarks.run import prepare
from weft.bench.limits import on_cores
from weft.bench.rounds import choose_cores
from weft.dialects.weights import Array

DEFAULT: Final = ("mobilenet_v2_b1", "squeezenet", "efficientnet_b0", "densenet121", "resnet50_b1")
SHORTEST: Final = 5.0
"""Milliseconds of a call on one thread that are asked for."""

CALLERS: Final = 4
CALLERS_SECONDS: Final = 1.0

_SPIN: Final = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"


def main() -> None:
    """Measures network after network; prints a line of each, and the geometric mean."""
    arguments = _arguments()
    cores = choose_cores(2)
    rows: list[dict[str, Any]] = []
    models = find_cases(arguments.models or list(DEFAULT))
    with tempfile.TemporaryDirectory(prefix="weft-busy-") as folder, on_cores(cores):
        for case in models:
            library = prepare(case, arguments.artifacts or Path(folder)).library
            if arguments.prepare:
                continue
            one, two = (weft.load(library, threads=n) for n in (1, 2))
            arrays = [case.inputs()[each.name] for each in one.inputs]
            few, many = arguments.calls // 4, arguments.calls
            times = {
                "one": _times(one, arrays, few, ()),
                "two": _times(two, arrays, few, ()),
                "busy": _times(two, arrays, many, cores[1:]),
                "both": _times(two, arrays, few, cores),
            }
            quiet = median(times["one"])
            row = {"model": case.name, "ms": round(quiet, 3), "calls": arguments.calls}
            row |= {name: round(median(each) / quiet, 3) for name, each in times.items()}
            row["late_ms"] = round(quantiles(times["busy"], n=100)[98] - quiet, 2)
            row["callers"] = round(_rate([library] * CALLERS, arrays) * median(times["two"]), 3)
            append_row(arguments.output, row)
            print(row, flush=True)
            rows.append(row)
    long = [row["busy"] for row in rows if row["ms"] >= SHORTEST]
    print(f"of {len(long)} networks of 5 ms and more: {geometric_mean(long):.3f}" if long else "")


def _times(
    executable: Callable[..., object], arrays: Sequence[Array], count: int, busy: Sequence[int]
) -> list[float]:
    """Milliseconds of so many calls, beside processes that keep these cores busy."""
    with _spinning(busy):
        for _ in range(3):
            executable(*arrays)
        found: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            executable(*arrays)
            found.append(1e3 * (time.perf_counter() - start))
        return found


def _rate(libraries: Sequence[Path], arrays: Sequence[Array]) -> float:
    """Calls a millisecond of as many callers as there are libraries, each with its own context."""

    def calls(executable: Callable[..., object]) -> int:
        count = 0
        while time.perf_counter() < end:
            executable(*arrays)
            count += 1
        return count

    executables = [weft.load(library, threads=2) for library in libraries]
    start = time.perf_counter()
    end = start + CALLERS_SECONDS
    with ThreadPoolExecutor(len(executables)) as pool:
        count = sum(pool.map(calls, executables))
    return count / (1e3 * (time.perf_counter() - start))


@contextmanager
def _spinning(cores: Sequence[int]) -> Generator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", _SPIN, str(core)]) for core in cores]
    try:
        time.sleep(0.2 if processes else 0.0)
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def _arguments() -> argparse.Namespace:
    parser = parser_of("growth.busy", __doc__, "busy-")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"by default {DEFAULT}")
    parser.add_argument("--calls", type=int, default=200, help="beside one process that is busy")
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help="where models are kept")
    parser.add_argument("--prepare", action="store_true", help="only compile, into --artifacts")
    arguments = parser.parse_args()
    if arguments.prepare and arguments.artifacts is None:
        parser.error("--prepare requires --artifacts")
    return arguments


if __name__ == "__main__":
    main()
