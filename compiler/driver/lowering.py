"""The passes that a module goes through, in order: those over the graph, then LOWERING, from the
optimised graph to a planned program and its scheduled kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.driver.kernel_makers import KernelMaker, SchedulePass
from weft.compiler.driver.layout_choices import (
    AssignLayoutsPass,
    ChooseLayoutsPass,
    DropCopiesPass,
    NameVariantsPass,
    PlaceHalosPass,
    SplitVersionsPass,
)
from weft.compiler.driver.run_passes import note_options, running
from weft.compiler.driver.session import Session
from weft.compiler.graph.check_indices import CheckIndicesPass
from weft.compiler.graph.partition.partition import PartitionPass
from weft.compiler.graph.passes import (
    GROUPING_PASSES,
    INEXACT_PASSES,
    NAIVE_GRAPH_PASSES,
    PARTITIONING_PASSES,
    SIMPLIFYING_PASSES,
)
from weft.compiler.graph.simplify.cse_dce import CseDcePass
from weft.compiler.graph.simplify.rewrite import RewritePass, with_rewrites
from weft.compiler.graph.simplify.rewrites.expressions import Rewrite
from weft.compiler.graph_to_loop.lower_graph import GraphToLoopPass
from weft.compiler.loop.tuned_file import warn_of_others
from weft.compiler.program.describe import NoteKernelsPass
from weft.compiler.program.kernel_summary import SummarizeKernelsPass
from weft.compiler.program.layouts.assign_layouts import DropUnusedWeightsPass
from weft.compiler.program.layouts.keep_factors import KeepFactorsPass
from weft.compiler.program.layouts.share_layouts import FindTransposedPass, ShareLayoutsPass
from weft.compiler.program.memory.donate import DonatePass
from weft.compiler.program.memory.double_buffer import DoubleBufferPass
from weft.compiler.program.memory.hoist_workspace import HoistWorkspacePass
from weft.compiler.program.memory.plan_memory import PlanMemoryPass
from weft.compiler.program.memory.update_in_place import WriteStatesPass
from weft.compiler.program.overlap_collectives import OverlapCollectivesPass
from weft.compiler.program.parallelize_calls import ParallelizeCallsPass
from weft.compiler.program.poll_loops import PollLoopsPass
from weft.compiler.program.require_extents import RequireExtentsPass
from weft.compiler.program.time_calls import TimeCallsPass
from weft.compiler.validation.plan import (
    Meaning,
    NoteMeaningPass,
    ValidatePlanPass,
    ValidationContext,
)
from weft.dialects.errors import OptionError
from weft.dialects.module_attributes import CodeOptions, code_options
from weft.dialects.weights import WeightStore

Passes = tuple[type[ModulePass], ...]

LAYOUT_PASSES: Final[Passes] = (
    DropCopiesPass,  # a copy of an operand is a buffer that would have a layout of its own
    ChooseLayoutsPass,  # while kernels are naive: their subscripts are logical
    KeepFactorsPass,  # behind the search, in which weights cost no conversion
    PlaceHalosPass,  # around buffers in the layouts that they have now
    NameVariantsPass,  # kernels that became equal are one from here on
)

PROGRAM_PASSES: Final[Passes] = (
    NoteMeaningPass,  # before any pass moves a buffer: what the plan is proved against
    *LAYOUT_PASSES,
    NoteKernelsPass,  # before schedules hide what kernels compute
    FindTransposedPass,  # before kernels are scheduled: those that look up wait for a layout
    SchedulePass,
    SummarizeKernelsPass,  # what passes over programs ask of kernels is on their declarations
    ShareLayoutsPass,  # the layouts of packed weights are known once kernels are scheduled
    NameVariantsPass,
    SchedulePass,  # the kernels that look up rows of packed weights
    SummarizeKernelsPass,
    HoistWorkspacePass,  # temporaries of kernels are buffers of the program from here on
    AssignLayoutsPass,  # layouts of scheduled kernels' arguments, which schedules decide
    DropUnusedWeightsPass,  # those whose packed forms have taken their places
    WriteStatesPass,  # behind layouts: a state and its successor have one type
    DoubleBufferPass,  # what cannot be written in place, for which the pass before has to be done
    DonatePass,  # outputs are stored in inputs where all calls that read these are known
    ParallelizeCallsPass,  # before the plan: what runs at once shares no bytes
    PlanMemoryPass,
    PollLoopsPass,  # polls depend on the work of all that is in a loop
    ValidatePlanPass,
    TimeCallsPass,  # behind the proof: clocks are no part of what the program means
    SchedulePass,  # the kernels that copy between layouts, and clocks
    SummarizeKernelsPass,
)
"""From a lowered program to a planned one and scheduled kernels."""

LOWERING: Final[Passes] = (
    GraphToLoopPass,  # each group of operators is a naive kernel, the graph a program of calls
    OverlapCollectivesPass,  # before what a program means is noted, in which this order is
    RequireExtentsPass,  # naive kernels show the sizes of tensors inside of them
    SplitVersionsPass,  # before what a program means is noted, in which the branches are
    *PROGRAM_PASSES,
)
"""From the optimised graph to a planned program and scheduled kernels."""

UNSCHEDULED: Final = LOWERING[: LOWERING.index(SchedulePass)]


def graph_passes(
    options: CodeOptions, own: Passes = (), rewrites: Sequence[Rewrite] = ()
) -> Passes:
    """The passes that an imported graph goes through by its options, with rewrites that a caller
    adds, and passes in front of what groups operators. Indices are checked behind the last pass
    that merges equal operators or moves them.
    """
    checks: Passes = (CheckIndicesPass,) if options.check_indices else ()
    if options.naive:
        return _for_mesh((*NAIVE_GRAPH_PASSES, *checks, *own), options)
    again: Passes = (CseDcePass,) if own else ()
    passes = (*SIMPLIFYING_PASSES, *own, *again, *checks, *GROUPING_PASSES)
    left_out: Passes = INEXACT_PASSES if options.strict_fp else ()
    kept = (each for each in _for_mesh(passes, options) if each not in left_out)
    return tuple(with_rewrites(rewrites) if each is RewritePass else each for each in kept)


def _for_mesh(passes: Passes, options: CodeOptions) -> Passes:
    """The passes with all of those that partition, where there is a mesh."""
    at = passes.index(PartitionPass)
    kept = PARTITIONING_PASSES if options.mesh else (PartitionPass,)
    return (*passes[:at], *kept, *passes[at + 1 :])


def program_passes(options: CodeOptions, passes: Passes = LOWERING) -> Passes:
    """Those of the passes behind the graph that a module goes through by its options."""
    left_out: set[type[ModulePass]] = set() if options.timed else {TimeCallsPass}
    if options.naive:
        left_out |= {SplitVersionsPass, *LAYOUT_PASSES, FindTransposedPass, ShareLayoutsPass}
    if options.naive or options.timed:
        left_out.add(ParallelizeCallsPass)  # calls that are timed run alone
    return tuple(each for each in passes if each not in left_out)


def passes_between(module: ModuleOp, after: str | None, until: str | None) -> Passes:
    """The part of the passes that a module goes through by its options behind a pass, and up to
    another with it: `NAME` or `NAME,N` for the Nth of this name; from the first, or to the last,
    where that is None. Raises OptionError for a pass that is not among them.
    """
    options = code_options(module)
    passes = (*graph_passes(options), *program_passes(options))
    start = 0 if after is None else 1 + _position(passes, after)
    end = len(passes) if until is None else 1 + _position(passes, until)
    return passes[start:end]


def _position(passes: Passes, wanted: str) -> int:
    name, _, number = wanted.partition(",")
    found = [position for position, each in enumerate(passes) if each.name == name]
    if not (number or "1").isdecimal() or not 1 <= int(number or 1) <= len(found):
        choices = ", ".join(dict.fromkeys(each.name for each in passes))
        rule = f"requires one of {choices}, with a comma and a number where there are more"
        raise OptionError(f"a pass to start or stop after {rule}, got {wanted}")
    return found[int(number or 1) - 1]


def lower(
    module: ModuleOp,
    weights: WeightStore,
    maker: KernelMaker,
    session: Session,
    passes: Passes = LOWERING,
) -> Mapping[str, Meaning]:
    """Runs the passes behind the graph on a module, whose kernels `maker` schedules and which read
    no values of weights; returns what its programs meant when they were lowered. Raises
    PlanError for a program that no longer means what it did, OptionError for forced schedules of
    kernels that the model does not have.
    """
    note_options(module, session.options)
    context = ValidationContext(weights)
    for each in program_passes(code_options(module), passes):
        with weights.closed(), running(session, each.name, module, context.notes):
            if each is SchedulePass:
                maker.make(module)
            else:
                each().apply(context, module)
    session.verifier = None  # which lets go of what was verified
    session.report.end_passes()
    if SchedulePass in passes:
        _require_kernels_of(session)
    return context.meanings


def _require_kernels_of(session: Session) -> None:
    """Refuses forced schedules of kernels that the model does not have, and warns of tuned ones."""
    choices = session.report.schedules
    warn_of_others(session.options.tuned, choices)
    unknown = [each.kernel for each in session.options.schedule if each.kernel not in choices]
    if unknown:
        names, got = (", ".join(f"@{name}" for name in each) for each in (choices, unknown))
        raise OptionError(f"schedules require kernels of the model ({names}), got {got}")
