"""Tasks of a compilation, and the processes beside this one that do them.

A worker is a copy of this process where it has one thread, as that of a command has, and is at
work at once. Else it is an interpreter that reads tasks from its standard input, so that scripts
of users need no guard against being imported; it waits for the next compilation for a while, as it
takes longer to start than most compilations.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, Protocol, TypeAlias

from msgspec import Struct, field

from weft.compiler.deferred import COLLECTION_THRESHOLDS, deferred
from weft.dialects.errors import WeftError

if TYPE_CHECKING:
    import subprocess

    from weft.compiler.driver.observing.kernel_texts import KernelTexts
else:
    subprocess = deferred("subprocess")

_IDLE_SECONDS: Final = 60
"""How long an interpreter waits for the next compilation before it ends."""

_MARGIN_SECONDS: Final = 10
"""How long before that it gets no task any more: one that is late is lost."""

_SERVE: Final = """\
import sys
sys.path[:] = {path!r}
from weft.compiler.driver.workers import serve
serve()
"""


class KernelCode(Struct, frozen=True):
    """The object of a kernel; the scheduled kernel as text, with its body where that was asked for;
    the schedules that it got, and what refused it; its LLVM IR; the seconds of each stage; and how
    it was made, where somebody looks.
    """

    code: bytes
    kernel: str
    used: list[str]
    refused: list[str]
    ir: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    texts: KernelTexts | None = None

    def to_bytes(self) -> bytes:
        """What `of_bytes` reads; texts and times that tell of this compilation are left out."""
        head = json.dumps([self.kernel, self.used, self.refused]).encode()
        return len(head).to_bytes(8, "little") + head + self.code

    @staticmethod
    def of_bytes(data: bytes) -> KernelCode:
        """What `to_bytes` gave."""
        end = 8 + int.from_bytes(data[:8], "little")
        return KernelCode(data[end:], *json.loads(data[8:end]))


class Task(Protocol):
    """An object to compile: a kernel, or what is compiled beside kernels."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Hashes of all that decides what the code is, the compiler aside; one of them has it."""
        ...

    def key_of(self, code: KernelCode) -> str:
        """The one of the keys that this code is found by."""
        ...

    @property
    def keep_texts(self) -> bool:
        """Whether the texts on the way are asked for."""
        ...

    @property
    def cost(self) -> int:
        """What tells longer tasks from shorter ones."""
        ...

    def compile(self) -> KernelCode:
        """The code, compiled here."""
        ...


def close(worker: Worker) -> None:
    """Ends a worker, whatever it is at."""
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        # What a task left unsent goes to nobody.
        with suppress(BrokenPipeError):
            assert pipe is not None, "a worker has pipes"
            pipe.close()


def can_fork() -> bool:
    """Whether nothing but this thread is at work in the process: no lock would stay taken. Threads
    of OpenBLAS, which wait for NumPy's next product of matrices, end: it starts others then.
    """
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    if len(frames) == 1:  # nobody is at such a product
        _end_threads_of_openblas()
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _end_threads_of_openblas() -> None:
    """As OpenBLAS itself does before a process is copied."""
    with suppress(OSError), open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if "openblas" in line}
        for each in libraries:
            end = getattr(ctypes.CDLL(each), "blas_thread_shutdown_", None)
            if end is not None:
                end()


def can_start() -> bool:
    """Whether `sys.executable` is an interpreter, not a program that Python is embedded in."""
    return "python" in Path(sys.executable or "").name


def start_worker() -> Worker:
    """An interpreter that serves tasks."""
    path = [entry or os.getcwd() for entry in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt at the terminal is this process's affair
    )


_idle: deque[tuple[float, subprocess.Popen[bytes]]] = deque()
"""Interpreters that wait for the next compilation of this process, and since when."""

os.register_at_fork(after_in_child=_idle.clear)


@atexit.register
def close_idle_workers() -> None:
    """Ends the interpreters that wait for a compilation."""
    while _idle:
        close(_idle.pop()[1])


