"""What schedules the kernels of a lowering, and what compiles them too, in several processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from weft.compiler.driver.assemble import signature_of
from weft.compiler.driver.compile_kernels import (
    KernelCompiler,
    KernelTask,
    choose_schedule,
    parse_kernel,
)
from weft.compiler.driver.compile_run_time import RunTimeTask, likely_run_time
from weft.compiler.driver.options import KernelSchedule, Options
from weft.compiler.driver.session import Session
from weft.compiler.loop.schedules import SCHEDULES, schedule_kernel
from weft.compiler.loop_to_llvm.program.emit import program_weights
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.dialects.loop.program import KernelOp, ProgramOp


@dataclass
class ScheduledKernels:
    """Schedules kernels in this process, whose bodies stay in the module."""

    done: set[str] = field(default_factory=set[str])

    def make(self, module: ModuleOp, session: Session) -> None:
        """Schedules those kernels of a module that are not `done`."""
        kernels = {n: each for n, each in kernels_of(module).items() if n not in self.done}
        self.done |= set(kernels)
        for number, (name, kernel) in enumerate(kernels.items()):
            session.on_stage("schedule", number, len(kernels))
            with session.report.stage("schedule"):
                scheduled = choose_schedule(kernel, session.options)
                session.report.note(name, scheduled.used, scheduled.refused, scheduled.steps)


@dataclass
class CompiledKernels:
    """Compiles kernels, which are declarations in the module afterwards; `code` is their machine
    code by name. The run time is compiled beside the first of them where `made` takes it.
    """

    compiler: KernelCompiler
    made: dict[RunTimeTask, bytes] | None = None
    code: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def make(self, module: ModuleOp, session: Session) -> None:
        """Schedules and compiles those kernels of a module that have no code yet. Stages of the
        report add up what all processes took.
        """
        kernels = {n: each for n, each in kernels_of(module).items() if n not in self.code}
        dumps = session.dump_dir is not None
        options = session.options if self.code else _with_schedules(kernels, session)
        tasks = [KernelTask(name, str(each), options, dumps) for name, each in kernels.items()]
        beside = [] if self.code or self.made is None or dumps else _run_times(module, options)
        count = len(tasks) + len(beside)
        codes = self.compiler.compile(
            [*tasks, *beside], lambda done: session.on_stage("compile", done, count)
        )
        for task, code in zip(beside, codes[len(tasks) :], strict=True):
            assert self.made is not None, "only then there is something beside the kernels"
            self.made[task] = code.code
            session.report.add("run time", sum(code.seconds.values()))
        for (name, kernel), code in zip(kernels.items(), codes[: len(tasks)], strict=True):
            self.code[name] = code.code
            module.body.block.insert_op_before(parse_kernel(code.kernel), kernel)
            kernel.detach()
            kernel.erase()
            session.report.note(name, code.used, code.refused)
            for stage, seconds in code.seconds.items():
                session.report.add(stage, seconds)
            session.dump(f"40-{name}.ll", code.ir)


def _with_schedules(kernels: dict[str, KernelOp], session: Session) -> Options:
    """The options, with the steps of kernels that schedules of extensions take."""
    options = session.options
    own = tuple(each for extension in session.extensions for each in extension.schedules)
    taken: list[KernelSchedule] = []
    for name, kernel in kernels.items() if own and not options.naive else ():
        if schedule_kernel(kernel.clone(), options.target, own).used:
            all_ = schedule_kernel(kernel.clone(), options.target, (*own, *SCHEDULES))
            taken.append(KernelSchedule(name, all_.steps))
    return replace(options, schedules=(*options.schedules, *taken)) if taken else options


def _run_times(module: ModuleOp, options: Options) -> list[RunTimeTask]:
    """The run time of a module of one program, where it does not wait for what comes later."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        return []
    signature, has_weights = signature_of(programs[0]), bool(program_weights(programs[0]))
    task = likely_run_time(signature, options, has_weights=has_weights)
    return [] if task is None else [task]
