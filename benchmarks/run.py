"""The recorded list against every engine: `python -m benchmarks.run --threads 1,2`.

Each line of the result is one case with one number of threads: every engine that was asked, with
its time or the reason why it has none, and the limits of the machine that were measured meanwhile.
What this compiler was measured against already is in the file and is not measured again, so that a
run can be broken off and gone on with, and other peers be added; `--shard 2/4` measures every
fourth case. With `--artifacts DIR` compiled models are kept there; `--prepare` only compiles them,
so that nothing does while a quiet machine is measured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import weft
from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.options import RESULTS, add_rounds, parser_of
from compiler.bench.engines import OURS, PEERS
from compiler.bench.limits import Limits, measure_limits
from compiler.bench.rounds import measure
from compiler.bench.rows import engine_rows, limit_rows
from compiler.bench.work import work_of
from compiler.machine.artifact import read_metadata
from dialects.errors import WeftError
from weft.compilation import compiler_digest

Row = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A model's file, its artifact, and the seconds that compiling took."""

    model: Path
    library: Path
    seconds: float


def main() -> None:
    """Measures what is asked for and is not in the file yet; prints a line for each."""
    arguments = _arguments()
    cases = find_cases(arguments.cases)[arguments.shard[0] - 1 :: arguments.shard[1]]
    path: Path = arguments.output
    path.parent.mkdir(exist_ok=True)
    wanted = {case.name: left_to_measure(case, recorded(path), arguments) for case in cases}
    count = sum(map(len, wanted.values()))
    print(f"{count} of {len(cases) * len(arguments.threads)} to measure, into {path}", flush=True)
    limits: dict[int, Limits] = {}
    if not arguments.prepare:
        limits = {
            n: measure_limits(n) for n in sorted({n for each in wanted.values() for n in each})
        }
    failed = 0
    for case in cases:
        for row in measure_case(case, wanted[case.name], limits, arguments):
            failed += "error" in row
            with path.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(shown(row), flush=True)
    sys.exit(1 if failed else 0)


def left_to_measure(
    case: Case, done: Mapping[tuple[str, int], Row], arguments: argparse.Namespace
) -> dict[int, list[str]]:
    """The peers that a case has still to be measured against, by threads."""
    left: dict[int, list[str]] = {}
    for threads in arguments.threads:
        row = done.get((case.name, threads), {})
        known = row.get("engines", {}) if row.get("compiler") == _compiler() else {}
        peers = [peer for peer in arguments.vs if peer not in known]
        if peers or OURS not in known:
            left[threads] = peers
    return left


def recorded(path: Path) -> dict[tuple[str, int], Row]:
    """The rows of a file by case and threads: the last of each, with the peers that the same
    compiler was measured against before. Those with an error are left out, to be measured again.
    """
    rows: dict[tuple[str, int], Row] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        if "case" in row and "error" not in row:
            key = row["case"], row["threads"]
            before = rows.get(key, {})
            if "compiler" in row and before.get("compiler") == row["compiler"]:
                row["engines"] = before["engines"] | row["engines"]
            rows[key] = row
    return rows


def _compiler() -> str:
    """What tells compilers apart: rows of another one are measured again."""
    return compiler_digest()[:16]


def measure_case(
    case: Case,
    wanted: Mapping[int, Sequence[str]],
    limits: Mapping[int, Limits],
    arguments: argparse.Namespace,
) -> Iterator[Row]:
    """A row for each number of threads. What weft cannot do, or does wrongly, or fails at, is an
    `error`; where models are only prepared there are no others.
    """
    if not wanted:
        return
    shared: Row = {"case": case.name, "compiler": _compiler(), "commit": _commit()}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        try:
            prepared = prepare(case, arguments.artifacts or Path(folder))
        except Exception as error:  # a mistake of ours must not end a run that nobody watches
            kind = "" if isinstance(error, WeftError) else f"{type(error).__name__}: "
            for threads in wanted:
                yield shared | {"threads": threads, "when": _now(), "error": f"{kind}{error}"}
            return
        if not arguments.prepare:
            for threads, peers in wanted.items():
                yield shared | _measured(case, prepared, peers, limits[threads], arguments)


