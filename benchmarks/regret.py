"""What weft's choice of a plan costs: `python -m benchmarks.regret sgemm_512`.

The reference search tries a fixed set of at least 100 plans for each product and convolution: all
register tiles that fit the registers, with panels packed always, as weft would, never, and small
ones only, and weft's own choices for CPUs with other caches, vectors and registers. What weft chose
and the best three are timed again, in turns. Regret is the time of the choice over that of the
best: 1.05 means that another plan would have saved 5 %. `--move` changes each size of products by
up to 17 %, drawn from a seed, for sizes that nobody has looked at. Each line of the result is one
case with one number of threads. Equal plans count once, so that small products have fewer. The
rank correlation says how alike the orders of the plans by expected and by measured times are.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replace_options
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from statistics import correlation, geometric_mean, median
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from rich.console import Console
from rich.progress import track

from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.operators import matmul
from benchmarks.options import add_rounds, append_row, parser_of
from weft.bench.limits import on_cores
from weft.bench.rounds import choose_cores, disagreement
from weft.compiler.driver.compile_kernels import parse_kernel
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model, naive_kernels
from weft.compiler.driver.read_options import read_target
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.schedules import schedule_kernel
from weft.compiler.loop.schedules.contraction import Choose
from weft.compiler.loop.schedules.gemm.choose_plan import choose_plan, rate, time_of
from weft.compiler.loop.schedules.gemm.plan import Packing, Plan
from weft.compiler.loop.schedules.gemm.plans import plan_with
from weft.compiler.loop.schedules.gemm.problem import Problem
from weft.compiler.loop.schedules.gemm.views import View
from weft.compiler.loop.schedules.planned import schedules_with
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule, WeftError
from weft.dialects.weights import Array

PRODUCTS: Final = (
    "sgemm_256",
    "sgemm_512",
    "sgemm_1024",
    "matmul_128x768x3072_constant",
    "matmul_100x100x100",
    "matmul_333x777x555",
    "matmul_8x768x3072_constant",
    "matmul_32x768x768_constant",
    "matmul_4096x64x64_constant",
    "matmul_12x128x64x128",
    "conv1x1_14_1024_256",
    "conv3x3s2_56_128_128",
    "conv5x5_28_64_96",
    "conv3x3_group4_28_128",
)
"""What is searched by default."""

SIZES: Final = ((192, 320, 448), (512, 512, 512), (64, 1024, 768), (300, 300, 300), (1024, 96, 640))
"""Products (m, k, n) that `--move` starts from, on given operands and on constants."""

PACKINGS: Final[tuple[Packing, ...]] = ("none", "stored", "strided", "tile", "flat", "whole")
MOST_ROWS: Final = 14
MOST_VECTORS: Final = 4

FIRST_SECONDS: Final = 0.02
"""Of each plan in the first round."""

BEST: Final = 3
"""Plans that are timed again beside the choice."""

FEWEST: Final = 8
"""Plans of which a rank correlation says something."""

Steps = dict[str, tuple[str, ...]]
Row = dict[str, Any]


def main() -> None:
    """Searches for each case that is asked for; prints a line for each, and the mean of all."""
    arguments = _arguments()
    path: Path = arguments.output
    cases = find_cases(arguments.cases or list(PRODUCTS))
    if arguments.move is not None:
        cases = list(moved_products(arguments.move))
    rows: list[Row] = []
    for case in cases:
        for threads in arguments.threads:
            rounds, seconds = arguments.rounds, arguments.seconds
            rows.append(regret_of(case, threads, arguments.target_cpu, rounds, seconds))
            append_row(path, rows[-1])
            print(shown(rows[-1]), flush=True)
    print(summary(rows))


def moved_products(seed: int) -> Iterator[Case]:
    """Products whose sizes are `SIZES` moved by up to 17 %, of operands given and stored."""
    choice = random.Random(seed)
    for sizes in SIZES:
        for constant in (False, True):
            m, k, n = (round(size * choice.uniform(0.83, 1.17)) for size in sizes)
            yield matmul(m, k, n, constant=constant)


def regret_of(case: Case, threads: int, target: Target, rounds: int, seconds: float) -> Row:
    """The times of weft's choice and of the best plan of the search, by medians of rounds."""
    search = Search(case, threads, target)
    found = search.plans()
    plans = {name: each.steps for name, each in found.items()}
    names = track(plans, f"{case.name} on {threads}", console=Console(stderr=True), transient=True)
    times = {name: search.first_time(plans[name]) for name in names}
    finalists = sorted(times, key=lambda name: times[name])[:BEST]
    builds = [search.build({}), *(search.build(plans[name]) for name in finalists)]
    medians = search.in_turns(builds, rounds, seconds)
    best = min(range(len(medians)), key=medians.__getitem__)
    return {
        "case": case.name,
        "cpu": host_target().cpu,
        "target": target.name,
        "threads": threads,
        "plans": len(times),
        "rank_correlation": rank_correlation(found, times),
        "ms": round(medians[0], 6),
        "best_ms": round(medians[best], 6),
        "best": "chosen" if best == 0 else finalists[best - 1],
        "regret": round(medians[0] / medians[best], 4),
    }


