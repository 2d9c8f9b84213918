"""Kernels -> machine code, several at a time: this process and workers that it starts take them
from one list, in the order of the list.

Workers are processes that read tasks from their standard input, so that scripts of users need no
guard against being imported. Everybody compiles the kernel's text, hence who does changes nothing.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from compiler.loop_to_llvm.kernel import emit_kernel
from compiler.machine.object import compile_object
from compiler.target.target import Target
from dialects.context import WeftContext
from dialects.errors import WeftError
from dialects.loop.program import KernelOp

Worker = subprocess.Popen[bytes]

KERNELS_PER_WORKER: Final = 6
"""Fewer are compiled before a worker has imported the compiler."""

_SERVE: Final = """\
import sys
sys.path[:] = {path!r}
from compiler.compile_kernels import serve
serve()
"""


@dataclass(frozen=True)
class KernelTask:
    """A scheduled kernel as text, and how to compile it; `keep_ir` asks for the LLVM IR too."""

    text: str
    target: Target
    prefix: str
    strict_fp: bool
    keep_ir: bool = False


@dataclass(frozen=True)
class KernelCode:
    """The object of a kernel, its LLVM IR if that was asked for, and what both took."""

    code: bytes
    ir: str | None
    emit_seconds: float
    llvm_seconds: float


def compile_kernel(task: KernelTask) -> KernelCode:
    """Parses, emits and compiles one kernel."""
    start = time.perf_counter()
    module = Parser(WeftContext(), task.text, "<kernel>").parse_module()
    kernel = _only_kernel(module)
    ir = emit_kernel(kernel, task.target, prefix=task.prefix, strict_fp=task.strict_fp)
    emitted = time.perf_counter()
    code = compile_object(ir, task.target)
    done = time.perf_counter()
    return KernelCode(code, ir if task.keep_ir else None, emitted - start, done - emitted)


def _only_kernel(module: ModuleOp) -> KernelOp:
    (kernel,) = module.ops
    assert isinstance(kernel, KernelOp), "a task is the text of one kernel"
    return kernel


class KernelCompiler:
    """Compiles kernels in this process and in its workers."""

    def __init__(self, workers: Sequence[Worker]):
        self.workers = tuple(workers)

    def compile(
        self, tasks: Sequence[KernelTask], on_done: Callable[[int], None]
    ) -> list[KernelCode]:
        """The code of each task, in their order; `on_done` is told how many are done.

        Raises what compiling a kernel raises.
        """
        run = _Run(tasks)
        feeders = [
            threading.Thread(target=run.take, args=(partial(ask, worker),), daemon=True)
            for worker in self.workers
        ]
        for feeder in feeders:
            feeder.start()
        run.take(compile_kernel, on_done)
        for feeder in feeders:
            feeder.join()
        return run.results()


@contextmanager
def kernel_compiler(kernels: int, cores: int | None = None) -> Generator[KernelCompiler]:
    """A compiler for about so many kernels, whose workers start now and end with the block: with
    this process one for each core, of those that the process may use by default.
    """
    others = (cores or len(os.sched_getaffinity(0))) - 1
    count = min(others, kernels // KERNELS_PER_WORKER)
    workers = [_start_worker() for _ in range(count)] if _can_start() else []
    try:
        yield KernelCompiler(workers)
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


def serve() -> None:
    """A worker: compiles the tasks that come in until there are no more."""
    tasks, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints does not get among the replies
    while True:
        try:
            task = pickle.load(tasks)
        except EOFError:
            return
        pickle.dump(_answer(task), replies)
        replies.flush()


def _answer(task: KernelTask) -> KernelCode | WeftError | str:
    try:
        return compile_kernel(task)
    except WeftError as error:
        return error
    except Exception:
        return traceback.format_exc()


def ask(worker: Worker, task: KernelTask) -> KernelCode:
    """`compile_kernel` in a worker. Raises what that raises, or OSError for a worker that died."""
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

    def __init__(self, tasks: Sequence[KernelTask]):
        self._tasks = tasks
        self._left = iter(range(len(tasks)))  # taking the next is atomic
        self._done: dict[int, KernelCode] = {}
        self._errors: list[BaseException] = []

    def take(
        self,
        compiled: Callable[[KernelTask], KernelCode],
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
