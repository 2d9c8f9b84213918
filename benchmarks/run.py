"""The recorded list against every engine: `python -m benchmarks.run --threads 1,2`.

Each line of the result is one case with one number of threads: every engine that was asked, with
its time or the reason why it has none, and the limits of the machine that were measured meanwhile.
What this compiler was measured against already is in the file and is not measured again, so that a
run can be broken off and gone on with, and other peers be added; `--shard 2/4` measures every
fourth case. With `--artifacts DIR` compiled models are kept there, with what the peers compile and
why some could not; `--prepare` only compiles, and compares the answers, so that nothing does while
a quiet machine is measured. `--minutes` begins no case after so long. A row during which the
machine did much fewer multiply-adds than at its best moment was disturbed by something else: it is
measured `--again`, and the last row of a case counts, whatever it says.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import weft
from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.options import RESULTS, add_rounds, append_row, parser_of
from weft.bench.engines import ENGINES, OURS, PEERS
from weft.bench.limits import Limits, measure_limits, multiply_adds
from weft.bench.rounds import LOAD_LIMIT, Measured, Templates, measure
from weft.bench.rows import engine_rows, limit_rows
from weft.bench.work import work_of
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.compiler.machine.artifact.compiler_digest import compiler_digest
from weft.dialects.errors import WeftError

Row = dict[str, Any]


KEPT = "peers"
"""The folder among the artifacts of what peers have compiled."""

DISTURBED = 0.94
"""The multiply-adds of a row, a median beside the engines, over those of its best moment, below
which a core was taken away meanwhile; a machine left alone has 0.97 and more.
"""

AGAIN = 2
"""How often a disturbed row is measured again."""


@dataclass(frozen=True)
class Prepared:
    """A model's file, a digest of it, its artifact, and the seconds that compiling took."""

    model: Path
    digest: str
    library: Path
    seconds: float

    @property
    def kept(self) -> Path:
        """Where peers keep what they compile."""
        return self.model.parent / KEPT

    def known(self, threads: int) -> Path:
        """What peers have said to this very model before."""
        return self.kept / f"{self.model.stem}.{self.digest}.{threads}.json"


def main() -> None:
    """Measures what is asked for and is not in the file yet; prints a line for each."""
    arguments = _arguments()
    cases = find_cases(arguments.cases)[arguments.shard[0] - 1 :: arguments.shard[1]]
    path: Path = arguments.output
    wanted = {case.name: left_to_measure(case, recorded(path), arguments) for case in cases}
    count = sum(map(len, wanted.values()))
    print(f"{count} of {len(cases) * len(arguments.threads)} to measure, into {path}", flush=True)
    limits: dict[int, Limits] = {}
    if not arguments.prepare:
        limits = {
            n: measure_limits(n) for n in sorted({n for each in wanted.values() for n in each})
        }
    failed, start = 0, time.monotonic()
    with Templates() as templates:
        for case in cases:
            if time.monotonic() - start > arguments.minutes * 60:
                print(f"{case.name} and what follows is left for another run", flush=True)
                break
            for row in measure_case(case, wanted[case.name], limits, templates, arguments):
                failed += "error" in row
                if not arguments.prepare:
                    append_row(path, row)
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
    templates: Templates,
    arguments: argparse.Namespace,
) -> Iterator[Row]:
    """A row for each number of threads. What weft cannot do, or does wrongly, or fails at, is an
    `error`; where models are only prepared, rows have no times.
    """
    if not wanted:
        return
    shared: Row = {"case": case.name, "compiler": _compiler(), "commit": _commit()}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        try:
            prepared = prepare(case, arguments.artifacts or Path(folder))
        except Exception as error:  # a mistake of ours must not end a run that nobody watches
            prefix = "" if isinstance(error, WeftError) else f"{type(error).__name__}: "
            for threads in wanted:
                yield shared | {"threads": threads, "when": _now(), "error": f"{prefix}{error}"}
            return
        for threads, peers in wanted.items():
            row = shared | {"threads": threads, "when": _now()}
            if arguments.prepare:
                yield row | _tried(case, prepared, peers, threads, templates, arguments)
                continue
            for _ in range(1 + arguments.again):
                done = _measured(case, prepared, peers, limits[threads], templates, arguments)
                yield row | done
                if not disturbed(done):
                    break


def disturbed(row: Row) -> bool:
    """Whether something else had the machine while a row was measured: its multiply-adds say so."""
    limits = row.get("limits", {})
    return limits.get("gflops", 0.0) < DISTURBED * limits.get("best_gflops", 0.0)


