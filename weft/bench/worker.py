"""One engine in a process of its own, which reads a `Job` and loads it, then reads how long to run,
and answers both.

The process is a fork of one that has imported the engine and no more, so that one import serves
many jobs. It uses as many cores as the job has threads, whatever the engine believes.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, TypeVar

import numpy as np
from msgspec import Struct

from weft.bench.engines import ENGINES, IMPORTED_AHEAD
from weft.bench.session import Inputs, PeerLacks, Session
from weft.dialects.weights import Array

SHORTEST_SAMPLE: Final = 1e-4
"""Calls that are shorter are timed several at once."""

WARM_UP: Final = 0.05
"""Seconds of calls in each turn before those that are timed: where the machine is a guest, its host
has put the processors of one that had nothing to do on one core, and needs a while to part them.
"""

LEAST_SAMPLES: Final = 2
MOST_SAMPLES: Final = 1000
LONG_CALL: Final = 4
"""Times the seconds of a round: calls that take longer are timed once in it."""

ORDER_BYTES: Final = 64
"""The longest message to a process that forks: the number of a process."""

_PR_SET_PDEATHSIG: Final = 1

T = TypeVar("T")


@dataclass(frozen=True)
class Job(ABC):
    """What is to be loaded, and the numbers of the cores that it may use."""

    cores: tuple[int, ...]

    @property
    @abstractmethod
    def package(self) -> str:
        """The package whose version is reported."""

    @property
    def has_answer(self) -> bool:
        """Whether what it computes has to agree with what others do."""
        return True

    @property
    def imports(self) -> tuple[Any, ...]:
        """What tells jobs apart that cannot be forks of one process."""
        return type(self), self.package, self.cores

    def prepare(self) -> None:
        """Imports what the job needs; others do so at the same time."""
        importlib.import_module(self.package)

    @abstractmethod
    def load(self) -> Session:
        """The session, in the process that runs it. Raises PeerLacks for what it cannot run."""


@dataclass(frozen=True)
class ModelJob(Job):
    """A model for an engine, the arrays to run it on, and where it may keep what it compiles."""

    engine: str
    model: Path
    inputs: Inputs
    kept: Path | None = None

    @property
    def package(self) -> str:
        return ENGINES[self.engine][2]

    @property
    def imports(self) -> tuple[Any, ...]:
        return self.engine, self.cores

    def prepare(self) -> None:
        if self.engine in IMPORTED_AHEAD:
            importlib.import_module(IMPORTED_AHEAD[self.engine])
        importlib.import_module(f"weft.bench.engines.{ENGINES[self.engine][0]}")

    def load(self) -> Session:
        module, function, _ = ENGINES[self.engine]
        engine = importlib.import_module(f"weft.bench.engines.{module}")
        inputs = {name: fresh(array) for name, array in self.inputs.items()}
        return getattr(engine, function)(self.model, inputs, len(self.cores), self.kept)


class Ready(Struct, frozen=True):
    """An engine has loaded the model: the seconds that took, imports aside, its version, its
    outputs, and the memory that it had before.
    """

    seconds: float
    version: str
    outputs: list[Array]
    base_bytes: int = 0


class Failed(Struct, frozen=True):
    """An engine is `missing` from this machine, `lacks` what the model needs, has `failed`, or is
    too `slow`.
    """

    status: str
    reason: str


class Timed(Struct, frozen=True):
    """Seconds of single calls, and the most memory that the process has had so far."""

    samples: list[float]
    peak_bytes: int


def serve(number: int) -> None:
    """Imports what the job on the standard input needs, then forks a process for each pair of pipes
    that comes over the socket of this number, and answers with its number; for a number, waits for
    that process to end and answers with its status.
    """
    _die_with_parent()
    orders = socket.socket(fileno=number)
    job: Job = pickle.load(sys.stdin.buffer)
    os.sched_setaffinity(0, job.cores)
    prepared = _attempt(job.prepare)
    while True:
        order, pipes, _, _ = socket.recv_fds(orders, ORDER_BYTES, 2)
        if not order:
            return
        if pipes:
            process = os.fork()
            if process == 0:
                orders.close()
                _become_engine(pipes[0], pipes[1], prepared)
            for pipe in pipes:
                os.close(pipe)
            orders.send(str(process).encode())
        else:
            _, status = os.waitpid(int(order), 0)
            orders.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become_engine(commands: int, replies: int, prepared: Failed | None) -> NoReturn:
    """Serves one job, as the first of a group of processes, and ends."""
    os.setsid()
    _die_with_parent()
    try:
        _serve_job(os.fdopen(commands, "rb"), os.fdopen(replies, "wb"), prepared)
    finally:
        os._exit(0)


def _serve_job(commands: BinaryIO, replies: BinaryIO, prepared: Failed | None) -> None:
    """Answers until there are no more commands."""

    def reply(answer: Ready | Failed | Timed) -> None:
        pickle.dump(answer, replies)
        replies.flush()

    job: Job = pickle.load(commands)
    loaded = prepared if isinstance(prepared, Failed) else _attempt(lambda: _load(job))
    if isinstance(loaded, Failed):
        reply(loaded)
        return
    session, ready = loaded
    reply(ready)
    gc.collect()
    gc.disable()
    while True:
        try:
            seconds: float = pickle.load(commands)
        except EOFError:
            return
        reply(_attempt(lambda seconds=seconds: Timed(sample(session, seconds), peak_bytes())))


def _load(job: Job) -> tuple[Session, Ready]:
    start = time.perf_counter()
    session = job.load()
    outputs = session.arrays(session.call())
    seconds = time.perf_counter() - start
    try:
        installed = version(job.package)
    except PackageNotFoundError:
        installed = ""
    return session, Ready(seconds, installed, outputs, session.base_bytes)


def fresh(array: Array) -> Array:
    """An array as NumPy makes them: the pickled ones lie anywhere, with a dtype of their own."""
    return array.astype(np.dtype(array.dtype.type), order="C")


def _attempt(action: Callable[[], T]) -> T | Failed:
    """What the action gives, or why it gives nothing: an engine may raise whatever it likes."""
    try:
        return action()
    except ModuleNotFoundError as error:
        return Failed("missing", f"no module {error.name}")
    except PeerLacks as error:
        return Failed("lacks", str(error))
    except Exception as error:
        text = " ".join(str(error).split())
        return Failed("failed", f"{type(error).__name__}: {text[:300]}")


def sample(session: Session, seconds: float) -> list[float]:
    """Seconds of calls, taken until about so many seconds have gone, after calls that warm up."""
    call = session.call
    begin = time.perf_counter()
    once = _time(call, 1)
    while time.perf_counter() - begin < WARM_UP:
        once = min(once, _time(call, 1))
    least = LEAST_SAMPLES if once < LONG_CALL * seconds else 1
    count = max(1, round(SHORTEST_SAMPLE / max(once, 1e-9)))
    if count > 1:
        count = max(1, round(SHORTEST_SAMPLE * count / _time(call, count)))
    samples: list[float] = []
    begin = time.perf_counter()
    while len(samples) < least or (
        time.perf_counter() - begin < seconds and len(samples) < MOST_SAMPLES
    ):
        samples.append(_time(call, count) / count)
    return samples


def _time(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """The most memory that this process has had: unlike getrusage, without its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _die_with_parent() -> None:
    """A process that is stopped would not notice that nobody is left to wake it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
