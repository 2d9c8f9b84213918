"""The whole road: `compile_model()` reads from top to bottom,
and this is the one module that sees every stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from compiler.driver.assemble import CompiledLevel, assemble, signature_of
from compiler.driver.bucket_programs import (
    chooser_of,
    padding_modules,
    require_bucket_sizes,
    require_independent_rows,
)
from compiler.driver.compile_kernels import (
    KernelCompiler,
    KernelTask,
    choose_schedule,
    kernel_compiler,
    parse_kernel,
    rare_collections,
)
from compiler.driver.compile_run_time import RunTimeTask, likely_run_time
from compiler.driver.layout_choices import place_buffers
from compiler.driver.options import KernelSchedule, Options
from compiler.driver.read_model import begin, read_model
from compiler.driver.report import Report
from compiler.driver.session import Road
from compiler.frontend.from_graph_file import STAMP
from compiler.frontend.onnx.from_onnx import ImportedModel, Source
from compiler.graph.check_indices import CheckIndicesPass
from compiler.graph.fuse.fuse_products import JoinProductsPass
from compiler.graph.passes import GROUPING_PASSES, NAIVE_GRAPH_PASSES, SIMPLIFYING_PASSES
from compiler.graph.share_weights import share_weights
from compiler.graph.simplify.eliminate import EliminatePass
from compiler.graph.simplify.inline_calls import inline_calls, inlined_size
from compiler.graph.winograd import WinogradPass
from compiler.graph_to_loop.lower_graph import canonicalize_kernel, copy_kernel, lower_module
from compiler.loop.schedules import SCHEDULES, schedule_kernel
from compiler.loop_to_llvm.program.emit import program_weights
from compiler.machine.artifact.artifact import Compiled
from compiler.program.buckets import merge_programs
from compiler.program.call_time import call_time
from compiler.program.describe import kernel_flops, repeats
from compiler.program.layouts.assign_layouts import (
    AssignLayouts,
    drop_unused_weights,
)
from compiler.program.layouts.share_layouts import LayoutSharing, likely, lookup_kernels
from compiler.program.memory.donate import donate
from compiler.program.memory.double_buffer import alternate
from compiler.program.memory.hoist_workspace import hoist_workspace
from compiler.program.memory.plan_memory import kernels_of, plan_memory
from compiler.program.memory.update_in_place import drop_copies, write_states
from compiler.program.overlap import overlap
from compiler.program.poll_loops import poll_loops
from compiler.program.require_extents import require_extents
from compiler.program.time_calls import time_calls
from compiler.validation.plan import Meaning, note_meaning
from dialects.context import WeftContext, parse_module
from dialects.errors import OptionError
from dialects.graph import CallOp, ConstantOp, ControlOp, FusedOp, GraphOp, ReshapeOp
from dialects.loop.program import KernelOp, ProgramOp
from dialects.loop.types import BufferType
from dialects.weights import WeightStore


def compile_model(
    source: Source | ImportedModel,
    options: Options,
    road: Road | None = None,
    imported: ImportedModel | None = None,
) -> Compiled:
    """Compiles a model (a path, bytes, ModelProto, or an imported one) to objects and weights; it
    may be `imported` already, by `begin`.

    Raises ModelError for a damaged model, and UnsupportedError listing everything that weft lacks.
    """
    road = road or Road(options)
    imported = imported or begin(source, road)
    if options.self_test is not None:
        from compiler.driver.golden import golden_run  # few models are to test themselves

        road.golden = golden_run(imported.module, imported.weights, options, road.report)
    if options.buckets:
        return _compile_buckets(source, imported, options, road)
    return compile_module(imported.module, imported.weights, options, road)


def _compile_buckets(
    source: Source | ImportedModel, imported: ImportedModel, options: Options, road: Road
) -> Compiled:
    """One artifact of a program for each bucket, each from the model with these sizes, and of one
    for all others if asked for; they share weights and the kernels that are the same.
    """
    require_bucket_sizes(imported.module, options)
    if options.bucket_fit == "pad":
        require_independent_rows(_simplified(imported), options)
    table, store = options.bucket_sizes(), imported.weights
    chooser = chooser_of(imported.module, options)
    graphs: list[ModuleOp] = []
    for sizes in table:
        own = read_model(source, options, road.extensions, sizes, road.budget)
        optimize_graph(own.module, WeftContext(own.weights), road)
        share_weights(own.module, own.weights, store)
        graphs.append(own.module)
    if options.bucket_else == "dynamic":
        optimize_graph(imported.module, WeftContext(store), road)
        graphs.append(imported.module)
    expected = sum(map(_expected_kernels, graphs)) * len(options.levels())
    levels: list[CompiledLevel] = []
    with rare_collections(), _kernel_compiler(expected, road) as compiler:
        for level in options.levels():
            own = road.level(level)
            parts = [_compile_level(graph.clone(), store, compiler, own) for graph in graphs]
            parts[len(table) : len(table)] = _padding_levels(chooser, parts, compiler, own)
            module = merge_programs(chooser.clone(), [part.module for part in parts])
            code = {name: data for part in parts for name, data in part.code.items()}
            levels.append(CompiledLevel(level, module, code, own.report))
    return assemble(levels, store, options, road.report, road.golden)


def _simplified(imported: ImportedModel) -> ModuleOp:
    """A copy of the model's graph in which no operators are grouped yet."""
    module = imported.module.clone()
    for simplify in SIMPLIFYING_PASSES:
        simplify().apply(WeftContext(imported.weights), module)
    return module


