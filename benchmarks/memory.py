"""Memory of compiling and of running: `python -m benchmarks.memory [CASE ...]`.

Each line of the result is a model. Compiling: the most memory that `weft compile` and the processes
that it starts have together, what they share counted once, in a new process and without a cache.
Running: the most that a C program has which loads the shared object and calls it, all of it, and
the most that Python has which loads the model into onnxruntime and calls it, less what Python with
NumPy and onnxruntime has before it loads one. Both read the same inputs from files.
Models that are in the file already are not measured again; a table of all is printed at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.case import Case, Inputs
from benchmarks.errors import recorded
from benchmarks.models import MODELS, MORE_MODELS, find_cases
from benchmarks.options import append_row, parser_of
from weft.bench.work import symbols_of
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.bindings.header import header

MOST_OVER_WEIGHTS: Final = 700.0
"""Megabytes that compiling may take beside the model's weights."""

CALLS: Final = 3
_BETWEEN: Final = 0.01
_HOST: Final = Path(__file__).with_name("memory_host.c")

_PEER: Final = """\
import sys
from pathlib import Path
import numpy as np
import onnxruntime

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

before = memory("VmRSS:")
model, threads, calls, file = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
inputs = dict(np.load(file))
for _ in range(int(calls)):
    outputs = session.run(None, inputs)
print(memory("VmHWM:") - before)
"""

Row = dict[str, Any]


def main() -> None:
    """Measures the models that are not in the file yet; fails where one needs too much."""
    arguments = _arguments()
    path: Path = arguments.output
    rows = recorded(path)
    with tempfile.TemporaryDirectory(prefix="weft-memory-") as folder:
        host = build_host(Path(folder))
        for case in find_cases(arguments.cases or [case.name for case in (*MODELS, *MORE_MODELS)]):
            if case.name not in rows:
                rows[case.name] = measure_case(case, host, arguments.threads)
                append_row(path, rows[case.name])
                print(table([rows[case.name]]).splitlines()[-1], flush=True)
    print(table(list(rows.values())))
    sys.exit(any(map(is_too_much, rows.values())))


def build_host(folder: Path) -> Path:
    """The C program that runs artifacts."""
    (folder / "any.h").write_text(header("none", Signature((), ())))
    host = folder / "host"
    flags = ["-std=gnu11", "-O1", f"-I{folder}", "-o", str(host)]
    subprocess.run(["cc", str(_HOST), *flags, "-ldl"], check=True)
    return host


def measure_case(case: Case, host: Path, threads: int) -> Row:
    """One row. Memory is in megabytes, of a million bytes."""
    with tempfile.TemporaryDirectory(prefix="weft-memory-") as name:
        folder = Path(name)
        model, library = folder / "model.onnx", folder / "libmodel.so"
        model.write_bytes(case.build().SerializeToString())
        weights = model.stat().st_size / 1e6
        peak = peak_of_compiling(model, library)
        ours, theirs = peak_of_runs(library, model, case.inputs(), host, threads)
    return {
        "case": case.name,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "threads": threads,
        "model_mb": round(weights, 1),
        "compile_mb": round(peak, 1),
        "run_mb": round(ours, 1),
        "onnxruntime_run_mb": round(theirs, 1),
    }


def peak_of_compiling(model: Path, library: Path) -> float:
    """The most memory of `weft compile` with all its processes."""
    command = [sys.executable, "-m", "weft", "compile", str(model)]
    peak = 0
    process = subprocess.Popen([*command, "-o", str(library), "--no-cache"])
    while process.poll() is None:
        peak = max(peak, sum(map(_shared_memory, _tree(process.pid))))
        time.sleep(_BETWEEN)
    if process.returncode:
        raise SystemExit(f"weft compile {model} failed")
    return peak / 1e6


def _tree(process: int) -> Iterator[int]:
    """A process and those that it started, these too."""
    yield process
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            children = Path(f"/proc/{process}/task/{thread}/children").read_text()
            for child in children.split():
                yield from _tree(int(child))


def _shared_memory(process: int) -> int:
    """The bytes of a process, what it shares with others divided by how many they are."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def peak_of_runs(
    library: Path, model: Path, inputs: Inputs, host: Path, threads: int
) -> tuple[float, float]:
    """The most memory of a program that runs the artifact, and of onnxruntime beside what Python
    needs for it.
    """
    signature = Signature.from_json(read_metadata(library))
    raw: list[Path] = []
    for number, spec in enumerate(signature.inputs):
        raw.append(library.with_name(f"{number}.bin"))
        raw[-1].write_bytes(inputs[spec.name].tobytes())
    arrays = library.with_name("inputs.npz")
    with arrays.open("wb") as file:
        np.savez(file, **inputs)
    options = [str(threads), str(CALLS)]
    sizes = symbols_of(signature, inputs)
    symbols = [str(sizes[name]) for name in signature.symbols]
    ours = _kilobytes([str(host), str(library), "model", *options, *map(str, raw), *symbols])
    peer = [sys.executable, "-c", _PEER, str(model), *options, str(arrays)]
    return ours / 1e3 * 1.024, _kilobytes(peer) / 1e3 * 1.024


def _kilobytes(command: Sequence[str]) -> int:
    """The number that a command prints."""
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def is_too_much(row: Row) -> bool:
    """Whether a row is above what compiling may take, or above onnxruntime where it runs."""
    over = row["compile_mb"] - row["model_mb"]
    return over > MOST_OVER_WEIGHTS or row["run_mb"] > row["onnxruntime_run_mb"]


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| model | weights, MB | compiling, above them | running | onnxruntime | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, theirs = row["run_mb"], row["onnxruntime_run_mb"]
        over = f"{row['compile_mb'] - row['model_mb']:.0f}"
        cells = [row["case"], f"{row['model_mb']:.1f}", over, f"{ours:.1f}", f"{theirs:.1f}"]
        lines.append(f"| {' | '.join(cells)} | {theirs / ours:.2f} |")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = parser_of("memory", __doc__, "memory-")
    parser.add_argument("cases", nargs="*", help="names of models, all of the list by default")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
