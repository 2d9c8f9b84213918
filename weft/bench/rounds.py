"""Engines that take turns: each in a process that is stopped while the others have theirs, so that
a pool that spins between calls takes nothing from its peers.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from weft.bench.session import Inputs
from weft.bench.worker import ORDER_BYTES, Failed, Job, ModelJob, Ready, Timed
from weft.dialects.errors import OptionError
from weft.dialects.weights import Array

ROUNDS: Final = 5
SECONDS: Final = 0.25
"""Of each engine in each round."""

LOAD_LIMIT: Final = 600.0
ROUND_LIMIT: Final = 60.0
"""Seconds after which an engine that loads a model, or has its turn, is given up."""

BEHIND: Final = 10.0
"""Times the first engine's time: peers that take longer in two rounds have no more."""

TOLERANCE: Final = {"float32": 1e-3, "float64": 1e-9, "float16": 2e-2, "bfloat16": 8e-2}
"""Differences between answers that are allowed, by dtype and relative to the output's scale;
other dtypes have to be equal.
"""

_SERVE: Final = "import sys; from weft.bench.worker import serve; serve(int(sys.argv[1]))"

_POOLS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of libraries that count their threads while they are loaded."""

OnTurn = Callable[[str, int, int], None]
"""Is told an engine's name, how many turns are done, and how many there are."""


class Measured(Struct):
    """What an engine did: `ok`, `differs`, `missing`, `lacks`, `failed` or `slow`, and why; medians
    of its rounds in milliseconds; the difference of its answer from the first engine's.
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


class Template:
    """A process that has imported what a job needs, and is forked for each such job."""

    def __init__(self, job: Job):
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": path} | dict.fromkeys(_POOLS, str(len(job.cores))),
                start_new_session=True,
            )
        assert self._process.stdin is not None, "a template reads its job from a pipe"
        with self._process.stdin as pipe:
            pickle.dump(job, pipe)

    def fork(self, commands: int, replies: int) -> int:
        """The number of a new process with these ends of pipes; OSError if there is none."""
        socket.send_fds(self._orders, [b"fork"], [commands, replies])
        return self._answer()

    def wait(self, process: int) -> int:
        """The status that a forked process ends with, by which it is gone."""
        self._orders.send(str(process).encode())
        return self._answer()

    def end_of(self, process: int) -> str:
        """How a forked process, or this one, has ended."""
        try:
            return f"its process ended with status {self.wait(process)}"
        except OSError as error:
            return str(error)

    def close(self) -> None:
        """Ends the process, and what it has forked ends with it."""
        self._process.kill()
        self._process.wait()
        self._orders.close()

    def _answer(self) -> int:
        answer = self._orders.recv(ORDER_BYTES)
        if not answer:
            raise ChildProcessError(f"its process ended with status {self._process.wait()}")
        return int(answer)


class EngineProcess:
    """An engine's process and the pipes to it; it runs only while it is asked something."""

    def __init__(self, template: Template):
        self._template = template
        commands, ours = os.pipe()
        theirs, replies = os.pipe()
        self._commands, self._replies = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")
        try:
            self._process, self._lost = template.fork(commands, replies), ""
        except OSError as error:  # the package that it imports has ended it
            self._process, self._lost = 0, str(error)
        finally:
            os.close(commands)
            os.close(replies)

    def ask(self, question: Job | float, seconds: float) -> Any:
        """What the process answers: to a job that it is ready, to a time how it has used it. One
        that dies has failed, one that takes longer than so many seconds is slow.
        """
        if self._lost:
            return Failed("failed", self._lost)
        try:
            self._signal(signal.SIGCONT)
            pickle.dump(question, self._commands)
            self._commands.flush()
            waiting = select.poll()  # of any descriptor, which `select.select` is not
            waiting.register(self._replies, select.POLLIN)
            if not waiting.poll(seconds * 1e3):
                self._signal(signal.SIGKILL)
                return Failed("slow", f"took more than {seconds:g} s")
            answer = pickle.load(self._replies)
            self._signal(signal.SIGSTOP)
            return answer
        except (EOFError, OSError):
            self._lost = self._template.end_of(self._process)
            self._process = 0
            return Failed("failed", self._lost)

    def close(self) -> None:
        """Ends the process and those that it started."""
        self._signal(signal.SIGKILL)
        if self._process:
            self._template.end_of(self._process)
            self._process = 0
        for pipe in (self._commands, self._replies):
            with suppress(BrokenPipeError):
                pipe.close()

    def _signal(self, number: int) -> None:
        if not self._process:
            return
        try:
            os.killpg(self._process, number)
        except ProcessLookupError:  # one that has just been forked has no group of its own
            with suppress(ProcessLookupError):
                os.kill(self._process, number)


