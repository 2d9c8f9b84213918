"""How long a call takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Final

from weft.compiler.machine.python.executable import Executable
from weft.dialects.weights import Array

LEAST_CALLS: Final = 5
MOST_CALLS: Final = 200
SECONDS: Final = 1.0


def median_ms(executable: Executable, inputs: Mapping[str, Array]) -> float:
    """The median time of a call in milliseconds, over a second of calls after a first one."""
    executable.run(inputs)
    times: list[float] = []
    while len(times) < LEAST_CALLS or (sum(times) < SECONDS and len(times) < MOST_CALLS):
        start = time.perf_counter()
        executable.run(inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3
