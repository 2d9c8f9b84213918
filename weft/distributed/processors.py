"""Which processors a rank computes on."""

from __future__ import annotations

import os
from collections.abc import Sequence


def share(rank: int, ranks: int) -> Sequence[int]:
    """Those of this process in equal parts, or one of fewer."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < ranks:
        return [cores[rank % len(cores)]]
    return cores[rank * len(cores) // ranks : (rank + 1) * len(cores) // ranks]


def keep_to_share(rank: int, ranks: int) -> None:
    """Keeps this process to its part of the processors of a machine, unless it is kept to some."""
    if len(os.sched_getaffinity(0)) == os.cpu_count():
        os.sched_setaffinity(0, share(rank, ranks))
