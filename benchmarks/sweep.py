"""Random operators beside other engines: `python -m benchmarks.sweep SEED --count 500`.

Each line of the result is one operator of the seed, measured as in `benchmarks.run`. What is slower
than `SLOW` of the best peer is measured three times more, and the median of those counts. A run can
be broken off and gone on with. At the end stands a table by families; operators that take less than
20 us, where the cost of a call decides, are apart. Exit code 1 if weft refused or failed one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from benchmarks.options import add_rounds, append_row, parser_of
from benchmarks.random_operators import random_cases, random_operators
from benchmarks.run import best_peer, left_to_measure, measure_case, recorded, shown
from weft.bench.engines import OURS, PEERS
from weft.bench.limits import measure_limits
from weft.bench.rounds import Templates

SLOW: Final = 0.8
"""Of the best peer: rows below are measured again, and counted."""

SLOWEST: Final = 0.6
"""Rows below this one are counted apart."""

AGAIN: Final = 3

SHORT: Final = 0.02
"""Milliseconds of the best engine below which a row is reported apart."""

Row = dict[str, Any]


def main() -> None:
    """Measures the operators that the file lacks, and prints the table of all."""
    arguments = _arguments()
    path: Path = arguments.output
    cases = random_cases(arguments.seed, arguments.count)
    limits = {threads: measure_limits(threads) for threads in arguments.threads}
    progress = Console(stderr=True)
    with Templates() as templates:
        for case in track(cases, "operators", console=progress):
            left = left_to_measure(case, recorded(path), arguments)
            for row in measure_case(case, left, limits, templates, arguments):
                again: list[Row] = []
                if ratio(row) < SLOW:
                    wanted = {row["threads"]: arguments.vs}
                    for _ in range(AGAIN):
                        again += measure_case(case, wanted, limits, templates, arguments)
                last = middle(again) if again else row
                append_row(path, last)
                if "error" in last or ratio(last) < SLOW:
                    progress.print(shown(last), highlight=False, soft_wrap=True)
    rows = recorded(path)
    names = {case.name for case in cases}
    for threads in arguments.threads:
        print(table([row for (name, n), row in rows.items() if n == threads and name in names]))
        print("\n".join(slow_lines(arguments.seed, arguments.count, rows, threads)))
    missing = [case.name for case in cases if (case.name, arguments.threads[0]) not in rows]
    print(f"refused or failed: {len(missing)} {', '.join(missing)}".rstrip())
    sys.exit(1 if missing else 0)


def ratio(row: Row) -> float:
    """The time of the best peer over weft's, infinite where no peer has one."""
    best = best_peer(row)
    return inf if best is None else best[1]


def middle(rows: Sequence[Row]) -> Row:
    """The row whose ratio is the median."""
    return sorted(rows, key=ratio)[len(rows) // 2]


def is_short(row: Row) -> bool:
    """Whether the best engine takes so little time that a call's cost decides."""
    times = [engine["ms"] for engine in row["engines"].values() if "ms" in engine]
    return min(times) < SHORT


def table(rows: Sequence[Row]) -> str:
    """Ratios by family: how many, their geometric mean, the least, and how many are slow."""
    compared = [row for row in rows if ratio(row) < inf]
    long = [row for row in compared if not is_short(row)]
    families = sorted({family_of(row) for row in long})
    lines = [
        f"| family | operators | geometric mean | least | under {SLOW} | under {SLOWEST} |",
        "|---" * 6 + "|",
        *(_line(each, [row for row in long if family_of(row) == each]) for each in families),
        _line("**all**", long),
        _line("under 20 us", [row for row in compared if is_short(row)]),
    ]
    without = len(rows) - len(compared)
    return "\n".join([*lines, f"\nno peer computes {without} of {len(rows)}"])


def family_of(row: Row) -> str:
    """The family that a case's name ends with."""
    return row["case"].split("_", 3)[3]


def _line(name: str, rows: Sequence[Row]) -> str:
    ratios = sorted(map(ratio, rows))
    if not ratios:
        return f"| {name} | 0 | | | | |"
    slow, slowest = (sum(each < bound for each in ratios) for bound in (SLOW, SLOWEST))
    mean = statistics.geometric_mean(ratios)
    return f"| {name} | {len(ratios)} | {mean:.2f} | {ratios[0]:.2f} | {slow} | {slowest} |"


def slow_lines(
    seed: int, count: int, rows: Mapping[tuple[str, int], Row], threads: int
) -> Iterator[str]:
    """A line for each slow operator: its ratio, its time, and what it computes on what."""
    for case, each in zip(random_cases(seed, count), random_operators(seed, count), strict=True):
        row = rows.get((case.name, threads))
        best = None if row is None else best_peer(row)
        if row is not None and best is not None and best[1] < SLOW:
            ours = row["engines"][OURS]["ms"]
            yield f"{best[1]:5.2f} {best[0]:12} {ours:9.4f} ms  {case.name}  {each.text()}"


def _arguments() -> argparse.Namespace:
    parser = parser_of("sweep", __doc__, "sweep-")
    parser.add_argument("seed", type=int, help="draws the operators")
    parser.add_argument("--count", type=int, default=100, help="100 by default")
    parser.add_argument(
        "--vs",
        type=lambda text: text.split(","),
        default=["onnxruntime", "openvino"],
        help=f"of {','.join(PEERS)}; onnxruntime,openvino by default",
    )
    add_rounds(parser)
    parser.set_defaults(rounds=3, seconds=0.05, threads=[1])
    parser.set_defaults(load_limit=60.0, again=1, artifacts=None, prepare=False)
    return parser.parse_args()


if __name__ == "__main__":
    main()
