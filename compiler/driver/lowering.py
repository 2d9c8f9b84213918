"""An optimised graph -> a planned program and its kernels: the stages of LOWERING, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from xdsl.dialects.builtin import ModuleOp

from weft.compiler.driver.layout_choices import AssignLayoutsPass, DropCopiesPass, place_buffers
from weft.compiler.driver.session import Session
from weft.compiler.graph_to_loop.lower_graph import lower_module
from weft.compiler.graph_to_loop.naive_kernels import canonicalize_kernel
from weft.compiler.program.call_time import call_time
from weft.compiler.program.describe import note_flops, repeats
from weft.compiler.program.layouts.assign_layouts import DropUnusedWeightsPass
from weft.compiler.program.layouts.share_layouts import LayoutSharing, likely, lookup_kernels
from weft.compiler.program.memory.donate import DonatePass
from weft.compiler.program.memory.double_buffer import DoubleBufferPass
from weft.compiler.program.memory.hoist_workspace import HoistWorkspacePass
from weft.compiler.program.memory.plan_memory import PlanMemoryPass, kernels_of
from weft.compiler.program.memory.update_in_place import WriteStatesPass
from weft.compiler.program.parallelize_calls import overlap
from weft.compiler.program.poll_loops import PollLoopsPass
from weft.compiler.program.require_extents import RequireExtentsPass
from weft.compiler.program.time_calls import time_calls
from weft.compiler.validation.plan import Meaning, note_meaning
from weft.dialects.context import WeftContext
from weft.dialects.errors import OptionError
from weft.dialects.loop.program import KernelOp, ProgramOp
from weft.dialects.weights import WeightStore


class KernelMaker(Protocol):
    """What schedules kernels: some makers compile them, too."""

    def make(self, module: ModuleOp, session: Session) -> None:
        """Schedules those kernels of a module that this maker has not scheduled yet."""
        ...


@dataclass
class Lowering:
    """A module on its way through the stages, and what earlier stages leave for later ones: what
    the program has to mean, and copies of the naive kernels that look up rows of weights.
    """

    module: ModuleOp
    weights: WeightStore
    session: Session
    maker: KernelMaker
    meaning: Meaning | None = None
    lookups: Mapping[str, KernelOp] = field(default_factory=dict[str, KernelOp])

    def run(self, stages: Sequence[Stage]) -> None:
        """Runs stages one after the other; their times go into the report."""
        for stage in stages:
            stage.run(self)

    @property
    def programs(self) -> list[ProgramOp]:
        return [op for op in self.module.ops if isinstance(op, ProgramOp)]


@dataclass(frozen=True)
class Stage:
    """A step of the lowering, the name under which its time is reported (none where what it does is
    reported by others), and the name of the file for the IR behind it, if it has one.
    """

    step: Callable[[Lowering], None]
    reported: str = ""
    dump: str = ""

    def run(self, lowering: Lowering) -> None:
        """Does the step."""
        session = lowering.session
        if self.reported:
            with session.report.stage(self.reported):
                self.step(lowering)
        else:
            self.step(lowering)
        if self.dump:
            session.dump(self.dump, lowering.module)


def lower_graph(lowering: Lowering) -> None:
    """Each group of operators becomes a naive kernel, the graph a program that calls them."""
    options = lowering.session.options
    limit = options.max_iterations
    lower_module(lowering.module, strict=options.strict_fp, max_iterations=limit)
    RequireExtentsPass().apply(WeftContext(), lowering.module)


def note_program(lowering: Lowering) -> None:
    """Notes what the program means."""
    (program,) = lowering.programs
    lowering.meaning = note_meaning(program, kernels_of(lowering.module))


def choose_layouts(lowering: Lowering) -> None:
    """Gives buffers between kernels the layouts and borders in which kernels do best."""
    if not lowering.session.options.naive:
        DropCopiesPass().apply(WeftContext(), lowering.module)
        place_buffers(lowering.module, lowering.session.options.target)


def note_kernels(lowering: Lowering) -> None:
    """Notes what schedules hide: what kernels compute, and which look up rows of weights. Refuses
    forced schedules of kernels that the model does not have.
    """
    lowering.lookups = lookup_kernels(lowering.module)
    note_flops(lowering.module)
    lowering.session.report.repeats = repeats(lowering.module)
    names = list(kernels_of(lowering.module))
    unknown = [
        f"@{each.kernel}" for each in lowering.session.options.schedules if each.kernel not in names
    ]
    if unknown:
        known = ", ".join(f"@{name}" for name in names)
        got = ", ".join(unknown)
        raise OptionError(f"schedules require kernels of the model ({known}), got {got}")


def make_kernels(lowering: Lowering) -> None:
    """Schedules, and perhaps compiles, the kernels that are not scheduled yet."""
    lowering.maker.make(lowering.module, lowering.session)


def share_layouts(lowering: Lowering) -> None:
    """Lets kernels look up rows of weights in the layout that other kernels want."""
    if not lowering.session.options.naive:
        module, target = lowering.module, lowering.session.options.target
        time = call_time(kernels_of(module), target, likely)
        LayoutSharing(lowering.lookups, lowering.weights, time, canonicalize_kernel).run(module)
        note_flops(module)


def rewrite_buffers(lowering: Lowering) -> None:
    """Converts between layouts, and lets buffers take the place of others."""
    for program_pass in BUFFER_PASSES:
        program_pass().apply(WeftContext(), lowering.module)


def overlap_calls(lowering: Lowering) -> None:
    """Lets calls that do not depend on each other run at the same time; timed calls run alone."""
    options, kernels = lowering.session.options, kernels_of(lowering.module)
    if not options.naive and not options.timed:
        for program in lowering.programs:
            lowering.session.report.concurrent = overlap(program, kernels, options.target)


def plan_memory(lowering: Lowering) -> None:
    """Gives buffers their offsets."""
    PlanMemoryPass(lowering.session.options.guarded).apply(WeftContext(), lowering.module)


def poll_loops(lowering: Lowering) -> None:
    """Lets long loops ask whether the call has been cancelled."""
    PollLoopsPass().apply(WeftContext(), lowering.module)


def prove_plan(lowering: Lowering) -> None:
    """Proves that the planned program means what it did. Raises PlanError."""
    assert lowering.meaning is not None, "what a program means is noted when it is lowered"
    for program in lowering.programs:
        lowering.meaning.prove(program, kernels_of(lowering.module))


def add_clocks(lowering: Lowering) -> None:
    """Makes the ticks of each call an output, where that was asked for."""
    if lowering.session.options.timed:
        time_calls(lowering.module)


BUFFER_PASSES: Final = (
    HoistWorkspacePass,  # temporaries of kernels are buffers of the program from here on
    AssignLayoutsPass,  # layouts of scheduled kernels' arguments, which schedules decide
    DropUnusedWeightsPass,  # those whose packed forms have taken their places
    WriteStatesPass,  # behind layouts: a state and its successor have one type
    DoubleBufferPass,  # what cannot be written in place, for which the pass before has to be done
    DonatePass,  # outputs are stored in inputs where all calls that read these are known
)

PLANNING: Final = (
    Stage(rewrite_buffers, "program"),
    Stage(overlap_calls, "program"),  # before the plan: what runs at once shares no bytes
    Stage(plan_memory, "program"),
    Stage(poll_loops, "program"),  # last: polls depend on the work of all that is in a loop
    Stage(prove_plan, "validation", "30-loop-scheduled.mlir"),
)

UNSCHEDULED: Final = (
    Stage(lower_graph, "graph-to-loop"),
    Stage(note_program, "validation", "20-loop-naive.mlir"),  # before any pass moves a buffer
    Stage(choose_layouts, "layouts", "21-loop-layouts.mlir"),  # while subscripts are logical
    Stage(note_kernels),  # before schedules hide it
)

LOWERING: Final = (
    *UNSCHEDULED,
    Stage(make_kernels),
    Stage(share_layouts),  # the layouts of packed weights are known once kernels are scheduled
    Stage(make_kernels),  # those that look up rows of packed weights
    *PLANNING,
    Stage(add_clocks),
    Stage(make_kernels),  # those that copy between layouts
)
"""From the optimised graph to a planned program and scheduled kernels."""
