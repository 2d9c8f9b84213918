"""The thread pool: how loops are cut, and that each iteration runs once, under stress."""

import ctypes
import os
import time

import numpy as np
import pytest

from tests.compiler.loop_to_llvm.runtime.runtime_library import (
    MILLISECOND,
    Addition,
    Library,
    integer,
    pointer,
    thread_count,
    threads_1_2_8,
)
from weft.compiler.abi.constants import Status


def parts_of_loop(
    library: Library, context: int | None, count: int, grain: int
) -> list[tuple[int, int]]:
    recorded = (integer * 200)()
    function = library.host("record_parts", ctypes.c_int32, [pointer, integer, integer, pointer])
    parts = function(context, count, grain, recorded)
    return sorted((recorded[2 * i], recorded[2 * i + 1]) for i in range(parts))


@threads_1_2_8
def test_parts_cover_the_loop_once(hosted: Library, threads: int):
    with hosted.context(threads=threads) as context:
        for count, grain in ((2, 1), (7, 2), (100, 1), (1001, 10), (1 << 60, 1)):
            parts = parts_of_loop(hosted, context, count, grain)
            assert parts[0][0] == 0
            assert parts[-1][1] == count
            assert [begin for begin, _ in parts[1:]] == [end for _, end in parts[:-1]]
            assert len(parts) == min(-(-count // grain), 8 * threads if threads > 1 else 1)


@pytest.mark.parametrize(
    ("count", "grain", "parts"),
    [
        (10, 10, [(0, 10)]),
        (10, 100, [(0, 10)]),
        (0, 1, []),
        (-5, 1, []),
        (3, 0, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_small_loops_are_one_call(
    hosted: Library, count: int, grain: int, parts: list[tuple[int, int]]
):
    with hosted.context(threads=2) as context:
        assert parts_of_loop(hosted, context, count, grain) == parts


def test_loop_without_context_is_one_call(hosted: Library):
    assert parts_of_loop(hosted, None, 1000, 1) == [(0, 1000)]


def test_two_threads_run_at_once(hosted: Library):
    with hosted.context(threads=2) as context:
        runs_at_once = hosted.host("runs_at_once", ctypes.c_int32, [pointer, integer])
        assert runs_at_once(context, 2000 * MILLISECOND) == 1


@pytest.mark.parametrize(("threads", "budget"), [(1, 100), (2, 1200), (8, 1000)])
def test_hundred_thousand_loops_run_every_iteration_once(
    hosted: Library, threads: int, budget: int
):
    rounds = integer(0)
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=threads) as context:
        errors = stress(context, 200_000, budget * MILLISECOND, ctypes.byref(rounds))
    assert errors == 0
    assert rounds.value > 100


@pytest.mark.skipif("WEFT_STRESS" not in os.environ, reason="on demand: WEFT_STRESS=1")
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_a_million_loops_run_every_iteration_once(hosted: Library, threads: int):
    rounds = integer(0)
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=threads) as context:
        errors = stress(context, 1_000_000, 3_600_000 * MILLISECOND, ctypes.byref(rounds))
    assert (errors, rounds.value) == (0, 1_000_000)


def test_sleeping_workers_wake_up(hosted: Library):
    runs_at_once = hosted.host("runs_at_once", ctypes.c_int32, [pointer, integer])
    with hosted.context(threads=2) as context:
        for _ in range(3):
            time.sleep(0.02)  # far longer than workers spin
            assert runs_at_once(context, 2000 * MILLISECOND) == 1


def test_loops_are_whole_while_workers_fall_asleep(hosted: Library):
    rounds = integer(0)
    stress = hosted.host("stress_asleep", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=4) as context:
        assert stress(context, 200, MILLISECOND, ctypes.byref(rounds)) == 0
    assert rounds.value == 200


def test_two_callers_share_a_context(hosted: Library):
    rounds = (integer * 2)()
    stress = hosted.host("stress_twice", integer, [pointer, integer, integer, pointer])
    with hosted.context(threads=3) as context:
        assert stress(context, 100_000, 500 * MILLISECOND, rounds) == 0
    assert min(rounds) > 100


def test_nested_loops_run_in_their_thread(hosted: Library):
    rounds = integer(0)
    stress = hosted.host("stress_nested", integer, [pointer, integer, pointer])
    with hosted.context(threads=4) as context:
        assert stress(context, 10_000, ctypes.byref(rounds)) == 0
    assert rounds.value == 10_000


def test_host_runs_the_loops_where_it_offers_to(hosted: Library):
    calls, before = integer(0), thread_count()
    create = hosted.host("create_with_host_loop", pointer, [ctypes.c_uint32, pointer])
    context = create(4, ctypes.byref(calls))
    assert thread_count() == before
    addition = Addition()
    assert addition.run(hosted, context) == Status.OK
    np.testing.assert_array_equal(addition.sums, addition.lhs + addition.rhs)
    rounds = integer(0)
    stress = hosted.host("stress", integer, [pointer, integer, integer, pointer])
    assert stress(context, 100, 1000 * MILLISECOND, ctypes.byref(rounds)) == 0
    assert calls.value > 90
    hosted.destroy(context)


def test_loop_without_contention_is_cheap(hosted: Library):
    """A bound far above what was measured, to notice a fork that sleeps or waits for the system."""
    latency = hosted.host("fork_join_latency", ctypes.c_double, [pointer, integer])
    with hosted.context(threads=2) as context:
        assert min(latency(context, 2000) for _ in range(10)) < 20_000
