"""Where workers run: away from their caller's core, which they give up when their turn is over."""

import ctypes
import os
import time
from collections.abc import Iterator

import pytest

from tests.compiler.loop_to_llvm.runtime.runtime_library import (
    MILLISECOND,
    Library,
    integer,
    pointer,
)

CORES = os.sched_getaffinity(0)
A_CORE = min(CORES)
SETS = ctypes.c_uint64 * 2

needs_two_cores = pytest.mark.skipif(
    len(CORES) < 2 or max(CORES) >= 64, reason="needs two cores of the first 64"
)


@pytest.fixture(autouse=True)
def real_cores(hosted: Library) -> Iterator[None]:
    """What was pretended and counted before is forgotten."""
    pretend(hosted, -1, -1)
    moves(hosted)
    yields(hosted)
    yield
    pretend(hosted, -1, -1)


def pretend(hosted: Library, caller: int, worker: int) -> None:
    hosted.host("pretend_cores", None, [ctypes.c_int32, ctypes.c_int32])(caller, worker)


def moves(hosted: Library) -> tuple[int, list[int]]:
    """How often threads were told where they may run, and the last two sets, as bits."""
    sets = SETS()
    return hosted.host("count_moves", ctypes.c_int32, [pointer])(sets), list(sets)


def yields(hosted: Library) -> int:
    return hosted.host("count_yields", ctypes.c_int32, [])()


def loops(hosted: Library, context: int, milliseconds: int) -> None:
    """Loops of which both threads have a part, for so long."""
    runs_at_once = hosted.host("runs_at_once", ctypes.c_int32, [pointer, integer])
    end = time.monotonic() + 1e-3 * milliseconds
    while time.monotonic() < end:
        assert runs_at_once(context, 2000 * MILLISECOND) == 1


@needs_two_cores
def test_worker_leaves_the_core_of_its_caller(hosted: Library):
    every = sum(1 << core for core in CORES)
    with hosted.context(threads=2) as context:
        pretend(hosted, A_CORE, A_CORE)
        loops(hosted, context, 20)
        pretend(hosted, A_CORE, max(CORES))
        loops(hosted, context, 2)  # the last pair of moves is over
        count, (first, then) = moves(hosted)
        assert 2 <= count <= 2 * 30  # not for every loop
        assert (first, then) == (every & ~(1 << A_CORE), every)
        assert all(
            os.sched_getaffinity(int(each)) == CORES for each in os.listdir("/proc/self/task")
        )


@needs_two_cores
def test_worker_on_another_core_stays(hosted: Library):
    with hosted.context(threads=2) as context:
        pretend(hosted, A_CORE, max(CORES))
        loops(hosted, context, 5)
        moves(hosted)  # one that was before the first loop
        loops(hosted, context, 10)
        assert moves(hosted)[0] == 0


def test_more_threads_than_cores_stay(hosted: Library):
    with hosted.context(threads=len(CORES) + 1) as context:
        pretend(hosted, A_CORE, A_CORE)
        loops(hosted, context, 10)
        assert moves(hosted)[0] == 0


@needs_two_cores
def test_worker_gives_up_its_core_after_a_turn(hosted: Library):
    rounds, total, end = integer(0), 0, time.monotonic() + 30
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=2) as context:
        while total == 0 and time.monotonic() < end:
            assert stress(context, 1_000_000, 20 * MILLISECOND, ctypes.byref(rounds)) == 0
            total = yields(hosted)
    assert 0 < total < 40  # not behind every loop


def test_worker_that_slept_begins_its_turn_anew(hosted: Library):
    rounds = integer(0)
    stress = hosted.host("stress_asleep", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=2) as context:
        assert stress(context, 20, 3 * MILLISECOND, ctypes.byref(rounds)) == 0
        assert yields(hosted) == 0
