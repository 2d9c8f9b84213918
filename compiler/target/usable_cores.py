"""How many of this machine's processors a process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

QUOTA = Path("/sys/fs/cgroup/cpu.max")
OLDER_QUOTA = tuple(Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
"""Where Linux has the microseconds of processors that a control group grants, and their period: in
control groups of the second version, and of the first.
"""

_LIMIT: Final = 2
"""Numbers that say a limit."""


def usable_cores() -> int:
    """The processors that this process may run on, or of which its control group grants it the
    time, as artifacts count them (`compiler/loop_to_llvm/runtime/usable_threads.py`).
    """
    limit = _numbers(QUOTA) or [number for path in OLDER_QUOTA for number in _numbers(path)]
    cores = len(os.sched_getaffinity(0))
    if len(limit) != _LIMIT or min(limit) <= 0:
        return cores
    return min(cores, -(-limit[0] // limit[1]))


def _numbers(path: Path) -> list[int]:
    """The numbers of a file of the system's; none where it is missing or says `max`."""
    try:
        with open(path, "rb", buffering=0) as file:  # each context asks, and text takes longer
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []
