"""Naive kernels -> scheduled ones and their machine code, several at a time: this process and
workers that it starts take them from one list, in the order of the list.

Workers are copies of this process where it has one thread, as that of a command has, and are at
work at once. Else they are interpreters that read tasks from their standard input, so that scripts
of users need no guard against being imported. Everybody compiles the kernel's text, hence who does
changes nothing, and what was compiled before comes out of a store.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, Protocol

from xdsl.parser import Parser

from compiler.loop.schedules import Scheduled, schedule_kernel
from compiler.loop_to_llvm.kernel import emit_kernel
from compiler.machine.object import compile_object
from compiler.options import KernelSchedule, Options
from compiler.program.declare import declaration, describe_body
from dialects.context import WeftContext
from dialects.errors import WeftError
from dialects.loop.program import KernelOp

KERNELS_PER_WORKER: Final = 6
"""Fewer are compiled before a worker has imported the compiler."""

KERNELS_PER_COPY: Final = 2
"""Fewer leave nothing to a worker that has imported it already."""

_RARE: Final = (400_000, 50, 100)

_SERVE: Final = """\
import sys
sys.path[:] = {path!r}
from compiler.compile_kernels import serve
serve()
"""


@dataclass(frozen=True)
class KernelTask:
    """A naive kernel as text, and how to compile it: by a forced schedule, by none, or as weft
    thinks best. `keep_texts` asks for the scheduled loops and the LLVM IR too.
    """

    text: str
    options: Options
    keep_texts: bool = False

    def compile(self) -> KernelCode:
        """The code, compiled here."""
        return compile_kernel(self)

    @property
    def key(self) -> str:
        """A hash of all that decides what the code is, the compiler aside."""
        name = self.text.split("@", 1)[1].split("(", 1)[0].split("[", 1)[0]
        forced = _forced(name, self.options)
        own = replace(
            self.options, schedules=() if forced is None else (forced,), tuned=(), timed=False
        )
        return hashlib.sha256(f"{own.digest}\n{self.text}".encode()).hexdigest()


@dataclass(frozen=True)
class KernelCode:
    """The object of a kernel; the scheduled kernel as text, with its body where that was asked for;
    the schedules that it got; its LLVM IR; and the seconds of each stage.
    """

    code: bytes
    kernel: str
    used: list[str]
    ir: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_bytes(self) -> bytes:
        """What `of_bytes` reads; texts and times that tell of this compilation are left out."""
        head = json.dumps([self.kernel, self.used]).encode()
        return len(head).to_bytes(8, "little") + head + self.code

    @staticmethod
    def of_bytes(data: bytes) -> KernelCode:
        """What `to_bytes` gave."""
        end = 8 + int.from_bytes(data[:8], "little")
        kernel, used = json.loads(data[8:end])
        return KernelCode(data[end:], kernel, used)


class Task(Protocol):
    """An object to compile: a kernel, or what is compiled beside kernels."""

    @property
    def key(self) -> str:
        """A hash of all that decides what the code is, the compiler aside."""
        ...

    @property
    def keep_texts(self) -> bool:
        """Whether the texts on the way are asked for."""
        ...

    def compile(self) -> KernelCode:
        """The code, compiled here."""
        ...


class KernelStore(Protocol):
    """What was compiled before, by key."""

    def find_kernel(self, key: str) -> bytes | None:
        """What was kept under the key, if it is whole."""
        ...

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Keeps bytes under a key, where that is possible."""
        ...


def compile_kernel(task: KernelTask) -> KernelCode:
    """Parses, schedules, emits and compiles one kernel."""
    start = time.perf_counter()
    options = task.options
    kernel = parse_kernel(task.text)
    parsed = time.perf_counter()
    scheduled = choose_schedule(kernel, options, recorded=False)
    describe_body(kernel)
    text = str(kernel if task.keep_texts else declaration(kernel))
    done = time.perf_counter()
    ir = emit_kernel(kernel, options.target, prefix=options.prefix, strict_fp=options.strict_fp)
    emitted = time.perf_counter()
    code = compile_object(ir, options.target)
    seconds = {
        "parse": parsed - start,
        "schedule": done - parsed,
        "emit": emitted - done,
        "llvm": time.perf_counter() - emitted,
    }
    return KernelCode(code, text, scheduled.used, ir if task.keep_texts else None, seconds)


def choose_schedule(kernel: KernelOp, options: Options, *, recorded: bool = True) -> Scheduled:
    """Schedules a kernel as it is told to, else as weft thinks best; `recorded` asks for steps."""
    forced = _forced(kernel.sym_name.data, options)
    if forced is not None:
        from compiler.loop.schedule_file import apply_schedule  # few kernels need all passes

        apply_schedule(kernel, forced)
        return Scheduled(["forced"], forced.steps)
    if options.naive:
        return Scheduled(["naive"], ())
    return schedule_kernel(kernel, options.target, recorded=recorded)


def _forced(kernel: str, options: Options) -> KernelSchedule | None:
    """The schedule of a kernel that was asked for, or else the one that a tuner found."""
    given = (*options.schedules, *options.tuned)
    return next((each for each in given if each.kernel == kernel), None)


