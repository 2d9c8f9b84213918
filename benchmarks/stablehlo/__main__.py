"""Runs a folder of self-checking StableHLO programs: `python -m benchmarks.stablehlo FOLDER`.

Each file is compiled and run by one of two worker processes, and its outcome is a line of the file
`--out`; files that have one are not run again. A file that ends its worker is a `crash`, one that
takes too long a `timeout`. `--summary` adds a line of counts, and the names of all that fail, to a
file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import multiprocessing
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from benchmarks.stablehlo.pieces import programs
from benchmarks.stablehlo.program import Outcome, run_file

Row = dict[str, Any]
SECONDS: Final = 120.0
"""The longest that a file may take."""


def work(connection: Connection) -> None:
    """A worker: paths come in, outcomes go out."""
    while path := connection.recv():
        connection.send(run_file(Path(path)))


class Worker:
    """A process, and the file that it runs."""

    def __init__(self) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(theirs,), daemon=False)
        self.process.start()
        theirs.close()
        self.path = Path()
        self.began = 0.0

    def begin(self, path: Path) -> None:
        """Hands a file to the worker."""
        self.path, self.began = path, time.monotonic()
        self.connection.send(str(path))

    def outcome(self) -> Outcome | None:
        """What became of the file; None where it still runs."""
        if self.connection.poll():
            try:
                return self.connection.recv()
            except EOFError:
                self.process.join()
                return Outcome("crash", f"exit code {self.process.exitcode}")
        if time.monotonic() - self.began > SECONDS:
            self.process.kill()
            return Outcome("timeout")
        return None

    def end(self) -> None:
        """Ends the process."""
        if self.process.is_alive():
            self.connection.send("")
            self.process.join(5)
            self.process.kill()


def run_all(paths: list[Path], folder: Path, out: Path, count: int) -> None:
    """Runs files by workers, and appends a line for each."""
    waiting = collections.deque(paths)
    idle, busy = [Worker() for _ in range(min(count, len(paths)))], list[Worker]()
    with out.open("a") as file:
        while waiting or busy:
            while waiting and idle:
                busy.append(idle.pop())
                busy[-1].begin(waiting.popleft())
            wait([each.connection for each in busy], timeout=1)
            for worker in list(busy):
                outcome = worker.outcome()
                if outcome is None:
                    continue
                busy.remove(worker)
                row = {
                    "file": str(worker.path.relative_to(folder)),
                    "outcome": outcome.outcome,
                    "seconds": round(time.monotonic() - worker.began, 2),
                }
                file.write(json.dumps(row | ({"detail": outcome.detail} if outcome.detail else {})))
                file.write("\n")
                file.flush()
                alive = outcome.outcome not in ("crash", "timeout")
                idle.append(worker if alive else Worker())
    for worker in idle:
        worker.end()


def summary(rows: list[Row], folder: Path) -> Row:
    """Counts of outcomes, and what every file that fails says."""
    counts = collections.Counter(row["outcome"] for row in rows)
    failing = {
        row["file"]: f"{row['outcome']} {row.get('detail', '')[:100]}".strip()
        for row in sorted(rows, key=lambda row: row["file"])
        if row["outcome"] not in ("pass", "nearer", "skipped")
    }
    return {
        "suite": folder.name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "files": len(rows),
        "counts": dict(counts.most_common()),
        "seconds": round(sum(row["seconds"] for row in rows)),
        "failing": failing,
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stablehlo", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("stablehlo.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--match", default="", help="only files with this in their name")
    parser.add_argument("--again", default="", help="outcomes to run again, a comma between two")
    arguments = parser.parse_args()
    folder, out = arguments.folder, arguments.out
    rows: list[Row] = [json.loads(line) for line in out.open()] if out.exists() else []
    again = arguments.again.split(",")
    kept = [row for row in rows if row["outcome"] not in again]
    if len(kept) != len(rows):
        out.write_text("".join(json.dumps(row) + "\n" for row in kept))
    done = {row["file"] for row in kept}
    paths = [
        path
        for file in sorted(folder.rglob("*.mlir"))
        for path in programs(file)
        if arguments.match in path.name and str(path.relative_to(folder)) not in done
    ]
    run_all(paths, folder, out, arguments.workers)
    rows = [json.loads(line) for line in out.open()]
    found = summary(rows, folder)
    print(json.dumps({key: value for key, value in found.items() if key != "failing"}))
    if arguments.summary:
        with arguments.summary.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