class Reference(NamedTuple):
    """A plan of the search: the steps of each kernel, by name, and the nanoseconds that weft's
    model expects of its products, None where it expects nothing.
    """

    steps: Steps
    expected: float | None


def rank_correlation(plans: Mapping[str, Reference], times: Mapping[str, float]) -> float | None:
    """How alike the orders of the plans by expected and by measured times are, from -1 to 1; None
    where too few have both.
    """
    both = [
        (each.expected, times[name])
        for name, each in plans.items()
        if each.expected is not None and times[name] < inf
    ]
    if len(both) < FEWEST:
        return None
    expected, measured = zip(*both, strict=True)
    return round(correlation(_ranks(expected), _ranks(measured)), 3)


def _ranks(numbers: Sequence[float]) -> list[float]:
    """The position of each among all in order, the mean one of those that are equal."""
    order = sorted(numbers)
    first = {number: position for position, number in reversed(list(enumerate(order)))}
    return [first[number] + (order.count(number) - 1) / 2 for number in numbers]


class Search:
    """A case and its plans: the steps of each of its kernels, by name."""

    def __init__(self, case: Case, threads: int, target: Target):
        self.target = target
        self._options = Options(target)
        self._model = case.build()
        self._threads = threads
        self._inputs = case.inputs()
        self._kernels = naive_kernels(self._model, self._options)
        executable = self.build({})
        self._expected = executable(*self._arrays(executable))

    def plans(self) -> dict[str, Reference]:
        """The plans of the reference search that differ, each by what it is called."""
        found: dict[str, tuple[str, Reference]] = {}
        for name, target, choose in reference_plans(self.target):
            expected: list[float | None] = []
            schedules = schedules_with(partial(_expecting, choose, expected))
            steps = {
                kernel: schedule_kernel(parse_kernel(text), target, schedules).steps
                for kernel, text in self._kernels.items()
            }
            known = [each for each in expected if each is not None]
            all_ = sum(known) if known and len(known) == len(expected) else None
            found.setdefault(repr(steps), (name, Reference(steps, all_)))
        return dict(found.values())

    def build(self, plan: Steps) -> Executable:
        """The model by a plan, by weft's choice where that says nothing of a kernel."""
        tuned = tuple(KernelSchedule(name, steps) for name, steps in plan.items())
        options = replace_options(self._options, tuned=tuned)
        return compile_model(self._model, options).executable(self._threads)

    def first_time(self, plan: Steps) -> float:
        """The shortest of a few calls, in milliseconds; infinite for a plan that is refused, or
        that does not fit the layouts of other kernels.

        Raises WeftError for a wrong answer.
        """
        try:
            executable = self.build(plan)
        except IllegalSchedule:
            return inf
        arrays = self._arrays(executable)
        problem = disagreement(self._expected, executable(*arrays))
        if problem is not None:
            raise WeftError(f"regret requires equal answers of all plans, got: {problem}")
        with on_cores(choose_cores(self._threads)):
            return min(_calls(executable, arrays, FIRST_SECONDS))

    def in_turns(self, builds: Sequence[Executable], rounds: int, seconds: float) -> list[float]:
        """The median of rounds, each the median of its calls, in milliseconds."""
        medians: list[list[float]] = [[] for _ in builds]
        with on_cores(choose_cores(self._threads)):
            for _ in range(rounds):
                for each, found in zip(builds, medians, strict=True):
                    found.append(median(_calls(each, self._arrays(each), seconds)))
        return [median(found) for found in medians]

    def _arrays(self, executable: Executable) -> list[Array]:
        return [self._inputs[spec.name] for spec in executable.inputs]


