"""`python -m benchmarks.torch opinfo --output FILE`: each entry of a suite in a process that may
die, a line of JSON each; entries that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks.torch.processor import processor_seconds

IDLE: Final = 20
"""How many times its processor seconds an entry may wait."""


def main() -> None:
    """Runs a suite, and prints how many entries ended how."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch", description=__doc__)
    parser.add_argument("suite", choices=("opinfo", "modules", "models", "held-out"))
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=1, help="samples of an operator")
    parser.add_argument("--dynamic", action="store_true", help="operators with sizes as symbols")
    parser.add_argument("--timeout", type=int, default=120, help="processor seconds for an entry")
    parser.add_argument("--shard", default="0/1", help="every n-th entry from the i-th on: i/n")
    parser.add_argument("--only", help="entries of these names, with commas between")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        _work(chosen)
    else:
        _run(chosen)


def _work(chosen: argparse.Namespace) -> None:
    """Names come in, outcomes go out; what entries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import warnings

    import torch

    from benchmarks.torch.suites import outcome

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        name = line.strip()
        try:
            dtype = getattr(torch, chosen.dtype)
            found = outcome(chosen.suite, name, dtype, chosen.samples, chosen.dynamic)
        except Exception as error:  # an entry that cannot even be set up
            found = {
                "status": "not counted",
                "error": f"{type(error).__name__}: {str(error)[:200]}",
            }
        print(json.dumps({"name": name, **found}), file=answers, flush=True)


def _names(chosen: argparse.Namespace) -> list[str]:
    import torch

    from benchmarks.torch.suites import names_of

    names = names_of(chosen.suite, getattr(torch, chosen.dtype))
    first, step = map(int, chosen.shard.split("/"))
    wanted = set(chosen.only.split(",")) if chosen.only else set(names)
    return [name for name in names[first::step] if name in wanted]


def _run(chosen: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in chosen.output.open()] if chosen.output.exists() else []
    known = {row["name"] for row in rows}
    worker: subprocess.Popen[str] | None = None
    names = _names(chosen)
    with chosen.output.open("a") as file:
        for name in names:
            if name in known:
                continue
            worker = worker if worker and worker.poll() is None else _start()
            row = _ask(worker, name, chosen.timeout)
            rows.append(row)
            print(json.dumps(row), file=file, flush=True)
    if worker is not None:
        worker.kill()
    counts = Counter(row["status"] for row in rows if row["name"] in set(names))
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.torch", *sys.argv[1:], "--worker"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _ask(worker: subprocess.Popen[str], name: str, timeout: int) -> dict[str, Any]:
    """The outcome of an entry; a worker that dies or hangs is one too. A busy machine takes longer
    for the same processor time.
    """
    assert worker.stdin is not None, "it is a pipe"
    assert worker.stdout is not None, "it is a pipe"
    print(name, file=worker.stdin, flush=True)
    start, end = processor_seconds(worker.pid), time.monotonic() + IDLE * timeout
    ready: list[Any] = []
    while not ready and time.monotonic() < end:
        ready, _, _ = select.select([worker.stdout], [], [], 1)
        if processor_seconds(worker.pid) - start > timeout:
            break
    line = worker.stdout.readline() if ready else ""
    if line:
        return json.loads(line)
    worker.kill()
    status = worker.wait()
    error = f"ended with {status}" if ready else f"no answer in {timeout} s of the processor"
    return {"name": name, "status": "error", "error": error}


if __name__ == "__main__":
    main()
