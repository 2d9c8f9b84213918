"""Runs JAX's own harnesses of its primitives on the platform `weft`, beside XLA's CPU:
`python -m benchmarks.jax_harnesses --every 10`.

The harnesses are those of the installed JAX (`jax._src.internal_test_util`, which needs absl-py).
Each is run by one of `--workers` processes, its outcome is a line of the file `--out`, and those
that have one are not run again. `--summary` adds a line of counts, with what fails by what it says,
to a file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import random
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
SECONDS: Final = 120.0
"""The longest that a harness may take."""
PASSES: Final = ("pass",)
APART: Final = ("not on cpu",)
"""What XLA's CPU does not do either."""


class Worker:
    """A process that runs harnesses by their numbers, and the one that it runs."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks.jax_harnesses.worker"]
        environment = os.environ | {"JAX_PLATFORMS": "weft,cpu", "JAX_ENABLE_X64": "true"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.number = 0
        self.began = 0.0
        self.count = int(self.read())

    def read(self) -> str:
        """A line of what the process writes, empty once it has ended."""
        assert self.process.stdout is not None, "output is a pipe"
        return self.process.stdout.readline()

    def begin(self, number: int) -> None:
        """Hands a harness to the process."""
        assert self.process.stdin is not None, "input is a pipe"
        self.number, self.began = number, time.monotonic()
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def run_all(numbers: list[int], out: Path, count: int) -> None:
    """Runs harnesses by so many processes, and appends a line for each."""
    waiting = collections.deque(numbers)
    selector = selectors.DefaultSelector()

    def start(worker: Worker) -> None:
        if waiting:
            worker.begin(waiting.popleft())
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # pyright: ignore
        else:
            worker.end()

    with out.open("a") as file:
        for _ in range(min(count, len(numbers))):
            start(Worker())
        while selector.get_map():
            ready = {key.data for key, _ in selector.select(timeout=1)}
            late = {
                key.data
                for key in selector.get_map().values()
                if time.monotonic() - key.data.began > SECONDS
            }
            for worker in ready | late:
                selector.unregister(worker.process.stdout)
                line = worker.read() if worker in ready else ""
                outcome = "timeout" if worker not in ready else "crash"
                row = json.loads(line) if line else {"harness": "", "outcome": outcome}
                seconds = round(time.monotonic() - worker.began, 2)
                file.write(
                    json.dumps({"number": worker.number} | row | {"seconds": seconds}) + "\n"
                )
                file.flush()
                if not line:
                    worker.end()
                    worker = Worker()
                start(worker)


def summary(rows: list[Row], every: int) -> Row:
    """Counts of outcomes, and what fails by what it says."""
    counts = collections.Counter(row["outcome"] for row in rows)
    failing = collections.Counter(
        f"{row['outcome']}: {re.sub('[0-9.e+-]{4,}', 'N', row.get('detail', ''))[:120]}"
        for row in rows
        if row["outcome"] not in PASSES + APART
    )
    compared = sum(count for name, count in counts.items() if name not in APART)
    return {
        "suite": "jax test_harnesses",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "every": every,
        "harnesses": len(rows),
        "counts": dict(counts.most_common()),
        "share": round(counts["pass"] / max(1, compared), 4),
        "failing": dict(failing.most_common()),
    }


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_harnesses", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("jax-harnesses.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--every", type=int, default=1, help="one in so many harnesses")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="runs them in an order that this number draws")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", default="", help="outcomes to run again, a comma between two")
    arguments = parser.parse_args()
    rows: list[Row] = []
    if arguments.out.exists():
        rows = [json.loads(line) for line in arguments.out.open()]
    kept = [row for row in rows if row["outcome"] not in arguments.again.split(",")]
    arguments.out.write_text("".join(json.dumps(row) + "\n" for row in kept))
    done = {row["number"] for row in kept}
    first = Worker()
    first.end()
    every = range(arguments.start, first.count, arguments.every)
    numbers = [at for at in every if at not in done]
    if arguments.seed is not None:
        random.Random(arguments.seed).shuffle(numbers)
    run_all(numbers, arguments.out, arguments.workers)
    rows = [json.loads(line) for line in arguments.out.open()]
    found = summary(rows, arguments.every)
    print(json.dumps({key: value for key, value in found.items() if key != "failing"}))
    if arguments.summary:
        with arguments.summary.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