def _calls(executable: Executable, arrays: Sequence[Array], seconds: float) -> list[float]:
    """The milliseconds of each call within so many seconds."""
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        executable(*arrays)
        times.append(1e3 * (time.perf_counter() - start))
    return times


def reference_plans(target: Target) -> Iterator[tuple[str, Target, Choose]]:
    """What each plan is called, the CPU that it is made for, and what chooses it."""
    yield from ((name, each, choose_plan) for name, each in _other_targets(target))
    small = replace(target, l2_bytes=target.l2_bytes // 8)
    for vectors, rows in product(range(1, MOST_VECTORS + 1), range(1, MOST_ROWS + 1)):
        if rows * vectors + vectors + 1 > target.vector_registers:
            continue
        for packing in PACKINGS:
            choose = _with_tile(rows, vectors, packing)
            yield f"tile {rows}x{vectors} {packing}", target, choose
            yield f"tile {rows}x{vectors} {packing}, an eighth of l2", small, choose


def _expecting(
    choose: Choose, expected: list[float | None], problem: Problem, view: View, target: Target
) -> Plan:
    """What is chosen; what the model expects of it goes to the list."""
    plan = choose(problem, view, target)
    rated = time_of(rate(problem, view, plan, target))
    expected.append(rated or None)
    return plan


def _other_targets(target: Target) -> Iterator[tuple[str, Target]]:
    """The target with other caches, and with fewer registers."""
    for l1, l2 in product((0.5, 1.0, 2.0), (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)):
        other = replace(target, l1_bytes=round(target.l1_bytes * l1))
        yield f"l1 {l1:g} l2 {l2:g}", replace(other, l2_bytes=round(target.l2_bytes * l2))
    half = max(16, target.vector_bytes // 2)
    yield "half vectors", replace(target, vector_bytes=half)
    for share in (0.5, 0.75):
        registers = round(target.vector_registers * share)
        yield f"{registers} registers", replace(target, vector_registers=registers)


def _with_tile(rows: int, vectors: int, packing: Packing) -> Choose:
    """Chooses this tile, and this packing where that is possible."""

    def choose(problem: Problem, view: View, target: Target) -> Plan:
        plan = plan_with(problem, view, target, rows, vectors, packing)
        return plan or choose_plan(problem, view, target)

    return choose


def shown(row: Row) -> str:
    """A line of a row for people."""
    times = f"{row['ms']:10.4f} ms, best of {row['plans']} {row['best_ms']:10.4f} ms"
    order = "" if row["rank_correlation"] is None else f" ranks {row['rank_correlation']:.2f} "
    return f"{row['case']:32} {row['threads']} {times}  {row['regret']:.3f} {order} {row['best']}"


def summary(rows: Sequence[Row]) -> str:
    """The mean regret, the one that 95 % of the rows do not exceed, and the largest."""
    found = sorted(row["regret"] for row in rows)
    high = found[min(len(found) - 1, round(0.95 * len(found)))]
    return f"regret: mean {geometric_mean(found):.3f}, 95 % {high:.3f}, largest {found[-1]:.3f}"


def _arguments() -> argparse.Namespace:
    parser = parser_of("regret", __doc__, "regret-")
    parser.add_argument("cases", nargs="*", help="names of the recorded list's cases")
    parser.add_argument("--move", type=int, metavar="SEED", help="products of moved sizes instead")
    parser.add_argument(
        "--target-cpu", type=read_target, default=host_target(), help="native by default"
    )
    add_rounds(parser)
    parser.set_defaults(rounds=7, seconds=0.05, threads=[1])
    return parser.parse_args()


if __name__ == "__main__":
    main()
