"""Engines of one thread that take turns in this process, by the time of the processor, which a
machine that others use does not blur as it does the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from weft.bench.engines import OURS
from weft.bench.rounds import Measured, difference, disagreement, far_behind
from weft.bench.session import PeerLacks
from weft.bench.worker import Job


def measure_turns(jobs: Mapping[str, Job], *, rounds: int, seconds: float) -> list[Measured]:
    """What `measure_jobs` gives, with milliseconds of the processor. Raises what ours raises."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    answers: Any = None
    found: list[Measured] = []
    calls: dict[str, Callable[[], Any]] = {}
    for name, job in jobs.items():
        each, start = Measured(name), time.process_time()
        found.append(each)
        try:
            session = job.load()
            given = session.arrays(session.call())
        except (ImportError, PeerLacks) as error:
            each.status, each.reason = "lacks", str(error)
            continue
        except Exception as error:
            if name == OURS:
                raise
            each.status, each.reason = "failed", f"{type(error).__name__}: {error}"
            continue
        each.load_seconds = time.process_time() - start
        answers = given if answers is None else answers
        each.difference, calls[name] = difference(answers, given), session.call
        if problem := disagreement(answers, given):
            each.status, each.reason = "differs", problem
            del calls[name]
    for _ in range(rounds):
        for each in found:
            if each.engine in calls and not far_behind(each, found[0]):
                each.rounds.append(1e3 * _seconds(calls[each.engine], seconds))
    return found


def _seconds(call: Callable[[], Any], least: float) -> float:
    """Of the processor, by one call: the mean of as many as take that long, after one that brings
    the caches to what it needs.
    """
    call()
    count, start = 0, time.process_time()
    while not count or time.process_time() - start < least:
        call()
        count += 1
    return (time.process_time() - start) / count