def _kernel_compiler(expected: int, road: Road) -> AbstractContextManager[KernelCompiler]:
    return kernel_compiler(expected, store=road.store, early=road.worker)


def _padding_levels(
    chooser: ProgramOp, parts: Sequence[CompiledLevel], compiler: KernelCompiler, road: Road
) -> list[CompiledLevel]:
    """The programs that pad to buckets, if that was asked for; `parts` starts with the buckets'."""
    if road.options.bucket_fit != "pad":
        return []
    levels: list[CompiledLevel] = []
    for module in padding_modules(chooser, [part.program for part in parts], road.options):
        meaning = _meaning(module)
        code = compile_kernels(module, compiler, road)
        plan_program(module, meaning, road)
        levels.append(CompiledLevel(road.options, module, code, road.report))
    return levels


def compile_module(
    module: ModuleOp, weights: WeightStore, options: Options, road: Road | None = None
) -> Compiled:
    """Compiles a module with one graph function, in place."""
    road = road or Road(options)
    optimize_graph(module, WeftContext(weights), road)
    levels = options.levels()
    expected = _expected_kernels(module) * len(levels)
    made: dict[RunTimeTask, bytes] = {}
    with rare_collections(), _kernel_compiler(expected, road) as compiler:
        copies = [module, *(module.clone() for _ in levels[1:])]
        compiled = [
            _compile_level(copy, weights, compiler, road.level(own), made)
            for copy, own in zip(copies, levels, strict=True)
        ]
        return assemble(compiled, weights, options, road.report, road.golden, made)


def _compile_level(
    module: ModuleOp,
    weights: WeightStore,
    compiler: KernelCompiler,
    road: Road,
    made: dict[RunTimeTask, bytes] | None = None,
) -> CompiledLevel:
    """From the optimised graph to a planned program and the code of its kernels, for one target.
    The run time that it is likely to need gets into what is `made` meanwhile.
    """
    meaning = lower_graph(module, road)
    lookups = lookup_kernels(module)
    code = compile_kernels(module, compiler, _with_schedules(module, road), made=made)
    _share_layouts(module, lookups, weights, road)
    code |= compile_kernels(module, compiler, road, but=code)  # what looks up in another layout
    code = {name: code[name] for name in kernels_of(module)}
    plan_program(module, meaning, road)
    if road.options.timed:
        time_calls(module)
    code |= compile_kernels(module, compiler, road, but=code)  # copies between layouts
    return CompiledLevel(road.options, module, code, road.report)


