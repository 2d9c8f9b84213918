"""ViT-S/16 in two stages of a pipeline beside one rank of two threads, in turns:

    PYTHONPATH=. weft launch -n 2 --timeout 300 benchmarks/ranks/pipeline.py 32 5

streams so many images, so often. Of an image the time by the wall and the processor time of all
ranks together, the median and the least.
"""
# pyright: basic

from __future__ import annotations

import os
import statistics
import sys
import time

import numpy as np

import weft
from benchmarks.networks import build_vit
from benchmarks.ranks.exchange import Exchange

CORES = sorted(os.sched_getaffinity(0))
MIDDLE = "/layer5/Add_1=1"


def main(count: int, turns: int) -> None:
    model, exchange, first = build_vit(), Exchange(), weft.rank() == 0
    draw = np.random.default_rng(0)
    images = [draw.random((1, 3, 224, 224), np.float32) for _ in range(count)]
    staged = weft.compile(model, mesh=f"stage={weft.ranks()}", stage=[MIDDLE], threads=1)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    alone = weft.compile(model, threads=weft.ranks()) if first else None
    ways = {
        "stages": lambda: [each[0] for each in staged.stream(images)],
        "one rank": lambda: [alone(each)[0] for each in images] if alone else None,
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    results: dict[str, list | None] = {}
    for turn in range(turns + 1):
        for name, way in ways.items():
            os.sched_setaffinity(0, range(os.cpu_count() or 1) if name == "one rank" else CORES)
            exchange.total(0.0)
            begin = time.perf_counter(), time.process_time()
            results[name] = way()
            own, wall = time.process_time() - begin[1], time.perf_counter() - begin[0]
            together = exchange.total(own)
            if turn:
                times[name].append((wall * 1e3 / count, together * 1e3 / count))
    if first:
        for one, other in zip(results["stages"], results["one rank"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
        for name, found in times.items():
            for at, label in enumerate(("wall", "processors")):
                values = [each[at] for each in found]
                middle, least = statistics.median(values), min(values)
                print(f"{name:9} {label:10} median {middle:6.2f} least {least:6.2f} ms of an image")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
