"""What a page about a model costs beside compiling it, and how soon a browser has it open.

    python -m benchmarks.view_cost resnet50_b1 bert_base_128 5000

A number is a graph of so many operators whose values are read again much later. Compiling alone
and with a page take turns, in one process on one core, and seconds are the processor's, since
others may be at work on the machine; a compilation on two cores takes about half of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.growth.graphs import residual
from benchmarks.models import MODELS, MORE_MODELS
from tests.support.browser import CHROMIUM, Browser
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.codegen.host import host_target
from weft.view import Page, Run, data

TURNS = 3


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """The processor's seconds of a call, and what it returns."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def measure(name: str, build: Callable[[], Any]) -> None:
    """Prints a line about a model."""
    options, cores = Options(host_target()), os.sched_getaffinity(0)
    os.sched_setaffinity(0, list(cores)[:1])
    plain: list[float] = []
    looked: list[float] = []
    html = ""
    for _ in range(TURNS):
        plain.append(spent(lambda: compile_model(build(), options))[0])
        seconds, html = spent(lambda: Page(data(build(), run=Run(timed=False))).html())
        looked.append(seconds)
    os.sched_setaffinity(0, cores)
    compiled, page = median(plain), median(looked)
    line = f"{name}: {len(html) / 1e6:.1f} MB, compiled in {compiled:.1f} s, with a page "
    line += f"{page:.1f} s ({page - compiled:.1f} s more)"
    if CHROMIUM is not None:
        line += f", open in {_open_seconds(html):.2f} s"
    print(line, flush=True)


def _open_seconds(html: str) -> float:
    """How long a browser takes to load a page and draw it."""
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        path = Path(folder) / "page.html"
        path.write_text(html)
        browser.open(path)
        times: list[float] = []
        for _ in range(TURNS):
            start = time.perf_counter()
            browser.open(path)
            times.append(time.perf_counter() - start)
        return median(times)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.view_cost", description=__doc__)
    parser.add_argument("models", nargs="+", help="cases of the recorded list, or numbers")
    cases = {case.name: case.build for case in (*MODELS, *MORE_MODELS)}
    for name in parser.parse_args().models:
        count = int(name) if name.isdecimal() else 0
        measure(name, cases[name] if not count else lambda count=count: residual(count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
