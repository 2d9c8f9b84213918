"""Programs in plain NumPy by weft, numba, JAX and NumPy: `python -m benchmarks.numeric`.

Engines take turns in processes of their own; a line of the result is one program with one number of
threads (`--threads 1,2`). Those in the file already are not measured again. With `--processor` one
thread of each is measured in this process, by processor time, which needs `OPENBLAS_NUM_THREADS=1`.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.numeric.cases import ENGINES, PROGRAMS, ProgramJob
from benchmarks.numeric.turns import measure_turns
from benchmarks.options import append_row, parse_jobs, parser_of
from benchmarks.run import recorded
from weft.bench.rounds import Measured, choose_cores, measure_jobs


def main() -> None:
    """Measures what is asked for and is not in the file yet; prints a line for each."""
    arguments = _arguments()
    path: Path = arguments.output
    failed = 0
    for name in arguments.programs or [program.name for program in PROGRAMS]:
        for threads in [1] if arguments.processor else arguments.threads:
            if (name, threads) in recorded(path):
                continue
            cores = choose_cores(threads)
            jobs = {engine: ProgramJob(cores, engine, name) for engine in arguments.engines}
            measure = measure_turns if arguments.processor else measure_jobs
            measured = measure(jobs, rounds=arguments.rounds, seconds=arguments.seconds)
            row = row_of(name, threads, measured)
            failed += "error" in row
            append_row(path, row)
            print(shown(row), flush=True)
    sys.exit(1 if failed else 0)


def row_of(name: str, threads: int, measured: Sequence[Measured]) -> dict[str, Any]:
    """Milliseconds of each engine, and its time over that of the first."""
    ours = measured[0].milliseconds
    engines: dict[str, Any] = {}
    for each in measured:
        engine: dict[str, Any] = {"status": each.status, "version": each.version}
        if each.reason:
            engine["reason"] = each.reason
        if each.milliseconds is not None and ours is not None:
            engine |= {
                "ms": float(f"{each.milliseconds:.4g}"),
                "ratio": round(each.milliseconds / ours, 3),
                "rounds_ms": [float(f"{ms:.4g}") for ms in each.rounds],
                "difference": each.difference,
                "peak_mb": round((each.peak_bytes - each.base_bytes) / 1e6, 1),
                "load_s": round(each.load_seconds, 3),
            }
        engines[each.engine] = engine
    row: dict[str, Any] = {"case": name, "threads": threads}
    row |= {"when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    row["engines"] = engines
    first = measured[0]
    return row if first.status == "ok" else row | {"error": first.reason}


def shown(row: dict[str, Any]) -> str:
    """A line of a row for people: weft's time, and ratios of the others."""
    parts = [f"{row['case']:20} {row['threads']}"]
    for name, engine in row["engines"].items():
        if "ms" not in engine:
            parts.append(f"{name} {engine['status']}: {engine.get('reason', '')[:60]}")
        elif name == next(iter(row["engines"])):
            parts.append(f"{name} {engine['ms']} ms")
        else:
            parts.append(f"{name} {engine['ratio']}")
    return "  ".join(parts)


def _arguments() -> argparse.Namespace:
    parser = parser_of("numeric", __doc__, "numeric-")
    parser.add_argument("--processor", action="store_true")
    return parse_jobs(parser, "programs", [program.name for program in PROGRAMS], ENGINES)


if __name__ == "__main__":
    main()