def take_workers(idle: int, count: int) -> list[Worker]:
    """Interpreters that serve tasks: up to `idle` that wait for some, and as many new ones as make
    `count` of them.
    """
    taken: list[Worker] = []
    while len(taken) < idle and _idle:
        since, worker = _idle.pop()
        # Not until the last moment, lest it ends just now; the first task may be long in coming.
        if time.monotonic() - since < _IDLE_SECONDS - _MARGIN_SECONDS and _may_wait(
            worker, long=True
        ):
            taken.append(worker)
        else:
            close(worker)
    return taken + [start_worker() for _ in range(count - len(taken))]


def release(worker: Worker) -> None:
    """Lets an interpreter without a task wait for the next compilation, and ends a copy."""
    if not isinstance(worker, ForkedWorker) and _may_wait(worker, long=False):
        _idle.append((time.monotonic(), worker))
    else:
        close(worker)


def _may_wait(worker: Worker, *, long: bool) -> bool:
    """Tells an interpreter whether it may wait for a task as long as that takes, or only for a
    while; false for one that has ended.
    """
    with suppress(BrokenPipeError):
        _send(worker, long)
        return True
    return False


class ForkedWorker:
    """A copy of this process that serves tasks, which ends with it; used as an interpreter that was
    started is.
    """

    def __init__(self) -> None:
        tasks, answers = os.pipe(), os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _serve_in_copy(tasks, answers)
        os.close(tasks[0])
        os.close(answers[1])
        self.stdin, self.stdout = os.fdopen(tasks[1], "wb"), os.fdopen(answers[0], "rb")
        self.returncode: int | None = None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self._process, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        return self.returncode


Worker: TypeAlias = "subprocess.Popen[bytes] | ForkedWorker"


def _serve_in_copy(tasks: tuple[int, int], answers: tuple[int, int]) -> NoReturn:
    """What a copy does, which never goes back to what its parent does next."""
    try:
        os.setsid()  # an interrupt at the terminal is the parent's affair
        os.close(tasks[1])  # without it the parent's end would not be the end
        os.dup2(2, 1)
        gc.freeze()
        _serve(os.fdopen(tasks[0], "rb"), os.fdopen(answers[1], "wb"))
    finally:
        os._exit(0)  # nothing that the parent has still to write is written twice


def serve() -> None:
    """A worker: compiles the tasks that come in until there are no more."""
    tasks, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints does not get among the replies
    _serve(tasks, replies)


def _serve(tasks: BinaryIO, replies: BinaryIO) -> None:
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    while True:
        try:
            task = pickle.load(tasks)
        except EOFError:
            return
        if isinstance(task, bool):
            # The signal ends a worker that waits too long for another task.
            signal.setitimer(signal.ITIMER_REAL, 0 if task else _IDLE_SECONDS)
        else:
            pickle.dump(_answer(task), replies)
            replies.flush()


def _answer(task: Task) -> KernelCode | WeftError | str:
    try:
        return task.compile()
    except WeftError as error:
        return error
    except Exception:
        return traceback.format_exc()


def ask(worker: Worker, task: Task) -> KernelCode:
    """`task.compile()` in a worker. Raises what that raises, or OSError for a worker that died."""
    try:
        _send(worker, task)
        answer = _receive(worker)
    except (EOFError, BrokenPipeError) as error:
        rule = "compiling requires workers that the system lets live"
        raise OSError(f"{rule}, got one that ended") from error
    if isinstance(answer, WeftError):
        raise answer
    assert isinstance(answer, KernelCode), f"a worker failed:\n{answer}"
    return answer


def _send(worker: Worker, task: Task | bool) -> None:
    """Hands over a task, or whether a worker may wait long for one."""
    assert worker.stdin is not None, "a worker reads from a pipe"
    pickle.dump(task, worker.stdin)
    worker.stdin.flush()


def _receive(worker: Worker) -> object:
    assert worker.stdout is not None, "a worker answers through a pipe"
    return pickle.load(worker.stdout)
