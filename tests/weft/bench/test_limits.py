"""Limits of the machine: loops that compile and run, and the roofline made of them."""

import pytest

from tests.weft.bench.jobs import PlainJob
from weft.bench.byte_limits import bf16_limit, block_limit, byte_limit
from weft.bench.limits import Bandwidth, Limits, measure_limits, multiply_adds
from weft.bench.rounds import Measured, measure_jobs
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import WeftError

LIMITS = Limits(
    "cpu",
    1,
    100.0,
    (
        Bandwidth("read", "L1", 1000, 50.0),
        Bandwidth("read", "memory", 100000, 10.0),
        Bandwidth("copy", "L1", 1000, 40.0),
        Bandwidth("copy", "memory", 100000, 20.0),
    ),
)


def test_the_best_loop_of_the_level_counts():
    assert LIMITS.gbs(800) == 50.0
    assert LIMITS.gbs(1001) == 20.0
    assert LIMITS.gbs(10**9) == 20.0


def test_the_roofline_is_the_slower_of_both():
    assert LIMITS.seconds(10**9, 0) == 1e-2
    assert LIMITS.seconds(0, 2 * 10**9) == 0.1
    assert LIMITS.seconds(10**9, 2 * 10**9) == 0.1


def test_loops_are_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.bench.limits.SECONDS", 1e-4)
    monkeypatch.setattr("weft.bench.limits.CALL_SECONDS", 1e-4)
    limits = measure_limits(1)
    assert 0.1 < limits.gflops < 1000
    assert {each.access for each in limits.bandwidths} == {"read", "copy", "triad"}
    assert all(0.01 < each.gbs < 5000 for each in limits.bandwidths)


def test_multiply_adds_take_turns_with_engines():
    jobs = {"plain": PlainJob((0,), 1e-4)} | multiply_adds(1)
    plain, turns = measure_jobs(jobs, rounds=2, seconds=0.002)
    assert (plain.status, turns.status) == ("ok", "ok")
    limits = LIMITS.during(turns)
    assert 0.1 < limits.gflops <= limits.best_gflops < 1000
    assert limits.bandwidths == LIMITS.bandwidths


def test_multiply_adds_that_have_not_run_are_an_error():
    with pytest.raises(WeftError, match="multiply-adds to be timed, got: why"):
        LIMITS.during(Measured("multiply-adds", "failed", "why"))


def test_products_of_bytes_and_bf16_are_measured(monkeypatch: pytest.MonkeyPatch):
    repeats, word = 1 << 10, 63 * 63 - 128 * 128  # of a word's bytes, which are those of 1.0
    monkeypatch.setattr("weft.bench.byte_limits._REPEATS", repeats)
    monkeypatch.setattr("weft.bench.byte_limits._CALLS", 2)
    tiles = host_target().has_matrix_products(4)
    limits = {byte_limit(1): repeats * (16 if tiles else 1) * word}
    limits[block_limit(1)] = repeats * 8 * word
    if tiles:
        limits[byte_limit(1, 320)] = 320 // 4 * word
    if host_target().has_matrix_products(2):
        limits[bf16_limit(1)] = repeats * 16
    for limit, total in limits.items():
        assert (limit.run() == total).all()
        assert 0.1 < limit.measure_gops() < 100_000
