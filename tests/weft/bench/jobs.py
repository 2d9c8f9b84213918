"""Jobs without an engine, by which turns are tested: a process finds them by this module's name."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from weft.bench.session import Session
from weft.bench.worker import Job


@dataclass(frozen=True)
class PlainJob(Job):
    """Calls that sleep; the answer is the number of the process that was forked for it."""

    seconds: float = 0.0

    @property
    def package(self) -> str:
        return "numpy"

    def load(self) -> Session:
        answer = np.array([os.getppid()])
        return Session(lambda: time.sleep(self.seconds), lambda _: [answer])


@dataclass(frozen=True)
class DyingJob(PlainJob):
    """A job whose process ends while it loads."""

    def load(self) -> Session:
        os._exit(3)


@dataclass(frozen=True)
class LongJob(PlainJob):
    """A job that loads for long."""

    def load(self) -> Session:
        time.sleep(60)
        raise AssertionError("nobody waits for so long")
