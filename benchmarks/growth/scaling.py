"""Scaling over threads, predicted and measured: `python -m benchmarks.growth.scaling [MODEL ...]`.

Networks of the recorded list run on one thread and on more, in turns with onnxruntime and with
loops of multiply-adds and reads, so that all see the machine in the same minute. Beside what is
measured stands what the cost model says (`compiler/program/thread_time.py`): by the target's costs,
and with what this machine shows of itself, the time of a parallel section of so many threads, and
how much slower each computes and reads while so many do, since two threads may share a core.
Scaling is the time on one thread over that on several. Each line of the result is a network on so
many threads; `--minutes` begins no network after so long.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.options import add_rounds, append_row, parser_of
from benchmarks.run import Prepared, prepare
from weft.bench.calibrate import measure_section
from weft.bench.engines import OURS
from weft.bench.limits import MultiplyAdds, Reads
from weft.bench.rounds import Templates, choose_cores, measure_jobs
from weft.bench.worker import Job, ModelJob
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.thread_time import Cores, model_ns
from weft.compiler.target.target import Target
from weft.dialects.errors import WeftError

Row = dict[str, Any]

DEFAULT: Final = (
    "squeezenet",
    "mobilenet_v2_b1",
    "vit_s16",
    "resnet50_b1",
    "efficientnet_b0",
    "unet_128",
    "densenet121",
    "lstm_2x512",
)
"""Networks that compile in seconds, the most telling first."""

PEER: Final = "onnxruntime"
MULTIPLY_ADDS: Final = "multiply-adds"
READS: Final = "reads"

CLOSE: Final = 0.25
"""How far a prediction may be off."""


def main() -> None:
    """Measures network after network; prints a table of each, and what was close of all."""
    arguments = _arguments()
    target, start = host_target(), time.monotonic()
    threads: list[int] = arguments.threads
    sections = {n: max(0.0, measure_section(target, n)) if n > 1 else 0.0 for n in threads}
    print(json.dumps({"cpu": target.cpu, "section_s": sections}), flush=True)
    rows: list[Row] = []
    with Templates() as templates, tempfile.TemporaryDirectory(prefix="weft-scaling-") as folder:
        for case in find_cases(arguments.models or list(DEFAULT)):
            if time.monotonic() - start > arguments.minutes * 60:
                break
            try:
                prepared = prepare(case, arguments.artifacts or Path(folder))
            except WeftError as error:
                print(f"error: {case.name}: {error}", file=sys.stderr, flush=True)
                continue
            own = _measured(case, prepared, templates, arguments)
            _predict(own, prepared, target, sections)
            for row in own:
                append_row(arguments.output, row)
                print(json.dumps(row), flush=True)
            rows += own
            Console().print(table(own))
    print(summary(rows), flush=True)
    sys.exit(any("error" in row for row in rows))


def _measured(case: Case, prepared: Prepared, templates: Templates, arguments: Any) -> list[Row]:
    """Milliseconds of a call of each engine, and of the machine's loops, by threads, in turns."""
    models, inputs = {OURS: prepared.library, PEER: prepared.model}, case.inputs()
    jobs: dict[str, Job] = {}
    for n in arguments.threads:
        cores = choose_cores(n)
        own = {name: ModelJob(cores, name, model, inputs) for name, model in models.items()}
        own |= {MULTIPLY_ADDS: MultiplyAdds(cores), READS: Reads(cores)}
        jobs |= {f"{name} {n}": job for name, job in own.items()}
    found = measure_jobs(
        jobs, rounds=arguments.rounds, seconds=arguments.seconds, templates=templates
    )
    by_name = {each.engine: each for each in found}
    rows: list[Row] = []
    for n in arguments.threads:
        row: Row = {"model": case.name, "threads": n, "seconds": arguments.seconds}
        for name in (OURS, PEER, MULTIPLY_ADDS, READS):
            each = by_name[f"{name} {n}"]
            if each.milliseconds is not None:
                row[name] = round(each.milliseconds, 4)
            elif name == OURS:
                row["error"] = f"{each.status}: {each.reason}"
        rows.append(row | {"compile_s": round(prepared.seconds, 3)})
    return rows


def _predict(
    rows: Sequence[Row], prepared: Prepared, target: Target, sections: Mapping[int, float]
) -> None:
    """Adds milliseconds of a call by the cost model, and by it with what the machine shows."""
    metadata, first = read_metadata(prepared.library), rows[0]
    for row in rows:
        n = row["threads"]
        plain = Cores.of(target, n)
        here = Cores(
            n, _slower(row, first, MULTIPLY_ADDS), _slower(row, first, READS), 1e9 * sections[n]
        )
        for name, cores in (("predicted", plain), ("predicted_here", here)):
            row[name] = round(model_ns(metadata, target, cores) * 1e-6, 4)


def _slower(row: Row, first: Row, loop: str) -> float:
    """How many times as long a thread of so many takes for its part of a machine's loop."""
    return max(1.0, row[loop] / first[loop]) if loop in row and loop in first else 1.0


def scalings(rows: Sequence[Row]) -> Iterator[dict[str, float]]:
    """Of the rows of one model, by threads: how many times as fast as on the fewest each is."""
    timed = [row for row in rows if OURS in row]
    for row in timed:
        names = (OURS, PEER, "predicted", "predicted_here")
        found = {name: timed[0][name] / row[name] for name in names if name in row | timed[0]}
        yield {"threads": row["threads"], **found}


def table(rows: Sequence[Row]) -> Table:
    """The scaling of one model."""
    name = rows[0]["model"] if rows else "nothing"
    shown = Table("threads", OURS, "ms", "predicted", "here", PEER, "ms", title=name)
    for row, each in zip((row for row in rows if OURS in row), scalings(rows), strict=True):
        peer = (f"{each[PEER]:.2f}", f"{row[PEER]:.2f}") if PEER in each else ("", "")
        own = (f"{each[OURS]:.2f}", f"{row[OURS]:.2f}")
        said = (f"{each['predicted']:.2f}", f"{each['predicted_here']:.2f}")
        shown.add_row(str(row["threads"]), *own, *said, *peer)
    return shown


def summary(rows: Sequence[Row]) -> str:
    """By threads, of how many models predictions are close, and how the engines scale."""
    of_model: dict[str, list[Row]] = {}
    for row in rows:
        of_model.setdefault(row["model"], []).append(row)
    found = [each for own in of_model.values() for each in scalings(own)]
    lines: list[str] = []
    for threads in sorted({each["threads"] for each in found}):
        here = [each for each in found if each["threads"] == threads]
        words = [f"{threads:3} threads, {len(here)} models:"]
        for name in (OURS, PEER):
            known = [each[name] for each in here if name in each]
            words += [f"{name} {geometric_mean(known):.2f}"] if known else []
        for name in ("predicted", "predicted_here"):
            near = sum(abs(each[name] / each[OURS] - 1) <= CLOSE for each in here)
            words.append(f"{name} {geometric_mean(e[name] for e in here):.2f} ({near} close)")
        lines.append(", ".join(words).replace(":,", ":"))
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = parser_of("growth.scaling", __doc__, "scaling-")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"by default {DEFAULT}")
    add_rounds(parser)
    usable = len(os.sched_getaffinity(0))
    doubled = [n for n in (1, 2, 4, 8, 16, 32) if n <= usable]
    parser.set_defaults(threads=doubled, rounds=3, seconds=0.15)
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help="where models are kept")
    parser.add_argument("--minutes", type=float, default=2.3, help="after which no network begins")
    return parser.parse_args()


if __name__ == "__main__":
    main()