def _with_schedules(module: ModuleOp, road: Road) -> Road:
    """The road on which kernels that schedules of extensions take are scheduled by their steps."""
    options = road.options
    own = tuple(each for extension in road.extensions for each in extension.schedules)
    taken: list[KernelSchedule] = []
    for name, kernel in kernels_of(module).items() if own and not options.naive else ():
        used = schedule_kernel(kernel.clone(), options.target, own).used
        if any(not each.startswith("no ") for each in used):
            all_ = schedule_kernel(kernel.clone(), options.target, (*own, *SCHEDULES))
            taken.append(KernelSchedule(name, all_.steps))
    schedules = (*options.schedules, *taken)
    return replace(road, options=replace(options, schedules=schedules)) if taken else road


def compile_loops(text: str, options: Options) -> Compiled:
    """Compiles a program without weights and its kernels, given as text and scheduled already."""
    module = parse_module(text, "<loops>")
    module.verify()
    road = Road(replace(options, naive=True))
    meaning = _meaning(module)
    code = compile_kernels(module, KernelCompiler(()), road)
    plan_program(module, meaning, road)
    level = CompiledLevel(road.options, module, code, road.report)
    return assemble([level], WeightStore(), road.options, road.report)


def plan_model(source: Source, road: Road) -> Report:
    """Goes the road up to scheduled kernels, and says what was done; compiles nothing.

    Raises as compile_model does.
    """
    with road.report.stage("import"):
        imported = read_model(source, road.options, budget=road.budget)
    optimize_graph(imported.module, WeftContext(imported.weights), road)
    to_loops(imported.module, imported.weights, road)
    return road.report


def graph_passes(source: Source, road: Road) -> Report:
    """Goes the road up to the optimised graph, and says what each pass did.

    Raises as compile_model does.
    """
    with road.report.stage("import"):
        imported = read_model(source, road.options, budget=road.budget)
    optimize_graph(imported.module, WeftContext(imported.weights), road)
    return road.report


def naive_kernels(source: Source, options: Options) -> dict[str, str]:
    """The text of each kernel before it is scheduled, by name. Raises as compile_model does."""
    imported = read_model(source, options)
    road = Road(options)
    optimize_graph(imported.module, WeftContext(imported.weights), road)
    lower_graph(imported.module, road)
    return {name: str(kernel) for name, kernel in kernels_of(imported.module).items()}


