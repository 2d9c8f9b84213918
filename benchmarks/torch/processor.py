"""Processor time of a process and of those that it started."""

from __future__ import annotations

import os
from pathlib import Path


def processor_seconds(process: int) -> float:
    """What a process and those that it started have used, and they in turn."""
    total, waiting = 0, [process]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*"):
            try:
                waiting += (task / "children").read_text().split()
                if task.name == task.parent.parent.name:  # times are those of all threads
                    total += sum(map(int, _stat(task.parent.parent)[11:15]))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return total / os.sysconf("SC_CLK_TCK")


def _stat(process: Path) -> list[str]:
    """The fields behind the name."""
    return (process / "stat").read_text().rpartition(")")[2].split()
