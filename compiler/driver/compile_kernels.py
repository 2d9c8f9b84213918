"""Naive kernels -> scheduled ones and their machine code, several at a time: this process and its
workers take them from one list, the longest first.

This process compiles the kernel itself, workers its text, from which they get the same code. What
was compiled before comes out of a store.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.deferred import deferred, fewer_collections
from weft.compiler.driver.workers import (
    ForkedWorker,
    KernelCode,
    Task,
    Worker,
    ask,
    can_fork,
    can_start,
    close,
    release,
    take_workers,
)
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.loop.primitives.recording import looking, record, stop_recording
from weft.compiler.loop.schedules import READS_CORES, Scheduled, schedule_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel
from weft.compiler.machine.codegen.code_generator import (
    BRIEF_LEVEL,
    CODEGEN_LEVEL,
    PROGRAM_LEVEL,
    Level,
)
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.program.kernel_summary import kernel_summary, summarize_body
from weft.compiler.target.target import Target
from weft.compiler.target.usable_cores import usable_cores
from weft.compiler.validation.in_place import prove_claims
from weft.dialects.context import parse_module
from weft.dialects.expr import forget_expressions
from weft.dialects.loop.program import BRIEF, KernelOp, ProgramOp
from weft.dialects.module_attributes import CodeOptions

if TYPE_CHECKING:
    from weft.compiler.driver.observing import kernel_texts
else:
    kernel_texts = deferred("weft.compiler.driver.observing.kernel_texts")

KERNELS_PER_NEW: Final = 10
"""Fewer are compiled before a new interpreter has imported the compiler."""

KERNELS_PER_WORKER: Final = 2
"""Fewer leave nothing to a worker that has imported it already."""


class KernelTask(Struct, frozen=True):
    """A naive kernel by name and as text, and how to compile it: by a forced schedule, by none, or
    as weft thinks best. `keep_texts` asks for the scheduled loops and the LLVM IR too, `observed`
    for all steps to the assembly; what is `brief` no store has but with its program.
    """

    name: str
    text: str
    target: Target
    options: CodeOptions
    keep_texts: bool = False
    observed: bool = False
    brief: bool = False

    def compile(self) -> KernelCode:
        """Parses, schedules, emits and compiles the kernel, here."""
        start = time.perf_counter()
        kernel = parse_kernel(self.text)
        seconds = {"parse": time.perf_counter() - start}
        code = self.compile_kernel(kernel)
        return replace(code, seconds=seconds | dict(code.seconds))

    def compile_kernel(self, kernel: KernelOp, *, is_read: bool = True) -> KernelCode:
        """Schedules, emits and compiles the kernel of the text, which is a scheduled one with a
        summary afterwards; its text is in the result where that `is_read`.
        """
        parsed = time.perf_counter()
        target, options = self.target, self.options
        seen = kernel_texts.ObservedSteps(kernel) if self.observed else None
        with nullcontext() if seen is None else looking(seen.look):
            scheduled = choose_schedule(
                kernel, target, options,
                recorded=seen is not None, naive=partial(parse_kernel, self.text),
            )  # fmt: skip
        summarize_body(kernel)
        text = self._text_of(kernel) if is_read else ""
        done = time.perf_counter()
        prove_claims(kernel)
        proved = time.perf_counter()
        ir = emit_kernel(
            kernel,
            target,
            prefix=options.prefix,
            strict_fp=options.strict_fp,
            guarded=bool(options.guarded),
        )
        emitted = time.perf_counter()
        code = compile_object(ir, target, level_of(kernel))
        seconds = {
            "schedule": done - parsed,
            "validation": proved - done,
            "emit": emitted - proved,
            "llvm": time.perf_counter() - emitted,
        }
        shown = ir if self.keep_texts else None
        texts = None if seen is None else seen.texts(scheduled, ir, target, level_of(kernel))
        return KernelCode(code, text, scheduled.used, scheduled.refused, shown, seconds, texts)

    def _text_of(self, kernel: KernelOp) -> str:
        """What others read of a scheduled kernel."""
        return str(kernel if self.keep_texts else kernel_summary(kernel))

    @property
    def cost(self) -> int:
        """The length of the text: of more operations comes more code."""
        return len(self.text)

    @property
    def keys(self) -> tuple[str, ...]:
        """Hashes of all that decides what the code is, the compiler aside: for any number of cores,
        and for that of the target.
        """
        if self.brief:
            return ()
        texts = (f"{target}\n{self.options!r}\n{self.text}" for target in _said_of(self.target))
        general, own = (hashlib.sha256(text.encode()).hexdigest() for text in texts)
        return general, f"{own}-cores"

    def key_of(self, code: KernelCode) -> str:
        """The one of the keys that code of its is found by."""
        general, own = self.keys
        return own if READS_CORES.intersection(code.used) else general


@cache
def _said_of(target: Target) -> tuple[str, str]:
    """All of a target as text: with one core, and as it is."""
    return repr(replace(target, cores=1)), repr(target)


class KernelStore(Protocol):
    """What was compiled before, by key."""

    def find_kernel(self, key: str) -> bytes | None:
        """What was kept under the key, if it is whole."""
        ...

    def keep_kernel(self, key: str, data: bytes) -> None:
        """Keeps bytes under a key, where that is possible."""
        ...


def options_of_kernel(options: CodeOptions, name: str) -> CodeOptions:
    """Those options that the code of one kernel depends on."""
    own = {kernel: steps for kernel, steps in options.schedules.items() if kernel == name}
    return replace(
        options,
        schedules=own,
        timed=False,
        max_iterations=None,
        check_indices=False,
        max_weights_bytes="",
        mesh="",
        shard=(),
        stage=(),
    )


def choose_schedule(
    kernel: KernelOp,
    target: Target,
    options: CodeOptions,
    *,
    recorded: bool = True,
    naive: Callable[[], KernelOp] | None = None,
) -> Scheduled:
    """Schedules a kernel as it is told to, else as weft thinks best; `recorded` asks for steps, and
    `naive` makes the kernel anew.
    """
    name = kernel.sym_name.data
    if name in options.schedules:
        from weft.compiler.loop.schedule_file import apply_schedule  # few kernels need all passes

        forced = KernelSchedule(name, options.schedules[name])
        if recorded:
            record(kernel, ())
        apply_schedule(kernel, forced, target)
        stop_recording(kernel)
        return Scheduled([kernel_texts.FORCED], [], forced.steps)
    if options.naive:
        return Scheduled(["naive"], [], ())
    return schedule_kernel(kernel, target, recorded=recorded, naive=naive)


def level_of(function: KernelOp | ProgramOp) -> Level:
    """How much LLVM does for the code of a kernel or a program."""
    if BRIEF in function.attributes:
        return BRIEF_LEVEL
    return CODEGEN_LEVEL if isinstance(function, KernelOp) else PROGRAM_LEVEL


def parse_kernel(text: str) -> KernelOp:
    """The kernel of a text that holds one, in no module."""
    (kernel,) = parse_module(text, "<kernel>").ops
    assert isinstance(kernel, KernelOp), "a task is the text of one kernel"
    kernel.detach()
    return kernel


class KernelCompiler:
    """Compiles kernels in this process and in its workers, those aside that a store has."""

    def __init__(self, workers: Sequence[Worker], store: KernelStore | None = None):
        self.workers = tuple(workers)
        self.store = store

    def compile(
        self,
        tasks: Sequence[Task],
        on_done: Callable[[int], None],
        here: Sequence[Callable[[], KernelCode]] = (),
    ) -> list[KernelCode]:
        """The code of each task, in their order; `on_done` is told how many are done. `here` are
        quicker ways to what tasks compile to, for this process. The store has the code of each as
        soon as it is done, and is asked again before one is compiled: another process may be at
        the same.

        Raises what compiling a kernel raises.
        """
        here = here or [task.compile for task in tasks]
        store = None if any(task.keep_texts for task in tasks) else self.store
        run = _Run(tasks, store)
        on_done(len(run.done))
        with run.fed(self.workers):
            for position in run.left:
                on_done(len(run.done))
                run.do(position, here[position])
                if run.errors:
                    break
        return run.results()


def _found(keys: Sequence[str], store: KernelStore) -> KernelCode | None:
    """What the store has by one of the keys of a task."""
    data = next((data for key in keys if (data := store.find_kernel(key)) is not None), None)
    return None if data is None else KernelCode.of_bytes(data)


@contextmanager
def infrequent_collections() -> Generator[None]:
    """Lets the interpreter look for cycles rarely: doing so as often as usual takes half of the
    time of a compilation. What is kept of expressions is let go.
    """
    _end_quickly()
    try:
        with fewer_collections():
            yield
    finally:
        forget_expressions()


@cache
def _end_quickly() -> None:
    """Spares the end of this process the search for cycles among all that compiling has left, which
    takes a tenth of a compilation's time: the system takes the memory back anyway.
    """
    atexit.register(gc.freeze)


@contextmanager
def kernel_compiler(
    kernels: int,
    cores: int | None = None,
    store: KernelStore | None = None,
) -> Generator[KernelCompiler]:
    """A compiler for about so many kernels, whose workers start now and are given up with the
    block: with this process one for each core, of those that the process may use by default.
    """
    most = kernels // KERNELS_PER_WORKER
    others = (cores or usable_cores()) - 1 if most else 0
    count = min(others, most)
    started: list[Worker] = []
    if count and can_fork():
        started += [ForkedWorker() for _ in range(count)]
    elif count and can_start():
        started += take_workers(count, min(others, kernels // KERNELS_PER_NEW))
    try:
        yield KernelCompiler(started, store)
    except BaseException:
        for worker in started:
            close(worker)
        raise
    for worker in started:
        release(worker)


class _Run:
    """Tasks that this process and its workers take from one list."""

    def __init__(self, tasks: Sequence[Task], store: KernelStore | None):
        self._tasks, self._store = tasks, store
        self._keys = [() if store is None else task.keys for task in tasks]
        found = [None if store is None else _found(keys, store) for keys in self._keys]
        done = {position: code for position, code in enumerate(found) if code is not None}
        left = [position for position in range(len(tasks)) if position not in done]
        # The longest first, so that all are done at about the same time; taking one is atomic.
        self.left = iter(sorted(left, key=lambda position: -tasks[position].cost))
        self.done = done
        self.errors: list[BaseException] = []

    def do(self, position: int, compiled: Callable[[], KernelCode]) -> None:
        """Does a task, unless another process has by now, and keeps what it is compiled to."""
        task, store = self._tasks[position], self._store
        code = None if store is None else _found(self._keys[position], store)
        if code is None:
            code = compiled()
            if store is not None and self._keys[position]:
                store.keep_kernel(task.key_of(code), code.to_bytes())
        self.done[position] = code

    @contextmanager
    def fed(self, workers: Sequence[Worker]) -> Generator[None]:
        """Lets workers take tasks beside the block, and waits for them at its end. An error of the
        block ends them as one of theirs does.
        """
        feeders = [
            threading.Thread(target=self._feed, args=(worker,), daemon=True) for worker in workers
        ]
        for feeder in feeders:
            feeder.start()
        with self._noting_errors():
            yield
        for feeder in feeders:
            feeder.join()

    def _feed(self, worker: Worker) -> None:
        """Lets a worker compile."""
        with self._noting_errors():
            for position in self.left:
                self.do(position, partial(ask, worker, self._tasks[position]))
                if self.errors:
                    return

    @contextmanager
    def _noting_errors(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.errors.append(error)

    def results(self) -> list[KernelCode]:
        """The code of all tasks; raises what the first that failed has raised."""
        if self.errors:
            raise self.errors[0]
        return [self.done[position] for position in range(len(self._tasks))]
