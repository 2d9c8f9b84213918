"""What calls of JAX's programs cost on the platform `weft` beside XLA's CPU, in processor time:
`python -m benchmarks.jax_speed --summary FILE`.

One thread each, in one process, in turns; the ratio is that of the medians, XLA's over weft's.
Results are compared first. `--match` chooses programs by a part of their names.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

ONE_THREAD: Final = {
    "JAX_PLATFORMS": "weft,cpu",
    "WEFT_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
TURNS: Final = 9
SECONDS: Final = 0.1
"""The least of a turn."""


def measured(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Milliseconds of a call and seconds of the first one on both platforms."""
    import jax

    calls: dict[str, Callable[[], Any]] = {}
    row: dict[str, Any] = {}
    found: list[Any] = []
    for name in ("weft", "cpu"):
        device = jax.devices(name)[0]
        with jax.default_device(device):
            staged, given = jax.jit(function), jax.device_put(arguments, device)
            begin = time.process_time()
            found.append(jax.tree.map(np.asarray, staged(*given)))
            row[f"{name}_first_s"] = round(time.process_time() - begin, 3)
        calls[name] = lambda staged=staged, given=given: jax.block_until_ready(staged(*given))
    row["error"] = max(map(difference, *map(jax.tree.leaves, found)), default=0.0)
    once = max(_seconds(call, 1) for call in calls.values())
    count = max(1, math.ceil(SECONDS / max(once, 1e-6)))
    times = [{name: _seconds(call, count) for name, call in calls.items()} for _ in range(TURNS)]
    for name in calls:
        row[f"{name}_ms"] = round(1e3 * statistics.median(turn[name] for turn in times), 4)
    row["ratio"] = round(statistics.median(turn["cpu"] / turn["weft"] for turn in times), 3)
    return row


def _seconds(call: Callable[[], Any], count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count


def difference(one: Any, other: Any) -> float:
    """The greatest difference, as a part of the greatest element."""
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    scale = np.abs(other.astype(wide)).max(initial=0.0)
    apart = np.abs(one.astype(wide) - other.astype(wide)).max(initial=0.0)
    return float(f"{apart / scale if scale else apart:.2g}")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_speed", description=__doc__)
    parser.add_argument("--match", default="")
    parser.add_argument("--only", choices=("models", "programs"))
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    os.environ.update(ONE_THREAD)
    from benchmarks.jax_speed.models import models
    from benchmarks.jax_speed.programs import programs

    listed = {} if arguments.only == "models" else programs()
    listed |= {} if arguments.only == "programs" else models()
    rows: dict[str, dict[str, Any]] = {}
    for name, (function, given) in listed.items():
        if arguments.match in name:
            try:
                rows[name] = measured(function, given)
            except Exception as error:
                rows[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            print(json.dumps({"program": name} | rows[name]), flush=True)
    ratios = [row["ratio"] for row in rows.values() if "ratio" in row]
    mean = round(math.exp(statistics.fmean(map(math.log, ratios))), 3) if ratios else None
    print(json.dumps({"programs": len(rows), "geometric_mean": mean}))
    if arguments.summary:
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        line = {"suite": "jax_speed", "date": date, "geometric_mean": mean, "programs": rows}
        with arguments.summary.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
