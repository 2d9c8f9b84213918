"""Engines that take turns: each in a process that is stopped while the others have theirs, so that
a pool that spins between calls takes nothing from its peers.
"""

from __future__ import annotations

import os
import pickle
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.bench.session import Inputs
from compiler.bench.worker import Failed, Job, ModelJob, Ready, Timed
from dialects.errors import OptionError
from dialects.weights import Array

ROUNDS: Final = 5
SECONDS: Final = 0.25
"""Of each engine in each round."""

TOLERANCE: Final = {"float32": 1e-3, "float64": 1e-9, "float16": 2e-2, "bfloat16": 8e-2}
"""Differences between answers that are allowed, by dtype and relative to the output's scale;
other dtypes have to be equal.
"""

_SERVE: Final = "from compiler.bench.worker import serve; serve()"

_POOLS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of libraries that count their threads while they are loaded."""

OnTurn = Callable[[str, int, int], None]
"""Is told an engine's name, how many turns are done, and how many there are."""


@dataclass
class Measured:
    """What an engine did: `ok`, `differs`, `missing`, `lacks` or `failed`, and why; medians of its
    rounds in milliseconds; the difference of its answer from the first engine's.
    """

    engine: str
    status: str = "ok"
    reason: str = ""
    version: str = ""
    load_seconds: float = 0.0
    base_bytes: int = 0
    peak_bytes: int = 0
    difference: float | None = None
    rounds: list[float] = field(default_factory=list[float])

    @property
    def milliseconds(self) -> float | None:
        """The median of the rounds; None for an engine that was not timed."""
        return statistics.median(self.rounds) if self.rounds else None


class EngineProcess:
    """An engine's process and the pipe to it; it runs only while it is asked something."""

    def __init__(self, job: Job):
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path} | dict.fromkeys(_POOLS, str(len(job.cores))),
            start_new_session=True,
        )
        self._send(job)

    def ask(self, question: float | None) -> Any:
        """What the process answers: to None, which has it load the model, that it is ready. One
        that dies has failed.
        """
        try:
            self._signal(signal.SIGCONT)
            self._send(question)
            assert self._process.stdout is not None, "an engine answers through a pipe"
            answer = pickle.load(self._process.stdout)
            self._signal(signal.SIGSTOP)
            return answer
        except (EOFError, OSError):
            return Failed("failed", f"its process ended with status {self._process.wait()}")

    def close(self) -> None:
        """Ends the process and those that it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None, "an engine has pipes"
                pipe.close()

    def _send(self, thing: object) -> None:
        assert self._process.stdin is not None, "an engine reads from a pipe"
        pickle.dump(thing, self._process.stdin)
        self._process.stdin.flush()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def measure(
    models: Mapping[str, Path],
    inputs: Inputs,
    threads: int,
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    on_turn: OnTurn = lambda engine, done, total: None,
) -> list[Measured]:
    """Measures each engine's file of the model; see `measure_jobs`.

    Raises OptionError for more threads than cores.
    """
    cores = choose_cores(threads)
    jobs = {name: ModelJob(cores, name, model, inputs) for name, model in models.items()}
    return measure_jobs(jobs, rounds=rounds, seconds=seconds, on_turn=on_turn)


def measure_jobs(
    jobs: Mapping[str, Job],
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    on_turn: OnTurn = lambda engine, done, total: None,
) -> list[Measured]:
    """Loads each job, compares its answer with that of the first that has one, and times those that
    agree in interleaved rounds.
    """
    found = [Measured(name) for name in jobs]
    total = len(found) * (rounds + 1)
    with _processes() as processes:
        answers: list[Array] | None = None
        for name, job in jobs.items():  # which import at the same time, and load in turn
            processes[name] = EngineProcess(job)
        for number, each in enumerate(found):
            on_turn(each.engine, number, total)
            ready = processes[each.engine].ask(None)
            if isinstance(ready, Ready) and answers is None:
                answers = ready.outputs
            _note_ready(each, ready, answers)
        taking_part = [each for each in found if each.status == "ok"]
        for turn in range(rounds):
            first = turn % max(1, len(taking_part))
            for number, each in enumerate(taking_part[first:] + taking_part[:first]):
                on_turn(each.engine, len(found) + turn * len(found) + number, total)
                _note_timed(each, processes[each.engine].ask(seconds))
    return found


def _note_ready(each: Measured, ready: Ready | Failed, answers: list[Array] | None) -> None:
    if isinstance(ready, Failed):
        each.status, each.reason = ready.status, ready.reason
        return
    each.version, each.load_seconds = ready.version, ready.seconds
    each.base_bytes = ready.base_bytes
    problem = None if answers is None else disagreement(answers, ready.outputs)
    if answers is not None and problem is None:
        each.difference = difference(answers, ready.outputs)
    if problem is not None:
        each.status, each.reason = "differs", problem


def _note_timed(each: Measured, timed: Timed | Failed) -> None:
    if each.status != "ok":
        return
    if isinstance(timed, Failed):
        each.status, each.reason, each.rounds = timed.status, timed.reason, []
        return
    each.rounds.append(statistics.median(timed.samples) * 1e3)
    each.peak_bytes = timed.peak_bytes


@contextmanager
def _processes() -> Generator[dict[str, EngineProcess]]:
    processes: dict[str, EngineProcess] = {}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.close()


def choose_cores(threads: int) -> tuple[int, ...]:
    """As many of the cores that this process may use, siblings of one core only when none else is
    left.
    """
    usable = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(usable):
        rule = f"requires 1 to {len(usable)} threads, one for each core of this process"
        raise OptionError(f"bench {rule}, got {threads}")
    rank = {core: list(_siblings(core)).index(core) for core in usable}
    return tuple(sorted(usable, key=lambda core: (rank[core], core))[:threads])


def _siblings(core: int) -> list[int]:
    """The numbers under which the same core is known, in order."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        text = path.read_text()
    except OSError:
        return [core]
    numbers: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        numbers += range(int(low), int(high or low) + 1)
    return numbers


def disagreement(ours: Sequence[Array], theirs: Sequence[Array]) -> str | None:
    """How two lists of outputs differ by more than their dtypes allow; None if they do not."""
    if len(ours) != len(theirs):
        return f"{len(theirs)} outputs instead of {len(ours)}"
    for position, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one.shape != other.shape:
            return f"output {position} has shape {list(other.shape)} instead of {list(one.shape)}"
        error = _difference(one, other)
        if not error <= TOLERANCE.get(one.dtype.name, 0.0):
            return f"output {position} differs by {error:.2g} of its scale"
    return None


def difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The greatest difference of any output relative to that output's scale."""
    return max(map(_difference, ours, theirs), default=0.0)


def _difference(one: Array, other: Array) -> float:
    if one.size == 0:
        return 0.0
    left, right = one.astype(np.float64), other.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return 0.0
    scale = np.abs(right[np.isfinite(right)]).max(initial=1e-30)
    return float(np.abs(left[~same] - right[~same]).max() / scale)
