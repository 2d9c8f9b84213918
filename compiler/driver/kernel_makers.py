"""What schedules the kernels of a module, and what compiles them too, in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.driver.compile_kernels import (
    KernelCompiler,
    KernelTask,
    choose_schedule,
    options_of_kernel,
    parse_kernel,
)
from weft.compiler.driver.compile_run_time import RunTimeTask, compiled_prefix
from weft.compiler.driver.session import Session
from weft.compiler.driver.workers import KernelCode
from weft.compiler.loop.primitives.recording import record
from weft.compiler.loop.schedules import SCHEDULES, schedule_kernel
from weft.compiler.machine.elf.rename_symbols import rename_symbols
from weft.compiler.program.kernel_summary import is_scheduled, kernel_summary
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.target.module_target import target_of
from weft.dialects.loop.program import AWAITS_LAYOUT, BRIEF, KernelOp
from weft.dialects.module_attributes import CodeOptions, code_options, set_code_options


class KernelMaker(Protocol):
    """What schedules kernels: some makers compile them, too."""

    def make(self, module: ModuleOp) -> None:
        """Schedules the kernels of a module that are ready and not scheduled yet."""
        ...


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Schedules the kernels of a module that have no summary yet, for its target and by its
    options; `record` keeps the steps as an attribute of each. In a compilation a KernelMaker does.
    """

    name = "weft-schedule"
    record: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target, options = target_of(op), code_options(op)
        for kernel in naive_kernels(op).values():
            scheduled = choose_schedule(kernel, target, options, recorded=self.record)
            if self.record:
                record(kernel, scheduled.steps)


def naive_kernels(module: ModuleOp) -> dict[str, KernelOp]:
    """The kernels of a module that can be scheduled, by name."""
    return {
        name: kernel
        for name, kernel in kernels_of(module).items()
        if AWAITS_LAYOUT not in kernel.attributes and not is_scheduled(kernel)
    }


class ScheduledKernels(Struct):
    """Schedules kernels in this process, whose bodies stay in the module."""

    session: Session

    def make(self, module: ModuleOp) -> None:
        """Schedules the naive kernels of a module."""
        session, kernels = self.session, naive_kernels(module)
        target, options = target_of(module), _options_of(module, kernels, session)
        for number, (name, kernel) in enumerate(kernels.items()):
            session.on_stage("schedule", number, len(kernels))
            with session.report.stage("schedule"):
                scheduled = choose_schedule(kernel, target, options)
                session.report.note(name, scheduled.used, scheduled.refused, scheduled.steps)


class CompiledKernels(Struct):
    """Compiles kernels, which are declarations in the module afterwards; `code` is their machine
    code by name. Of the run time what is not known is compiled beside the first of them.
    """

    compiler: KernelCompiler
    session: Session
    run_time: Sequence[RunTimeTask] = ()
    code: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])

    def make(self, module: ModuleOp) -> None:
        """Schedules and compiles those kernels of a module that have no code yet. Stages of the
        report add up what all processes took.
        """
        session = self.session
        kernels = {
            name: kernel
            for name, kernel in kernels_of(module).items()
            if AWAITS_LAYOUT not in kernel.attributes and name not in self.code
        }
        dumps, observed = session.dump_dir is not None, session.observer is not None
        overlapped = [] if dumps else [t for t in self.run_time if not t.is_known(session.store)]
        if not kernels and not overlapped:
            return
        target, options = target_of(module), _options_of(module, kernels, session)
        prefix = compiled_prefix(options.prefix, target)
        neutral = replace(options, prefix=prefix)
        tasks = [
            KernelTask(
                name, str(each), target, options_of_kernel(neutral, name), dumps, observed,
                brief=BRIEF in each.attributes,
            )
            for name, each in kernels.items()
        ]  # fmt: skip
        count = len(tasks) + len(overlapped)
        pairs = zip(tasks, kernels.values(), strict=True)
        here = [
            partial(task.compile_kernel, kernel, is_read=dumps or not task.brief)
            for task, kernel in pairs
        ]
        codes = self.compiler.compile(
            [*tasks, *overlapped],
            lambda done: session.on_stage("compile", done, count),
            [*here, *(task.compile for task in overlapped)],
        )
        for task, code in zip(overlapped, codes[len(tasks) :], strict=True):
            task.remember(code.code)
            session.report.add("run time", sum(code.seconds.values()))
        for (name, kernel), code in zip(kernels.items(), codes[: len(tasks)], strict=True):
            self.code[name] = rename_symbols(code.code, prefix, options.prefix)
            if not (dumps and is_scheduled(kernel)):  # else it was compiled here, and is shown
                declared = _declaration(kernel, code)
                module.body.block.insert_op_before(declared, kernel)
                kernel.detach()
                kernel.erase()
            session.report.note(name, code.used, code.refused)
            for stage, seconds in code.seconds.items():
                session.report.add(stage, seconds)
            if session.observer is not None and code.texts is not None:
                session.observer.look_at_kernel(name, code.texts)
            session.dump(f"{name}.ll", (code.ir or "").replace(prefix, options.prefix))


def _declaration(kernel: KernelOp, code: KernelCode) -> KernelOp:
    """What is left of a kernel that was compiled; one that has a summary was compiled here."""
    return kernel_summary(kernel) if is_scheduled(kernel) else parse_kernel(code.kernel)


def _options_of(module: ModuleOp, kernels: dict[str, KernelOp], session: Session) -> CodeOptions:
    """The options of a module, which get the steps of kernels that schedules of extensions take."""
    options = code_options(module)
    own = tuple(each for extension in session.extensions for each in extension.schedules)
    taken: dict[str, tuple[str, ...]] = {}
    for name, kernel in kernels.items() if own and not options.naive else ():
        if schedule_kernel(kernel.clone(), target_of(module), own).used:
            all_ = schedule_kernel(kernel.clone(), target_of(module), (*own, *SCHEDULES))
            taken[name] = all_.steps
    if taken:
        options = replace(options, schedules=taken | dict(options.schedules))
        set_code_options(module, options)
    return options
