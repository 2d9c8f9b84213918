"""Models that people have: `python -m benchmarks.real FOLDER [--only TEXT] [--threads N]`.

Gathers the collection into a folder outside of the repository, then compiles and runs each model in
a process of its own with limits of time and memory. Each line of the result is a model: `outcome`,
what was said, the difference from onnxruntime without optimisations beside onnxruntime's own with
them and what noise in inputs and weights makes, seconds and megabytes of compiling, and with
`--threads` the ratio of onnxruntime's time to weft's. `packages.py`, `classical.py`, `exports.py`
and `variants.py` list what is in. Needs skl2onnx 1.20, onnxmltools, onnxconverter-common, xgboost,
lightgbm, scikit-learn, sympy, onnxruntime, onnx-ir, protobuf 6, torch 2.15, torchvision, timm,
transformers and diffusers beside weft, and pip and npm.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.options import append_row, parser_of
from benchmarks.real.gather import gather, models_of
from weft.bench.rounds import measure

SECONDS: Final = 300.0
GIGABYTES: Final = 12
"""The most time, and address space of each process, that a model may take."""


def main() -> None:
    """Gathers, measures and prints."""
    parser = parser_of("real", __doc__, "real-")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="models whose names contain it")
    parser.add_argument("--threads", type=int, default=0, help="measure the ratio with so many")
    arguments = parser.parse_args()
    for line in gather(arguments.folder):
        print(line, flush=True)
    rows: list[dict[str, Any]] = []
    for name, path in models_of(arguments.folder).items():
        if not arguments.only or any(text in name for text in arguments.only):
            rows.append({"model": name} | run_one(path, arguments.threads))
            append_row(arguments.output, rows[-1])
            print(line_of(rows[-1]), flush=True)
    print(summary(rows))


def run_one(path: Path, threads: int) -> dict[str, Any]:
    """The row of a model."""
    command = [sys.executable, "-m", "benchmarks.real.measure", path, path.with_suffix(".npz")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=_limit_memory
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "slow", "said": f"took more than {SECONDS:g} s"}
    if done.returncode or not done.stdout.strip():
        said = (done.stderr.strip().splitlines() or [""])[-1]
        return {"outcome": "crashes", "said": f"status {done.returncode}: {said}"[:400]}
    row = json.loads(done.stdout.splitlines()[-1])
    return row | _ratio(path, threads) if threads and row["outcome"] == "agrees" else row


def _limit_memory() -> None:
    limit = GIGABYTES << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _ratio(path: Path, threads: int) -> dict[str, Any]:
    """onnxruntime's milliseconds over weft's, and weft's."""
    inputs = dict(np.load(path.with_suffix(".npz")))
    ours, peer = measure({"weft": path, "onnxruntime": path}, inputs, threads)
    if ours.milliseconds is None or peer.milliseconds is None:
        return {"ratio": None, "said": ours.reason or peer.reason}
    times = {"ms": ours.milliseconds, "ratio": peer.milliseconds / ours.milliseconds}
    return {key: float(f"{value:.3g}") for key, value in times.items()}


def line_of(row: dict[str, Any]) -> str:
    """A row as text."""
    numbers = (f"{key} {row[key]}" for key in _NUMBERS if row.get(key) is not None)
    return "  ".join([f"{row['model']:60} {row['outcome']:8}", *numbers, row.get("said", "")])


_NUMBERS: Final = ("difference", "onnxruntime", "noise", "compile_s", "compile_mb", "ms", "ratio")


def summary(rows: list[dict[str, Any]]) -> str:
    """How many of each group had each outcome."""
    groups = dict.fromkeys(row["model"].split("/")[0] for row in rows)
    return "\n".join(f"{group}: {_counted(rows, group)}" for group in groups)


def _counted(rows: list[dict[str, Any]], group: str) -> str:
    of_group = [row["outcome"] for row in rows if row["model"].startswith(f"{group}/")]
    counts = Counter(of_group).most_common()
    return f"{len(of_group)} models, " + ", ".join(f"{count} {what}" for what, count in counts)


if __name__ == "__main__":
    main()
