"""weft against onnxruntime, model by model: `python -m benchmarks.run --models mlp --threads 1,2`.

Answers are compared before anything is timed, the two take turns, and each line of the result is
one model with one number of threads, in a process of its own so that peak memory is its own.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import SUBJECTS, Subject, find_subjects
from benchmarks.peers import Call, build_onnxruntime, build_weft
from compiler.machine.host import host_target

RESULTS = Path(__file__).with_name("results")
TOLERANCE = 1e-4
"""Of an output's scale."""
SECONDS = 4.0
LEAST_TURNS = 5
MOST_TURNS = 300


def main() -> None:
    """Measures what is asked for, prints a table and appends to a file of JSON lines."""
    arguments = _arguments()
    subjects = find_subjects(arguments.models)
    if arguments.child is not None:
        print(json.dumps(measure(subjects[0], arguments.child, arguments.threads[0])))
        return
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.date.today():%Y-%m-%d}.jsonl"
    print(_HEADER)
    failed = 0
    for subject in subjects:
        for row in _rows(subject, arguments.threads):
            failed += "error" in row
            print(_line(row), flush=True)
            with path.open("a") as out:
                out.write(json.dumps(row) + "\n")
    print(f"results: {path}")
    sys.exit(1 if failed else 0)


def _rows(subject: Subject, threads: list[int]) -> Iterator[dict[str, Any]]:
    """A row for each number of threads, each of a process that has the model as a file alone."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(subject.build().SerializeToString())
        for count in threads:
            yield _measure_apart(subject, model, count)


def measure(subject: Subject, model: Path, threads: int) -> dict[str, Any]:
    """Compiles, compares the answers, and times both in turns. Raises ArithmeticError where the
    answers differ.
    """
    inputs = subject.inputs()
    built = build_weft(model, inputs, threads)
    peak = _peak_bytes()
    peer = build_onnxruntime(model, inputs, threads)
    error = _difference(built.call(), peer())
    if not error <= TOLERANCE:
        raise ArithmeticError(f"answers differ by {error:.3g} of their scale")
    ours, theirs = _take_turns(built.call, peer)
    return {
        "model": subject.name,
        "threads": threads,
        "weft_ms": round(ours, 4),
        "onnxruntime_ms": round(theirs, 4),
        "ratio": round(ours / theirs, 3),
        "error": error,
        "compile_s": round(built.compile_seconds, 2),
        "peak_mb": round(peak / 1e6, 1),
        "model_mb": round(model.stat().st_size / 1e6, 1),
        "so_kb": built.library_bytes // 1000,
        "cpu": host_target().cpu,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _peak_bytes() -> int:
    """The most memory that this process has had: unlike getrusage, without its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status requires a line VmHWM, got none")


def _difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The greatest difference of any output relative to that output's scale."""
    errors = [
        float(np.abs(one.astype(np.float64) - other).max() / max(np.abs(other).max(), 1e-30))
        for one, other in zip(ours, theirs, strict=True)
    ]
    return float(np.max(errors))


def _take_turns(ours: Call, theirs: Call) -> tuple[float, float]:
    """The median milliseconds of two calls that alternate."""
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < LEAST_TURNS or (
        time.perf_counter() - begin < SECONDS and len(times[0]) < MOST_TURNS
    ):
        for call, spent in zip((ours, theirs), times, strict=True):
            call()  # warms the caches that the other one used
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
    return statistics.median(times[0]) * 1e3, statistics.median(times[1]) * 1e3


def _measure_apart(subject: Subject, model: Path, threads: int) -> dict[str, Any]:
    """`measure` in a process of its own."""
    command = (
        sys.executable, "-m", "benchmarks.run", "--child", str(model),
        "--models", subject.name, "--threads", str(threads),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return {"model": subject.name, "threads": threads, "error": reason}
    return json.loads(done.stdout.splitlines()[-1])


_HEADER = (
    f"{'model':20} {'threads':>7} {'weft ms':>9} {'ort ms':>9} {'ratio':>6} "
    f"{'compile s':>9} {'peak MB':>8} {'.so KB':>8}"
)


def _line(row: dict[str, Any]) -> str:
    if "weft_ms" not in row:
        return f"{row['model']:20} {row['threads']:7} {row['error']}"
    return (
        f"{row['model']:20} {row['threads']:7} {row['weft_ms']:9.3f} {row['onnxruntime_ms']:9.3f} "
        f"{row['ratio']:6.2f} {row['compile_s']:9.2f} {row['peak_mb']:8.0f} {row['so_kb']:8}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.run", description=__doc__)
    names = [subject.name for subject in SUBJECTS]
    parser.add_argument("--models", type=lambda text: text.split(","), default=[], help=f"{names}")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[1],
        help="how many, separated by commas: 1 by default",
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in names]
    if unknown:
        parser.error(f"--models requires names out of {', '.join(names)}, got {unknown}")
    return arguments


if __name__ == "__main__":
    main()
