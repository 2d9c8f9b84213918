"""All-reduce of f32 between the processes of one machine, in turns with gloo's and with an add of
two arrays that the processes share among them:

    PYTHONPATH=. weft launch -n 2 benchmarks/ranks/all_reduce.py 16     MiB; gloo with PyTorch

Of each the median, the lower quartile and the least of many turns, by the wall and by a rank's
processor time. Ranks in place reach each other's buffers, as those of a program do whose gradients
are summed; ranks that are staged copy through the segment.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.ranks.exchange import Exchange
from benchmarks.ranks.training import start_gloo
from weft.dialects.weights import Array
from weft.distributed.world import World, world

TURNS: Final = 60


def shared_array(here: World, count: int) -> tuple[Array, Any]:
    """An array that other ranks reach, and what holds its memory."""
    memory = here.table.heap.workspace(4 * count, 4 * count)
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(memory.address)), memory


def gloo(source: Array) -> Callable[[], object] | None:
    """The sum by PyTorch's gloo; None where it is not installed."""
    if not start_gloo():
        return None
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    tensor = torch.from_numpy(source)
    return lambda: dist.all_reduce(tensor)


def times_of_sums(mebibytes: float, turns: int = TURNS) -> dict[str, list[tuple[float, float]]]:
    """Of each way to sum, the seconds of each turn by the wall and of this rank's processor time;
    `meeting` is the sum of one number.
    """
    here = world()
    count = int(mebibytes * (1 << 18))
    reduce = Exchange().reduce
    own, other = (np.ones(count, np.float32) for _ in range(2))
    shared, held = shared_array(here, count)
    result, also_held = shared_array(here, count)
    part = slice(count * here.rank // here.ranks, count * (here.rank + 1) // here.ranks)
    small = np.zeros(1, np.float32)
    ways: dict[str, Callable[[], object] | None] = {
        "in place": lambda: reduce(shared, shared),
        "to another buffer": lambda: reduce(shared, result),
        "staged": lambda: reduce(own, other),
        "gloo": gloo(np.zeros(count, np.float32)),
        "add": lambda: np.add(own[part], own[part], out=other[part]),
        "meeting": lambda: None,
    }
    sums = {"in place": shared, "to another buffer": result, "staged": other}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            if way is None:
                continue
            shared[:] = 1
            own[:] = 1
            reduce(small, small)
            begin = time.perf_counter(), time.process_time()
            way()
            own_end = time.process_time()
            reduce(small, small)
            found[name].append((time.perf_counter() - begin[0], own_end - begin[1]))
            if name in sums:
                assert (sums[name] == here.ranks).all()
    del held, also_held
    return found


def main(mebibytes: float) -> None:
    found = times_of_sums(mebibytes)
    if world().rank == 0:
        for name, times in found.items():
            for label, which in (("wall", 0), ("processor", 1)):
                print(described(f"{name:18} {label:10}", [each[which] * 1e3 for each in times]))


def described(name: str, values: list[float]) -> str:
    """A line of the result."""
    if not values:
        return f"{name} not installed"
    quarter, middle, _ = statistics.quantiles(values, n=4)
    return f"{name} median {middle:7.2f} quartile {quarter:7.2f} least {min(values):7.2f} ms"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 16)
