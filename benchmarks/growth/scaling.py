"""Scaling over threads, predicted and measured: `python -m benchmarks.growth.scaling [MODEL ...]`.

Networks of the recorded list run on more and more threads, in turns with onnxruntime. Beside what
is measured stands what the cost model says by which calls are grouped for threads
(`compiler/program/parallelize_calls.py`): as it is, and with what this machine shows of itself,
the time of a parallel section of so many threads, and how much slower a core multiplies while so
many do, since two threads of one core share it. Scaling is the time on one thread over that on
several. Each line of the result is a network on so many threads;
`--minutes` begins no line after so long, and the lines that are there say what they can.
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

from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.table import Table

from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.options import add_rounds, append_row, parser_of
from benchmarks.run import Prepared, prepare
from weft.bench.calibrate import measure_section
from weft.bench.engines import OURS
from weft.bench.limits import measure_gflops
from weft.bench.rounds import Templates, measure
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.call_time import bounds_of
from weft.compiler.program.parallelize_calls import ThreadModel
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

CLOSE: Final = 0.25
"""How far a prediction may be off."""


class _Machine(Struct, frozen=True):
    """GFLOP/s of multiply-adds of so many threads, and nanoseconds of a section that does nothing
    on them.
    """

    gflops: float
    section_ns: float

    @staticmethod
    def of(target: Target, threads: int) -> _Machine:
        """As it is now."""
        section = max(0.0, measure_section(target, threads)) if threads > 1 else 0.0
        return _Machine(round(measure_gflops(threads), 1), round(section * 1e9))


def main() -> None:
    """Measures network after network; prints a table of each, and what was close of all."""
    arguments = _arguments()
    target, start = host_target(), time.monotonic()
    threads: list[int] = arguments.threads
    machine = {n: _Machine.of(target, n) for n in threads}
    print(json.dumps({"cpu": target.cpu, "machine": machine}, default=asdict), flush=True)
    rows: list[Row] = []
    with Templates() as templates, tempfile.TemporaryDirectory(prefix="weft-scaling-") as folder:
        for case in find_cases(arguments.models or list(DEFAULT)):
            try:
                prepared = prepare(case, arguments.artifacts or Path(folder))
            except WeftError as error:
                print(f"error: {case.name}: {error}", file=sys.stderr, flush=True)
                continue
            own: list[Row] = []
            for n in threads:
                if time.monotonic() - start > arguments.minutes * 60:
                    break
                row = _measured(case, prepared, n, templates, arguments)
                row |= asdict(machine[n]) | {"compile_s": round(prepared.seconds, 3)}
                own.append(row | predictions(prepared.library, target, machine, n))
                append_row(arguments.output, own[-1])
                print(json.dumps(own[-1]), flush=True)
            rows += own
            Console().print(table(own))
    print(summary(rows), flush=True)
    sys.exit(any("error" in row for row in rows))


def _measured(
    case: Case, prepared: Prepared, threads: int, templates: Templates, arguments: Any
) -> Row:
    """Milliseconds of a call of each engine on so many threads."""
    models = {OURS: prepared.library, PEER: prepared.model}
    row: Row = {"model": case.name, "threads": threads, "seconds": arguments.seconds}
    for each in measure(
        models,
        case.inputs(),
        threads,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        templates=templates,
    ):
        if each.milliseconds is not None:
            row[each.engine] = round(each.milliseconds, 4)
        elif each.engine == OURS:
            row["error"] = f"{each.status}: {each.reason}"
    return row


def predictions(
    library: Path, target: Target, machine: Mapping[int, _Machine], threads: int
) -> dict[str, float]:
    """Milliseconds of a call by the cost model, and by it with what the machine shows."""
    metadata, least, here = read_metadata(library), min(machine), machine[threads]
    slower = threads * machine[least].gflops / (least * here.gflops)
    model = ThreadModel.of(target.cost)
    own = replace(model, wake=here.section_ns, wake_each=0.0)
    return {
        "predicted": round(predicted(metadata, target, threads, model) * 1e-6, 4),
        "predicted_here": round(
            predicted(metadata, target, threads, own, max(1.0, slower)) * 1e-6, 4
        ),
    }


def predicted(
    metadata: Mapping[str, Any],
    target: Target,
    threads: int,
    model: ThreadModel,
    slower: float = 1.0,
) -> float:
    """Nanoseconds of a call of a model on so many threads, each of which takes so many times as
    long for the same as one alone does. Raises WeftError for sizes that vary.
    """
    total = 0.0
    for alone in _call_times(metadata["calls"], target):
        spread = model.parallel(alone, threads)
        total += spread if spread == alone else model.parallel(alone * slower, threads)
    for group in metadata["concurrent"]:
        if group["least"] <= threads <= group["most"]:
            known = [int(each) for each in group["modelled"] if int(each) <= threads]
            one_by_one, together = group["modelled"][str(max(known))]
            total -= one_by_one - together
    return total


def _call_times(calls: Sequence[Mapping[str, Any]], target: Target) -> Iterator[float]:
    """What each call takes on one thread, in nanoseconds."""
    for call in calls:
        if not isinstance(call["flops"], int) or not isinstance(call["bytes"], int):
            raise WeftError(f"scaling requires sizes that are numbers, got {call['bytes']}")
        yield target.cost.call_ns + max(bounds_of(call["flops"], call["bytes"], target))


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
    parser.add_argument("--minutes", type=float, default=2.3, help="after which nothing begins")
    return parser.parse_args()


if __name__ == "__main__":
    main()