def _expected_kernels(module: ModuleOp) -> int:
    """About how many kernels the graph will become: workers start before that is known."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    ops = (op for function in functions for op in function.body.block.ops)
    return sum(bool(op.results) and not isinstance(op, (ConstantOp, ReshapeOp)) for op in ops)


def optimize_graph(module: ModuleOp, context: WeftContext, road: Road) -> None:
    """Runs the graph passes; a graph that was saved behind them is done. Raises BudgetError for one
    of too many operators.
    """
    road.dump("00-imported.mlir", module)
    road.budget.require_nodes(inlined_size(module))
    if STAMP in module.attributes:
        for what in ("gradients", "check_indices"):
            if getattr(road.options, what):
                rule = f"{what} require a graph that is not optimised yet"
                raise OptionError(f"{rule}, got one of a graph file")
        del module.attributes[STAMP]
        inline_calls(module)
        road.report.graph.update(op.name for op in module.walk() if isinstance(op, GraphOp))
        return
    if road.options.gradients:
        from compiler.graph.differentiate.differentiate import (
            DifferentiatePass,  # nor are many differentiated
        )

        with road.report.stage(DifferentiatePass.name):
            inline_calls(module)
            DifferentiatePass(inputs=road.options.gradients).apply(context, module)
    passes = _with_passes(road)
    for number, graph_pass in enumerate(passes, 1):
        road.on_stage("graph", number, len(passes))
        count, notes = partial(operators_of, module), context.notes
        with road.report.graph_pass(graph_pass.name, count, notes):
            graph_pass().apply(context, module)
        road.dump(f"{number:02}-{graph_pass.name}.mlir", module)
    road.report.graph.update(op.name for op in module.walk() if isinstance(op, GraphOp))


def _with_passes(road: Road) -> tuple[type[ModulePass], ...]:
    """The passes over the graph, and those of extensions in front of what groups operators. Indices
    are checked behind the last pass that merges equal operators or moves them.
    """
    own = tuple(each for extension in road.extensions for each in extension.passes)
    checks = (CheckIndicesPass,) if road.options.check_indices else ()
    if road.options.naive:
        return (*NAIVE_GRAPH_PASSES, *checks, *own)
    left_out: set[type[ModulePass]] = {WinogradPass} if road.options.strict_fp else set()
    if road.options.buckets:
        left_out.add(JoinProductsPass)  # some would have weights of their own
    passes = (
        *SIMPLIFYING_PASSES,
        *own,
        *((EliminatePass,) if own else ()),
        *checks,
        *GROUPING_PASSES,
    )
    return tuple(each for each in passes if each not in left_out)


def operators_of(module: ModuleOp) -> Counter[str]:
    """How many operators of each name a graph has, groups and control flow among them."""
    kinds = GraphOp | CallOp | FusedOp | ControlOp
    return Counter(op.name for op in module.walk() if isinstance(op, kinds))


def to_loops(module: ModuleOp, weights: WeightStore, road: Road) -> None:
    """Lowers the graph to kernels and their program,
    schedules the kernels and plans the program.
    """
    meaning = lower_graph(module, road)
    lookups = lookup_kernels(module)
    _schedule_kernels(module, road)
    _share_layouts(module, lookups, weights, road)
    _schedule_kernels(module, road)  # what looks up in another layout
    plan_program(module, meaning, road)
    _schedule_kernels(module, road)  # copies between layouts


def _schedule_kernels(module: ModuleOp, road: Road) -> None:
    """Schedules the kernels that are not scheduled yet, in this process."""
    done = road.report.schedules
    kernels = {name: each for name, each in kernels_of(module).items() if name not in done}
    for number, (name, kernel) in enumerate(kernels.items()):
        road.on_stage("schedule", number, len(kernels))
        with road.report.stage("schedule"):
            scheduled = choose_schedule(kernel, road.options)
            road.report.note(name, scheduled.used, scheduled.steps)


def lower_graph(module: ModuleOp, road: Road) -> Meaning:
    """Lowers the graph to naive kernels and their program; gives what that means."""
    options, report = road.options, road.report
    with report.stage("graph-to-loop"):
        limit = options.max_iterations
        lower_module(module, strict=options.strict_fp, max_iterations=limit)
        require_extents(module)
    with report.stage("validation"):
        meaning = _meaning(module)
    road.dump("20-loop-naive.mlir", module)
    if not options.naive:
        drop_copies(module, canonicalize_kernel)
        with report.stage("layouts"):
            place_buffers(module, options.target)
        road.dump("21-loop-layouts.mlir", module)
    kernels = kernels_of(module)
    report.flops |= {name: kernel_flops(kernel) for name, kernel in kernels.items()}
    report.repeats = repeats(module)
    _require_kernels(options, list(kernels))
    return meaning


def _meaning(module: ModuleOp) -> Meaning:
    """What the one program of a module does."""
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return note_meaning(program, kernels_of(module))


def _share_layouts(
    module: ModuleOp, lookups: Mapping[str, KernelOp], weights: WeightStore, road: Road
) -> None:
    """Lets kernels look up rows of weights in the layout that other kernels want."""
    if road.options.naive:
        return
    kernels, report = kernels_of(module), road.report
    time = call_time(kernels, report.flops, road.options.target, likely)
    LayoutSharing(lookups, weights, time, canonicalize_kernel).run(module)
    new = {name: each for name, each in kernels_of(module).items() if name not in kernels}
    report.flops |= {name: kernel_flops(kernel) for name, kernel in new.items()}


def plan_program(module: ModuleOp, meaning: Meaning, road: Road) -> None:
    """Gives the buffers of the program their layouts and places, for kernels that are scheduled,
    and proves that it means what it did.
    """
    with road.report.stage("program"):
        hoist_workspace(module)
        AssignLayouts(_conversion).run(module)
        drop_unused_weights(module)
        write_states(module)
        alternate(module)
        donate(module)
        kernels = kernels_of(module)
        for op in module.ops:
            if isinstance(op, ProgramOp):
                if not road.options.naive and not road.options.timed:  # timed calls run alone
                    flops, target = road.report.flops, road.options.target
                    road.report.concurrent = overlap(op, kernels, flops, target)
                plan_memory(op, kernels, road.options.guarded)
                poll_loops(op, kernels, road.report.flops)
    with road.report.stage("validation"):
        for op in module.ops:
            if isinstance(op, ProgramOp):
                meaning.prove(op, kernels_of(module))
    road.dump("30-loop-scheduled.mlir", module)


def _run_times(module: ModuleOp, options: Options) -> list[RunTimeTask]:
    """The run time of a module of one program, where it does not wait for what comes later."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        return []
    signature, has_weights = signature_of(programs[0]), bool(program_weights(programs[0]))
    task = likely_run_time(signature, options, has_weights=has_weights)
    return [] if task is None else [task]


