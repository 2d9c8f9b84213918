"""The recorded list against every engine: `python -m benchmarks.run --threads 1,2`.

Each line of the result is one case with one number of threads: every engine that was asked, with
its time or the reason why it has none, and the limits of the machine that were measured meanwhile.
Lines of cases that are in the file already are not measured again, so that a run can be broken off
and gone on with; `--shard 2/4` measures every fourth case.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import weft
from benchmarks.case import Case
from benchmarks.models import find_cases
from compiler.bench.engines import OURS, PEERS
from compiler.bench.limits import Limits, measure_limits
from compiler.bench.rounds import ROUNDS, SECONDS, measure
from compiler.bench.rows import engine_rows, limit_rows
from compiler.bench.work import work_of
from compiler.machine.artifact import read_metadata
from dialects.errors import WeftError

RESULTS = Path(__file__).with_name("results")


def main() -> None:
    """Measures what is asked for and is not in the file yet; prints a line for each."""
    arguments = _arguments()
    cases = find_cases(arguments.cases)[arguments.shard[0] - 1 :: arguments.shard[1]]
    path: Path = arguments.output
    path.parent.mkdir(exist_ok=True)
    done = recorded(path)
    wanted = [
        (case, threads)
        for case in cases
        for threads in arguments.threads
        if (case.name, threads) not in done
    ]
    print(f"{len(wanted)} of {len(cases) * len(arguments.threads)} to measure, into {path}")
    limits = {threads: measure_limits(threads) for threads in {each for _, each in wanted}}
    failed = 0
    for case, threads in wanted:
        row = measure_case(case, arguments.vs, limits[threads], arguments)
        failed += "error" in row
        with path.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(shown(row), flush=True)
    sys.exit(1 if failed else 0)


def recorded(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows of a file by case and threads, the last of each; those with an error are left out,
    to be measured again.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {
        (row["case"], row["threads"]): row for row in rows if "case" in row and "error" not in row
    }


def measure_case(
    case: Case, peers: Sequence[str], limits: Limits, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One row. What weft cannot do, or does wrongly, is an `error`."""
    row: dict[str, Any] = {"case": case.name, "threads": limits.threads}
    row |= {"when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        model, library = Path(folder) / "model.onnx", Path(folder) / "libmodel.so"
        model.write_bytes(case.build().SerializeToString())
        start = time.perf_counter()
        try:
            weft.compile(model, threads=1, cache=False).export(library)
        except WeftError as error:
            return row | {"error": str(error)}
        compiled = time.perf_counter() - start
        inputs = case.inputs()
        measured = measure(
            {OURS: library} | dict.fromkeys(peers, model),
            inputs,
            limits.threads,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
        )
        work = work_of(read_metadata(library), inputs)
        row |= {"compile_s": round(compiled, 3), "so_kb": library.stat().st_size // 1000}
    engines = {each.pop("engine"): each for each in engine_rows(measured, work, limits)}
    row |= {"flops": work.flops, "bytes": work.bytes, "limits": limit_rows(limits)[0]}
    row |= {"engines": engines}
    if engines[OURS]["status"] != "ok":
        row["error"] = engines[OURS]["reason"]
    return row


def best_peer(row: dict[str, Any]) -> tuple[str, float] | None:
    """The fastest peer of a row and its time over weft's."""
    ratios = {
        name: engine["ratio"]
        for name, engine in row.get("engines", {}).items()
        if name != OURS and "ratio" in engine
    }
    return min(ratios.items(), key=lambda item: item[1], default=None)


def shown(row: dict[str, Any]) -> str:
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
    parser = argparse.ArgumentParser(
        "python -m benchmarks.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    today = RESULTS / f"{datetime.date.today():%Y-%m-%d}.jsonl"
    parser.add_argument(
        "cases", nargs="*", help="names of cases or of groups of them, all by default"
    )
    parser.add_argument(
        "--vs", type=lambda text: text.split(","), default=list(PEERS), help=f"{','.join(PEERS)}"
    )
    parser.add_argument(
        "--threads", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of an engine in a round")
    parser.add_argument("--shard", type=_shard, default=(1, 1), help="number/count")
    parser.add_argument("--output", type=Path, default=today)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.vs if name not in PEERS]
    if unknown:
        parser.error(f"--vs requires engines of {', '.join(PEERS)}, got {unknown}")
    try:
        find_cases(arguments.cases)
    except ValueError as error:
        parser.error(str(error))
    return arguments


if __name__ == "__main__":
    main()