def prepare(case: Case, folder: Path) -> Prepared:
    """The model in a file and compiled, unless this compiler has done so in that folder already;
    what another has compiled there goes.

    Raises WeftError for what weft cannot compile.
    """
    model = folder / f"{case.name}.onnx"
    library = folder / f"lib{case.name}.{_compiler()}.so"
    made = library.with_suffix(".json")
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"lib{case.name}.*"):
            old.unlink()
        contents = case.build().SerializeToString()
        model.write_bytes(contents)
        start = time.perf_counter()
        weft.compile(model, threads=1, cache=False, prefix="model").export(library)
        digest = hashlib.sha256(contents).hexdigest()[:16]
        made.write_text(json.dumps([digest, time.perf_counter() - start]))
    return Prepared(model, *_both(made, library))


def _both(made: Path, library: Path) -> tuple[str, Path, float]:
    digest, seconds = json.loads(made.read_text())
    return digest, library, seconds


def _tried(
    case: Case,
    prepared: Prepared,
    peers: Sequence[str],
    threads: int,
    templates: Templates,
    arguments: argparse.Namespace,
) -> Row:
    """Every peer that has not said what it does with this model loads it, and answers once; what it
    says is noted.
    """
    known = noted(prepared.known(threads))
    left = [peer for peer in peers if peer not in known]
    if not left:
        return {"engines": known}
    models = {OURS: prepared.library} | dict.fromkeys(left, prepared.model)
    tried = measure(
        models,
        case.inputs(),
        threads,
        rounds=0,
        load_limit=arguments.load_limit,
        templates=templates,
        kept=prepared.kept,
    )
    row: Row = {"error": tried[0].reason} if tried[0].status != "ok" else {}
    answers = {
        each.engine: {
            "status": each.status,
            "reason": each.reason,
            "version": _version(each.engine),
            "load_s": round(each.load_seconds, 3),
        }
        for each in tried[1:]
    }
    prepared.kept.mkdir(exist_ok=True)
    prepared.known(threads).write_text(json.dumps(known | answers, indent=1))
    return row | {"engines": known | answers}


def noted(path: Path) -> dict[str, Row]:
    """What peers of the versions that are here have said to a model, by name. Whether an answer
    differs is weft's affair too, and how long it takes the machine's, so neither counts.
    """
    engines: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    return {
        name: engine
        for name, engine in engines.items()
        if engine["version"] == _version(name) and engine["status"] not in ("differs", "slow")
    }


@cache
def _version(engine: str) -> str:
    try:
        return version(ENGINES[engine][2])
    except PackageNotFoundError:
        return ""


def _measured(
    case: Case,
    prepared: Prepared,
    peers: Sequence[str],
    limits: Limits,
    templates: Templates,
    arguments: argparse.Namespace,
) -> Row:
    inputs, library = case.inputs(), prepared.library
    cannot = [
        Measured(name, engine["status"], engine["reason"], engine["version"])
        for name, engine in noted(prepared.known(limits.threads)).items()
        if engine["status"] != "ok" and name in peers
    ]
    able = [peer for peer in peers if peer not in [each.engine for each in cannot]]
    *measured, turns = measure(
        {OURS: library} | dict.fromkeys(able, prepared.model),
        inputs,
        limits.threads,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        load_limit=arguments.load_limit,
        templates=templates,
        kept=prepared.kept if arguments.artifacts else None,
        companions=multiply_adds(limits.threads),
    )
    limits = limits.during(turns)
    work = work_of(read_metadata(library), inputs)
    row: Row = {"compile_s": round(prepared.seconds, 3), "so_kb": library.stat().st_size // 1000}
    rows = engine_rows([*measured, *cannot], work, limits)
    engines = {each.pop("engine"): each for each in rows}
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
    ours, best = row["engines"].get(OURS), best_peer(row)
    others = [
        f"{name} {engine['status']}: {engine['reason']}"
        for name, engine in row["engines"].items()
        if engine["status"] != "ok"
    ]
    if ours is None:
        return f"{head} prepared  {', '.join(others)}".rstrip()
    peer = f"{best[1]:6.2f} {best[0]}" if best else "  none"
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
    parser.add_argument(
        "--load-limit", type=float, default=LOAD_LIMIT, help="seconds of an engine for a model"
    )
    parser.add_argument(
        "--again", type=int, default=AGAIN, help=f"for a disturbed row, {AGAIN} times by default"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no limit by default")
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help="keeps compiled models there")
    parser.add_argument("--prepare", action="store_true", help="only compile, into --artifacts")
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