class Templates:
    """The templates of a run by what they import; a context, after which they are gone."""

    def __init__(self) -> None:
        self._templates: dict[tuple[Any, ...], Template] = {}

    def __enter__(self) -> Templates:
        return self

    def __exit__(self, *_: object) -> None:
        for template in self._templates.values():
            template.close()

    def of(self, job: Job) -> Template:
        """The template of a job, which begins to import if it is new."""
        if job.imports not in self._templates:
            self._templates[job.imports] = Template(job)
        return self._templates[job.imports]


def measure(
    models: Mapping[str, Path],
    inputs: Inputs,
    threads: int,
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    on_turn: OnTurn = lambda engine, done, total: None,
    load_limit: float = LOAD_LIMIT,
    templates: Templates | None = None,
    kept: Path | None = None,
    companions: Mapping[str, Job] = MappingProxyType({}),
) -> list[Measured]:
    """Measures each engine's file of the model, and then the jobs `companions`, which take turns
    with them; see `measure_jobs`. Engines keep what they compile in a folder if one is given.

    Raises OptionError for more threads than cores.
    """
    cores = choose_cores(threads)
    jobs = {name: ModelJob(cores, name, model, inputs, kept) for name, model in models.items()}
    return measure_jobs(
        {**jobs, **companions},
        rounds=rounds,
        seconds=seconds,
        on_turn=on_turn,
        load_limit=load_limit,
        templates=templates,
    )


def measure_jobs(
    jobs: Mapping[str, Job],
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    on_turn: OnTurn = lambda engine, done, total: None,
    load_limit: float = LOAD_LIMIT,
    templates: Templates | None = None,
) -> list[Measured]:
    """Loads each job, compares its answer with that of the first that has one, and times those that
    agree, or have none to give, in interleaved rounds. Those that are far behind the first have two
    rounds. `load_limit` are the seconds after which one that loads is given up; templates that are
    given serve several runs.
    """
    found = [Measured(name) for name in jobs]
    total = len(found) * (rounds + 1)
    with ExitStack() as stack:
        templates = templates or stack.enter_context(Templates())
        processes = stack.enter_context(_processes())
        answers: list[Array] | None = None
        for job in jobs.values():  # which import at the same time, and load in turn
            templates.of(job)
        for number, each in enumerate(found):
            on_turn(each.engine, number, total)
            job = jobs[each.engine]
            processes[each.engine] = EngineProcess(templates.of(job))
            ready = processes[each.engine].ask(job, load_limit)
            if isinstance(ready, Ready) and job.has_answer and answers is None:
                answers = ready.outputs
            _note_ready(each, ready, answers if job.has_answer else None)
            if each.status != "ok" or not rounds:  # its memory is not needed any more
                processes[each.engine].close()
        taking_part = [each for each in found if each.status == "ok"]
        for turn in range(rounds):
            first = turn % max(1, len(taking_part))
            for number, each in enumerate(taking_part[first:] + taking_part[:first]):
                on_turn(each.engine, len(found) + turn * len(found) + number, total)
                if not far_behind(each, found[0]):
                    _note_timed(each, processes[each.engine].ask(seconds, ROUND_LIMIT))
    return found


def far_behind(each: Measured, first: Measured) -> bool:
    """After two rounds, by the best of both."""
    if len(each.rounds) < 2 or not first.rounds:
        return False
    return min(each.rounds) > BEHIND * min(first.rounds)


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
