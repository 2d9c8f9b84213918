"""How compile time grows: `python -m benchmarks.growth [KIND ...] [--sizes 1000,5000,...]`.

Each line of the result is a graph of a kind and a number of operators: seconds of the processor by
stage, from its nodes to a shared object, which is then inspected. Each is measured in a new process
on one core, without a cache. A table for each kind shows with what power of the operators a stage
grows from one size to the next.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import io
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.growth.graphs import FAMILIES
from benchmarks.options import append_row, parser_of
from weft.cli.main import main as command
from weft.compilation import options_of
from weft.compiler.deferred import COLLECTION_THRESHOLDS
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.read_model import begin
from weft.compiler.driver.report import Report
from weft.compiler.driver.session import Session
from weft.dialects.budget import Budget

SIZES: Final = (1_000, 5_000, 20_000, 100_000)
LEAST: Final = 0.05
"""Seconds: shorter stages are left out of tables."""

_BUDGET: Final = {"max_nodes": 1_000_000, "timeout": 7200.0}

Row = dict[str, Any]


def main() -> None:
    """Measures, each graph in a process of its own; prints a table for each kind."""
    arguments = _arguments()
    if arguments.alone:
        print(json.dumps(measure(arguments.kinds[0], arguments.sizes[0], arguments.profile)))
        return
    rows: list[Row] = []
    for family in arguments.kinds or FAMILIES:
        for size in arguments.sizes:
            rows.append(_measured(family, size))
            append_row(arguments.output, rows[-1])
        print(f"{table([row for row in rows if row['kind'] == family])}\n", flush=True)


def _measured(family: str, size: int) -> Row:
    """The row of a graph, out of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", family, "--sizes", str(size), "--alone"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"kind": family, "size": size, "failed": done.stderr.strip().splitlines()[-1][:300]}
    return json.loads(done.stdout.splitlines()[-1])


def measure(family: str, size: int, profile: Path | None = None) -> Row:
    """Compiles one graph here."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.set_threshold(*COLLECTION_THRESHOLDS)  # as commands do
    report = Report(clock=time.process_time)
    with report.stage("graph"):
        source = FAMILIES[family](size)
    options = options_of(b"", prefix="grown")
    start = time.process_time()
    with _profiled(profile), tempfile.TemporaryDirectory(prefix="weft-growth-") as folder:
        library = Path(folder) / "libgrown.so"
        session = Session(options, report=report, budget=Budget(**_BUDGET))
        compiled = compile_model(source, options, session, begin(source, session))
        with report.stage("export"):
            compiled.export(library)
        total = time.process_time() - start
        with report.stage("inspect"):
            inspect(library)
    report.seconds["rest"] = total - sum(report.seconds.values()) + report.seconds["graph"]
    report.seconds["rest"] += report.seconds["inspect"]
    return {
        "kind": family,
        "size": size,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": {name: round(seconds, 3) for name, seconds in report.seconds.items()},
        "total": round(total, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024 / 1e3),
    }


def inspect(library: Path) -> None:
    """What `weft inspect` does."""
    with contextlib.redirect_stdout(io.StringIO()):
        if command(["inspect", str(library)]):
            raise SystemExit(f"weft inspect {library} failed")


@contextlib.contextmanager
def _profiled(path: Path | None) -> Generator[None]:
    """Writes what functions took, for `python -m pstats`, where a file is given."""
    if path is None:
        yield
        return
    import cProfile

    with cProfile.Profile(time.process_time) as profile:
        yield
    profile.dump_stats(path)


def table(rows: Sequence[Row]) -> str:
    """Seconds by stage and size, and the power between the last two sizes, in Markdown."""
    good = [row for row in rows if "seconds" in row]
    stages = dict.fromkeys(stage for row in good for stage in row["seconds"])
    sizes = " | ".join(f"{row['size']:,}" for row in rows)
    lines = [f"| {rows[0]['kind']} | {sizes} | powers |", f"|---|{'---|' * len(rows)}---|"]
    for stage in (*stages, "total"):
        taken = [_of(row, stage) for row in rows]
        if max([each for each in taken if each is not None], default=0) >= LEAST:
            cells = ["failed" if each is None else f"{each:.2f}" for each in taken]
            lines.append(f"| {stage} | {' | '.join(cells)} | {' '.join(_powers(rows, stage))} |")
    lines += [f"{row['size']}: {row['failed']}" for row in rows if "failed" in row]
    return "\n".join(lines)


def _of(row: Row, stage: str) -> float | None:
    """The seconds of a stage, of all of them for `total`; None where the graph did not compile."""
    if "seconds" not in row:
        return None
    return row["total"] if stage == "total" else row["seconds"].get(stage, 0.0)


def _powers(rows: Sequence[Row], stage: str) -> list[str]:
    """With what power of the size a stage grows from each row to the next."""
    powers: list[str] = []
    for small, large in pairwise(rows):
        one, other = _of(small, stage), _of(large, stage)
        shown = one is not None and other is not None and one > 0 and other >= LEAST
        ratio = large["size"] / small["size"]
        powers.append(f"{math.log(other / one) / math.log(ratio):.2f}" if shown else "-")
    return powers


def _arguments() -> argparse.Namespace:
    parser = parser_of("growth", __doc__, "growth-")
    parser.add_argument("kinds", nargs="*", choices=[*FAMILIES, []], help="all by default")
    sizes = {"type": lambda text: [int(each) for each in text.split(",")], "default": list(SIZES)}
    parser.add_argument("--sizes", **sizes, help="operators, by commas")
    parser.add_argument("--alone", action="store_true", help="measure one graph here")
    parser.add_argument("--profile", type=Path, help="where functions' times go, with --alone")
    return parser.parse_args()


if __name__ == "__main__":
    main()
