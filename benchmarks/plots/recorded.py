"""Files of recorded results -> plots: ratio by case and CPU, compile cost against kernels, and how
much more threads do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.closing import UNCOUNTED
from benchmarks.models import GROUPS
from benchmarks.plots.draw import ratios, scatter
from benchmarks.run import best_peer

Row = dict[str, Any]

_SHOWN: Final = ("models", "operators")
"""Groups of cases that are drawn; the others have up to a hundred rows."""


def write_plots(results: Path, folder: Path) -> list[Path]:
    """Draws what the folder of results holds; returns the files, one for each plot."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, draw in PLOTS.items():
        path = folder / f"{name}.svg"
        path.write_text(draw(results))
        written.append(path)
    return written


def measured_rows(results: Path) -> dict[tuple[str, str, int], Row]:
    """The newest row of each CPU, case and number of threads."""
    found: dict[tuple[str, str, int], Row] = {}
    for row in _rows(results, "*.jsonl"):
        if "engines" in row and "case" in row and "limits" in row:
            key = row["limits"]["cpu"], row["case"], row["threads"]
            if key not in found or found[key]["when"] <= row["when"]:
                found[key] = row
    return found


def _rows(results: Path, pattern: str) -> Iterator[Row]:
    for path in sorted(results.glob(pattern)):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def _cases() -> list[str]:
    return [case.name for group in _SHOWN for case in GROUPS[group] if case.name not in UNCOUNTED]


def ratio_by_cpu(results: Path) -> str:
    """The time of the fastest peer over weft's on one thread."""
    rows, cases = measured_rows(results), _cases()
    series: dict[str, dict[str, float]] = {}
    for (cpu, case, threads), row in rows.items():
        best = best_peer(row)
        if threads == 1 and case in cases and best is not None:
            series.setdefault(cpu, {})[case] = best[1]
    explained = "the fastest peer's time over weft's, one thread: right of 1, weft is faster"
    return ratios("weft beside the fastest of the other engines", series, explained)


def scaling_with_threads(results: Path) -> str:
    """The time on one thread over that on several."""
    rows, cases = measured_rows(results), _cases()
    series: dict[str, dict[str, float]] = {}
    for (cpu, case, threads), row in rows.items():
        alone = rows.get((cpu, case, 1))
        if threads > 1 and case in cases and alone is not None:
            times = [each["engines"]["weft"].get("ms") for each in (alone, row)]
            if None not in times:
                series.setdefault(f"{cpu}, {threads} threads", {})[case] = times[0] / times[1]
    explained = "weft's time on one thread over its time on several"
    return ratios("Scaling with threads", series, explained)


def compile_cost(results: Path) -> str:
    """Seconds of the processor with an empty cache, over the kernels of the artifact."""
    points = {
        row["model"]: (float(row["kernels"]), float(row["cold_here"][0]))
        for row in _rows(results, "compile-cost-*.jsonl")
        if "kernels" in row
    }
    return scatter("What compiling costs", points, ("kernels", "seconds of the processor"))


PLOTS: Final[Mapping[str, Callable[[Path], str]]] = {
    "ratio-by-cpu": ratio_by_cpu,
    "scaling-with-threads": scaling_with_threads,
    "compile-cost": compile_cost,
}
"""The plots by name of their file."""