def _require_kernels(options: Options, names: list[str]) -> None:
    """Refuses schedules of kernels that the model does not have."""
    unknown = [f"@{each.kernel}" for each in options.schedules if each.kernel not in names]
    if unknown:
        known = ", ".join(f"@{name}" for name in names)
        got = ", ".join(unknown)
        raise OptionError(f"schedules require kernels of the model ({known}), got {got}")


def _conversion(source: BufferType, target: BufferType) -> KernelOp:
    """The kernel that copies between two layouts while the program runs."""
    kernel = copy_kernel(source, target)
    canonicalize_kernel(kernel)
    return kernel


def compile_kernels(
    module: ModuleOp,
    compiler: KernelCompiler,
    road: Road,
    but: Container[str] = (),
    made: dict[RunTimeTask, bytes] | None = None,
) -> dict[str, bytes]:
    """Schedules and compiles the kernels whose names are not in `but`; gives the machine code by
    name. In the module they are declarations afterwards. Stages add up what all processes took.
    With `made` the run time is compiled beside them, which gets in there.
    """
    kernels = {name: each for name, each in kernels_of(module).items() if name not in but}
    dumps = road.dump_dir is not None
    tasks = [KernelTask(str(kernel), road.options, dumps) for kernel in kernels.values()]
    beside = _run_times(module, road.options) if made is not None and not dumps else []
    count = len(tasks) + len(beside)
    codes = compiler.compile([*tasks, *beside], lambda done: road.on_stage("compile", done, count))
    for task, code in zip(beside, codes[len(tasks) :], strict=True):
        assert made is not None, "only then there is something beside the kernels"
        made[task] = code.code
        road.report.add("run time", sum(code.seconds.values()))
    objects: dict[str, bytes] = {}
    for (name, kernel), code in zip(kernels.items(), codes[: len(tasks)], strict=True):
        objects[name] = code.code
        module.body.block.insert_op_before(parse_kernel(code.kernel), kernel)
        kernel.detach()
        kernel.erase()
        road.report.note(name, code.used)
        for stage, seconds in code.seconds.items():
            road.report.add(stage, seconds)
        road.dump(f"40-{name}.ll", code.ir)
    return objects
