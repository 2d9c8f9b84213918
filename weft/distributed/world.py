"""Which rank this is, of how many: of threads that `simulate` runs, of processes that `weft launch`
or `mpirun` started, or the only one.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from weft.compiler.machine.python.communication import REACHED
from weft.compiler.target.wire import Wire
from weft.dialects.errors import OptionError, RankError

Result = TypeVar("Result")

LIMIT: Final = 30.0
"""Seconds that a rank waits for another one."""

RANK_VARIABLE: Final = "WEFT_RANK"
RANKS_VARIABLE: Final = "WEFT_RANKS"
SEGMENT_VARIABLE: Final = "WEFT_SEGMENT"
LIMIT_VARIABLE: Final = "WEFT_RANK_TIMEOUT"
WIRE_VARIABLE: Final = "WEFT_WIRE"
"""How `weft launch` tells a process its rank, their number, the descriptor of their segment, how
many seconds they wait for each other, and alpha and beta of a wire.
"""


_STARTED_BY_MPI: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
"""What launchers of MPI set in their processes' environments."""


class Once:
    """What ranks of one process compile, each once: the first compiles, the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[object, Any] = {}

    def __call__(self, key: object, make: Callable[[], Result]) -> Result:
        """What was made for a key."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


class World(Struct, frozen=True):
    """A rank among others, and the table by which it reaches them; None where it is alone."""

    rank: int = 0
    ranks: int = 1
    table: Any = None
    once: Once = field(default_factory=Once)


class _Threads(threading.local):
    world: World | None = None


_THREADS: Final = _Threads()


def world() -> World:
    """That of this thread, or of its process."""
    found = _THREADS.world or _of_process()
    if found.table is not None and not REACHED.table:
        _reach(found)
    return found


def rank() -> int:
    """The number of this rank, from 0."""
    return world().rank


def ranks() -> int:
    """How many ranks run this program."""
    return world().ranks


def _reach(found: World) -> None:
    """Lets contexts that this thread creates reach the other ranks."""
    REACHED.table = 0 if found.table is None else ctypes.addressof(found.table)
    REACHED.holder = found.table
    REACHED.heap = getattr(found.table, "heap", None)


@cache
def _of_process() -> World:
    limit = float(os.environ.get(LIMIT_VARIABLE, LIMIT))
    if SEGMENT_VARIABLE in os.environ:
        from weft.distributed.shared_memory import Segment  # with it comes the code generator

        number, count = int(os.environ[RANK_VARIABLE]), int(os.environ[RANKS_VARIABLE])
        segment = Segment(count, int(os.environ[SEGMENT_VARIABLE]))
        alpha, beta = map(float, os.environ.get(WIRE_VARIABLE, "0 inf").split())
        return World(number, count, segment.table(number, limit, Wire(alpha, beta)))
    if any(name in os.environ for name in _STARTED_BY_MPI):
        from weft.distributed.mpi import join_ranks  # mpi4py need not be installed

        return World(*join_ranks(limit))
    return World()


def simulate(
    count: int,
    function: Callable[..., Result],
    *arguments: Any,
    timeout: float = LIMIT,
    alpha: float = 0.0,
    beta: float = inf,
) -> list[Result]:
    """Runs a function on so many ranks, which are threads of this process, and gives what each
    returned. A rank waits for another `timeout` seconds at most. Each message takes `alpha`
    seconds, and a second for `beta` bytes, as over a wire that is slower than memory.

    Raises what a rank has raised, that first which is not about others; OptionError for no ranks.
    """
    if count < 1:
        raise OptionError(f"simulate requires a rank or more, got {count}")
    from weft.distributed.shared_memory import Segment

    segment = Segment(count)
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    wire = Wire(alpha, beta)
    tables = [segment.table(number, timeout, wire) for number in range(count)]
    once = Once()

    def run(number: int) -> None:
        _THREADS.world = World(number, count, tables[number], once)
        _reach(_THREADS.world)
        try:
            results[number] = function(*arguments)
        except BaseException as error:
            errors[number] = error
        finally:
            segment.leave(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    _raise_first(errors)
    return results


def _raise_first(errors: Sequence[BaseException | None]) -> None:
    found = [error for error in errors if error is not None]
    own = [error for error in found if not isinstance(error, RankError)]
    for error in (*own, *found):
        raise error
