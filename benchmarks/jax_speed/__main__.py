"""What calls of JAX's programs cost on the platform `weft` beside XLA's CPU, in processor time:
`python -m benchmarks.jax_speed --summary FILE`.

One thread each, or `--threads`, in one process, in turns; the ratios are medians of XLA's over
weft's in each turn, by processor time and by the clock. Results are compared first. `--match`
chooses programs by a part of their names.
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

PLATFORMS: Final = "weft,cpu"
ONE_THREAD: Final = "--xla_cpu_multi_thread_eigen=false"
"""XLA's flag. With more it has as many as the process has processors."""

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
    once = max(_seconds(call, 1)[0] for call in calls.values())
    count = max(1, math.ceil(SECONDS / max(once, 1e-6)))
    times = [{name: _seconds(call, count) for name, call in calls.items()} for _ in range(TURNS)]
    for clock, by in enumerate(("", "_clock")):
        for name in calls:
            spent = statistics.median(turn[name][clock] for turn in times)
            row[f"{name}{by}_ms"] = round(1e3 * spent, 4)
        ratios = [turn["cpu"][clock] / turn["weft"][clock] for turn in times]
        row[f"ratio{by}"] = round(statistics.median(ratios), 3)
    return row


def _seconds(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """Seconds of the processor, and by the clock, of a call."""
    begin, start = time.process_time(), time.perf_counter()
    for _ in range(count):
        call()
    spent = time.process_time() - begin, time.perf_counter() - start
    return spent[0] / count, spent[1] / count


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
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    os.environ |= {"JAX_PLATFORMS": PLATFORMS, "WEFT_NUM_THREADS": str(arguments.threads)}
    os.environ["XLA_FLAGS"] = ONE_THREAD if arguments.threads == 1 else ""
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
        line = {"suite": "jax_speed", "date": date, "threads": arguments.threads}
        line |= {"geometric_mean": mean, "programs": rows}
        with arguments.summary.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