def prepare(case: Case, folder: Path) -> Prepared:
    """The model in a file and compiled, unless this compiler has done so in that folder already.

    Raises WeftError for what weft cannot compile.
    """
    model = folder / f"{case.name}.onnx"
    library = folder / f"lib{case.name}.{_compiler()}.so"
    times = library.with_suffix(".json")
    if not times.exists():
        folder.mkdir(parents=True, exist_ok=True)
        model.write_bytes(case.build().SerializeToString())
        start = time.perf_counter()
        weft.compile(model, threads=1, cache=False, prefix="model").export(library)
        times.write_text(json.dumps(time.perf_counter() - start))
    return Prepared(model, library, json.loads(times.read_text()))


def _measured(
    case: Case,
    prepared: Prepared,
    peers: Sequence[str],
    limits: Limits,
    arguments: argparse.Namespace,
) -> Row:
    inputs, library = case.inputs(), prepared.library
    measured = measure(
        {OURS: library} | dict.fromkeys(peers, prepared.model),
        inputs,
        limits.threads,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
    )
    work = work_of(read_metadata(library), inputs)
    row: Row = {"threads": limits.threads, "when": _now()}
    row |= {"compile_s": round(prepared.seconds, 3), "so_kb": library.stat().st_size // 1000}
    engines = {each.pop("engine"): each for each in engine_rows(measured, work, limits)}
    row |= {"flops": work.flops, "bytes": work.bytes, "limits": limit_rows(limits)[0]}
    row |= {"engines": engines}
    if engines[OURS]["status"] != "ok":
        row["error"] = engines[OURS]["reason"]
    return row


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@cache
def _commit() -> str:
    """The commit that is checked out, empty where there is none."""
    command = ["git", "describe", "--always", "--dirty"]
    ran = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def best_peer(row: Row) -> tuple[str, float] | None:
    """The fastest peer of a row and its time over weft's."""
    ratios = {
        name: engine["ratio"]
        for name, engine in row.get("engines", {}).items()
        if name != OURS and "ratio" in engine
    }
    return min(ratios.items(), key=lambda item: item[1], default=None)


def shown(row: Row) -> str:
    """A line of a row for people."""
    head = f"{row['case']:32} {row['threads']} "
    if "error" in row:
        return f"{head} {row['error']}"
    ours, best = row["engines"][OURS], best_peer(row)
    peer = f"{best[1]:6.2f} {best[0]}" if best else "  none"
    others = [
        f"{name} {engine['status']}"
        for name, engine in row["engines"].items()
        if engine["status"] != "ok"
    ]
    return f"{head} {ours['ms']:10.4f} ms  {peer:20} {', '.join(others)}".rstrip()


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"requires number/count, got {text}")
    return int(number), int(count)


def _arguments() -> argparse.Namespace:
    parser = parser_of("run", __doc__)
    parser.add_argument(
        "cases", nargs="*", help="names of cases or of groups of them, all by default"
    )
    parser.add_argument(
        "--vs", type=lambda text: text.split(","), default=list(PEERS), help=f"{','.join(PEERS)}"
    )
    add_rounds(parser)
    parser.add_argument("--shard", type=_shard, default=(1, 1), help="number/count")
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help="keeps compiled models there")
    parser.add_argument(
        "--prepare", action="store_true", help="only compile them, into --artifacts"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.vs if name not in PEERS]
    if unknown:
        parser.error(f"--vs requires engines of {', '.join(PEERS)}, got {unknown}")
    if arguments.prepare and arguments.artifacts is None:
        parser.error("--prepare requires --artifacts")
    try:
        find_cases(arguments.cases)
    except ValueError as error:
        parser.error(str(error))
    return arguments


if __name__ == "__main__":
    main()
