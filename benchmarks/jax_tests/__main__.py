"""Runs a sample of JAX's own test files on the platform `weft`, or on XLA's CPU:
`JAX_NUM_GENERATED_CASES=1 python -m benchmarks.jax_tests FOLDER/tests/lax_test.py --every 10`.

The files are those of JAX's repository at the tag of the installed version (they need absl-py).
Each test's outcome is a line of the file `--out`, and those that have one are not run again.
`--baseline` is the file of another platform's outcomes; the share is that of the tests that pass
there. `--summary` adds a line of counts, with what fails by what it says, to a file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Final

Row = dict[str, Any]
SECONDS: Final = 180.0
"""The longest that a test may take."""
FILES: Final = ("lax_test.py", "lax_numpy_test.py", "nn_test.py", "random_test.py")


class Worker:
    """A process that runs the tests of a file on a platform."""

    def __init__(self, path: Path, platform: str) -> None:
        command = [sys.executable, "-m", "benchmarks.jax_tests.worker", str(path)]
        environment = {"JAX_NUM_GENERATED_CASES": "1"} | os.environ | {"JAX_PLATFORMS": platform}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.count = int(self._output.readline())

    @property
    def _output(self) -> IO[str]:
        assert self.process.stdout is not None, "output is a pipe"
        return self.process.stdout

    def run(self, number: int) -> Row:
        """The outcome of a test; one that ends the process is a `crash`."""
        assert self.process.stdin is not None, "input is a pipe"
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        late = threading.Event()
        timer = threading.Timer(SECONDS, lambda: (late.set(), self.process.kill()))
        timer.start()
        for line in self._output:
            if line.startswith('{"test"'):  # others are what the test prints
                timer.cancel()
                return json.loads(line)
        timer.cancel()
        outcome = "timeout" if late.is_set() else "crash"
        return {"test": "", "outcome": outcome, "detail": f"{self.process.wait()}"}

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def run_file(path: Path, platform: str, sample: slice, rows: list[Row], out: IO[str]) -> None:
    """Runs a sample of the tests of a file, of those that have no outcome yet."""
    done = {row["number"] for row in rows if row["file"] == path.name}
    worker = Worker(path, platform)
    for number in range(worker.count)[sample]:
        if number in done:
            continue
        began = time.monotonic()
        row = worker.run(number)
        times = {"seconds": round(time.monotonic() - began, 2)}
        out.write(json.dumps({"file": path.name, "number": number} | row | times) + "\n")
        out.flush()
        if row["outcome"] in ("crash", "timeout"):
            worker.end()
            worker = Worker(path, platform)
    worker.end()


def summary(rows: list[Row], baseline: list[Row], platform: str, every: int) -> list[Row]:
    """For each file counts of outcomes, and what fails of that which passes elsewhere."""
    passing = {(row["file"], row["number"]) for row in baseline if row["outcome"] == "pass"}
    found: list[Row] = []
    for file in dict.fromkeys(row["file"] for row in rows):
        own = [row for row in rows if row["file"] == file]
        if baseline:
            compared = [row for row in own if (file, row["number"]) in passing]
        else:
            compared = [row for row in own if row["outcome"] != "skip"]
        counts = collections.Counter(row["outcome"] for row in own)
        passes = sum(row["outcome"] == "pass" for row in compared)
        failing = {
            row["test"] or f"{row['number']}": f"{row['outcome']}: {_plain(row.get('detail', ''))}"
            for row in compared
            if row["outcome"] != "pass"
        }
        found.append({
            "suite": f"jax {file}", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "platform": platform, "cases": os.environ.get("JAX_NUM_GENERATED_CASES", "1"),
            "every": every, "tests": len(own),
            "counts": dict(counts.most_common()), "compared": len(compared),
            "share": round(passes / max(1, len(compared)), 4), "failing": failing,
        })  # fmt: skip
    return found


def _plain(detail: str) -> str:
    return re.sub("[0-9.e+-]{6,}", "N", detail)[:120]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_tests", description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", help="test files, or a folder of them")
    parser.add_argument("--platform", default="weft")
    parser.add_argument("--every", type=int, default=1, help="one in so many tests")
    parser.add_argument("--first", type=int, default=0, help="the number of the first test")
    parser.add_argument("--out", type=Path, default=Path("jax-tests.jsonl"))
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--again", default="", help="outcomes to run again, a comma between two")
    arguments = parser.parse_args()
    again = arguments.again.split(",")
    rows = [row for row in _rows(arguments.out) if row["outcome"] not in again]
    arguments.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folders = [[path / name for name in FILES] if path.is_dir() else [path]
               for path in arguments.paths]  # fmt: skip
    with arguments.out.open("a") as out:
        for path in (path for paths in folders for path in paths):
            sample = slice(arguments.first, None, arguments.every)
            run_file(path, arguments.platform, sample, rows, out)
    found = summary(
        _rows(arguments.out), _rows(arguments.baseline), arguments.platform, arguments.every
    )
    for row in found:
        print(json.dumps({key: value for key, value in row.items() if key != "failing"}))
    if arguments.summary:
        with arguments.summary.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)


def _rows(path: Path | None) -> list[Row]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.open()]


if __name__ == "__main__":
    main()