def parse_kernel(text: str) -> KernelOp:
    """The kernel of a text that holds one, in no module."""
    (kernel,) = Parser(WeftContext(), text, "<kernel>").parse_module().ops
    assert isinstance(kernel, KernelOp), "a task is the text of one kernel"
    kernel.detach()
    return kernel


class KernelCompiler:
    """Compiles kernels in this process and in its workers, those aside that a store has."""

    def __init__(self, workers: Sequence[Worker], store: KernelStore | None = None):
        self.workers = tuple(workers)
        self.store = store

    def compile(self, tasks: Sequence[Task], on_done: Callable[[int], None]) -> list[KernelCode]:
        """The code of each task, in their order; `on_done` is told how many are done.

        Raises what compiling a kernel raises.
        """
        store = None if any(task.keep_texts for task in tasks) else self.store
        found = {} if store is None else _found(tasks, store)
        run = _Run(tasks, found)
        on_done(len(found))
        feeders = [
            threading.Thread(target=run.take, args=(partial(ask, worker),), daemon=True)
            for worker in self.workers
        ]
        for feeder in feeders:
            feeder.start()
        run.take(lambda task: task.compile(), on_done)
        for feeder in feeders:
            feeder.join()
        codes = run.results()
        if store is not None:
            for position, (task, code) in enumerate(zip(tasks, codes, strict=True)):
                if position not in found:
                    store.keep_kernel(task.key, code.to_bytes())
        return codes


def _found(tasks: Sequence[Task], store: KernelStore) -> dict[int, KernelCode]:
    """What the store has, by the task's position."""
    found = ((position, store.find_kernel(task.key)) for position, task in enumerate(tasks))
    return {position: KernelCode.of_bytes(data) for position, data in found if data is not None}


@contextmanager
def rare_collections() -> Generator[None]:
    """Lets the interpreter look for cycles rarely. Compiling makes millions of small objects, few
    of them in cycles: looking for these as often as usual takes half of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def kernel_compiler(
    kernels: int, cores: int | None = None, store: KernelStore | None = None
) -> Generator[KernelCompiler]:
    """A compiler for about so many kernels, whose workers start now and end with the block: with
    this process one for each core, of those that the process may use by default.
    """
    others = (cores or len(os.sched_getaffinity(0))) - 1
    workers: list[Worker] = []
    if _can_fork():
        count = min(others, kernels // KERNELS_PER_COPY)
        workers += [ForkedWorker() for _ in range(count)]
    elif _can_start():
        count = min(others, kernels // KERNELS_PER_WORKER)
        workers += [_start_worker() for _ in range(count)]
    try:
        yield KernelCompiler(workers, store)
    finally:
        for worker in workers:
            worker.kill()
            _close(worker)


def _close(worker: Worker) -> None:
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        # What a task left unsent goes to nobody.
        with suppress(BrokenPipeError):
            assert pipe is not None, "a worker has pipes"
            pipe.close()


def _can_fork() -> bool:
    """Whether nothing but this thread is at work in the process: no lock would stay taken."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _can_start() -> bool:
    """Whether `sys.executable` is an interpreter, not a program that Python is embedded in."""
    return "python" in Path(sys.executable or "").name


def _start_worker() -> Worker:
    path = [entry or os.getcwd() for entry in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # an interrupt at the terminal is this process's affair
    )


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


Worker = subprocess.Popen[bytes] | ForkedWorker


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
    gc.set_threshold(*_RARE)
    while True:
        try:
            task = pickle.load(tasks)
        except EOFError:
            return
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
    assert worker.stdin is not None, "a worker reads from a pipe"
    assert worker.stdout is not None, "a worker answers through a pipe"
    try:
        pickle.dump(task, worker.stdin)
        worker.stdin.flush()
        answer = pickle.load(worker.stdout)
    except (EOFError, BrokenPipeError) as error:
        rule = "compiling requires workers that the system lets live"
        raise OSError(f"{rule}, got one that ended") from error
    if isinstance(answer, WeftError):
        raise answer
    assert isinstance(answer, KernelCode), f"a worker failed:\n{answer}"
    return answer


class _Run:
    """Tasks that several threads take and answer."""

    def __init__(self, tasks: Sequence[Task], done: Mapping[int, KernelCode]):
        self._tasks = tasks
        left = [position for position in range(len(tasks)) if position not in done]
        self._left = iter(left)  # taking the next is atomic
        self._done = dict(done)
        self._errors: list[BaseException] = []

    def take(
        self,
        compiled: Callable[[Task], KernelCode],
        on_done: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Compiles what is left, until nothing is or somebody has failed."""
        try:
            for position in self._left:
                on_done(len(self._done))
                self._done[position] = compiled(self._tasks[position])
                if self._errors:
                    return
        except BaseException as error:
            self._errors.append(error)

    def results(self) -> list[KernelCode]:
        """The code of all tasks; raises what the first that failed has raised."""
        if self._errors:
            raise self._errors[0]
        return [self._done[position] for position in range(len(self._tasks))]
