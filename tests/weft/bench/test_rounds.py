"""Engines in processes of their own: answers are compared, turns taken, failures told."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.small_models import dense_model, rows_of
from tests.weft.bench.jobs import DyingJob, LongJob, PlainJob
from weft.bench.rounds import (
    EngineProcess,
    Templates,
    choose_cores,
    difference,
    disagreement,
    measure,
    measure_jobs,
)
from weft.bench.session import Session
from weft.bench.worker import LEAST_SAMPLES, WARM_UP, Ready, sample
from weft.dialects.errors import OptionError
from weft.dialects.weights import Array


@pytest.fixture(scope="module")
def dense_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "dense.onnx"
    path.write_bytes(dense_model("rows").SerializeToString())
    return path


def test_engines_that_agree_are_timed_in_every_round(dense_path: Path):
    models = {"weft": dense_path, "onnxruntime": dense_path}
    turns: list[tuple[str, int, int]] = []

    def on_turn(engine: str, done: int, total: int) -> None:
        turns.append((engine, done, total))

    measured = measure(models, {"x": rows_of(5)}, 1, rounds=2, seconds=0.001, on_turn=on_turn)
    assert [(each.engine, each.status, len(each.rounds)) for each in measured] == [
        ("weft", "ok", 2),
        ("onnxruntime", "ok", 2),
    ]
    assert all(each.milliseconds is not None and each.version for each in measured)
    assert all(each.peak_bytes > 1e6 for each in measured)
    assert turns[-1] == ("weft", 5, 6)


def test_an_engine_that_fails_is_told_and_the_others_go_on(dense_path: Path):
    models = {"weft": dense_path, "onnxruntime": dense_path.with_name("none.onnx")}
    ours, theirs = measure(models, {"x": rows_of(5)}, 1, rounds=1, seconds=0.001)
    assert (ours.status, len(ours.rounds)) == ("ok", 1)
    assert (theirs.status, theirs.rounds, theirs.milliseconds) == ("failed", [], None)
    assert "none.onnx" in theirs.reason


def test_jobs_of_one_kind_are_forks_of_one_process():
    job = PlainJob(choose_cores(1))
    answers: list[int] = []
    with Templates() as templates:
        for _ in range(2):
            process = EngineProcess(templates.of(job))
            ready = process.ask(job, 60)
            assert isinstance(ready, Ready)
            answers += ready.outputs[0].tolist()
            process.close()
    assert answers[0] == answers[1] != os.getpid()


def test_engines_that_are_far_behind_have_two_rounds():
    cores = choose_cores(1)
    jobs = {"first": PlainJob(cores, 1e-3), "slow": PlainJob(cores, 2e-2)}
    first, slow = measure_jobs(jobs, rounds=4, seconds=0.001)
    assert (first.status, len(first.rounds)) == ("ok", 4)
    assert (slow.status, len(slow.rounds)) == ("ok", 2)


def test_an_engine_that_dies_has_failed_and_one_that_takes_too_long_is_slow():
    cores = choose_cores(1)
    jobs = {"plain": PlainJob(cores), "dying": DyingJob(cores), "long": LongJob(cores)}
    _, dying, long = measure_jobs(jobs, rounds=1, seconds=0.001, load_limit=1.0)
    assert (dying.status, dying.reason) == ("failed", "its process ended with status 3")
    assert (long.status, long.reason) == ("slow", "took more than 1 s")


def test_cores_are_refused_that_there_are_not():
    count = len(os.sched_getaffinity(0))
    assert len(set(choose_cores(count))) == count
    with pytest.raises(OptionError, match=f"1 to {count} threads, .* got {count + 1}"):
        choose_cores(count + 1)


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ([], "0 outputs instead of 1"),
        ([np.zeros((2, 1), np.float32)], "output 0 has shape [2, 1] instead of [2]"),
        ([np.array([1, 2.1], np.float32)], "output 0 differs by 0.048 of its scale"),
        ([np.array([1, np.nan], np.float32)], "output 0 differs by nan of its scale"),
    ],
)
def test_answers_that_differ_say_how(theirs: list[Array], reason: str):
    assert disagreement([np.array([1, 2], np.float32)], theirs) == reason


def test_answers_that_agree_within_their_dtype():
    ours = [np.array([1, np.inf, np.nan], np.float32), np.zeros((0, 3), np.float32)]
    theirs = [np.array([1.0001, np.inf, np.nan], np.float32), np.zeros((0, 3), np.float32)]
    assert disagreement(ours, theirs) is None
    assert 0 < difference(ours, theirs) < 2e-4
    assert disagreement([np.array([3])], [np.array([4])]) is not None


def test_long_calls_are_timed_once_after_one_that_warms_up():
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        time.sleep(WARM_UP + 0.001)

    assert len(sample(Session(call, list), 0.001)) == 1
    assert len(calls) == 2


def test_a_turn_goes_on_for_a_while_before_it_is_timed():
    calls: list[float] = []

    def call() -> None:
        calls.append(time.perf_counter())
        time.sleep(0.002)

    samples = sample(Session(call, list), 0.001)
    assert len(samples) == LEAST_SAMPLES
    assert calls[-LEAST_SAMPLES] - calls[0] >= WARM_UP


def test_short_calls_are_timed_several_at_once():
    calls: list[int] = []
    samples = sample(Session(lambda: calls.append(1), list), 0.001)
    assert len(samples) >= 2
    assert len(calls) > 10 * len(samples)
    assert all(0 < seconds < 1e-4 for seconds in samples)
