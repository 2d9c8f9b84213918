"""The whole road: `compile_model()` reads from top to bottom,
and this is the one module that sees every stage.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Container, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from compiler.compile_kernels import (
    KernelCompiler,
    KernelStore,
    KernelTask,
    choose_schedule,
    kernel_compiler,
    parse_kernel,
    rare_collections,
)
from compiler.frontend.from_onnx import Source, import_model
from compiler.graph.differentiate import DifferentiatePass
from compiler.graph.eliminate import EliminatePass
from compiler.graph.fold_batch_norm import FoldBatchNormPass
from compiler.graph.fold_constants import FoldConstantsPass
from compiler.graph.fuse import FusePass
from compiler.graph.fuse_attention import FuseAttentionPass
from compiler.graph_to_loop import GraphToLoopPass, canonicalize_kernel, copy_kernel, lower_module
from compiler.layout_choices import ChooseLayoutsPass, PlaceHalosPass, place_buffers
from compiler.loop.primitive_passes import PRIMITIVE_PASSES
from compiler.loop.schedules import Scheduled, SchedulePass
from compiler.loop_to_llvm.kernel import emit_kernel, kernel_symbol
from compiler.loop_to_llvm.program import emit_program, program_weights, workspace_bytes
from compiler.loop_to_llvm.run_time import emit_run_time
from compiler.loop_to_llvm.runtime import LIBC_NAMES, Counts, Level, exported_symbols
from compiler.loop_to_llvm.runtime.standalone import (
    emit_standalone,
    is_standalone,
    standalone_exports,
)
from compiler.machine.artifact import ABI_VERSION, VERSION, Compiled, weight_offsets
from compiler.machine.host import host_target
from compiler.machine.jit import load_objects
from compiler.machine.object import compile_object
from compiler.machine.signature import Signature, TensorSpec
from compiler.machine.weights import Weights, WeightSource, WeightTransforms
from compiler.options import Options
from compiler.program.assign_layouts import (
    AssignLayouts,
    DropUnusedWeightsPass,
    drop_unused_weights,
)
from compiler.program.describe import describe_kernels, describe_memory, kernel_flops, repeats
from compiler.program.hoist_workspace import HoistWorkspacePass, hoist_workspace
from compiler.program.plan_memory import PlanMemoryPass, kernels_of, plan_memory
from compiler.program.time_calls import TimeCallsPass, time_calls, timed_calls
from compiler.target.x86 import baseline, feature_groups
from dialects.context import WeftContext
from dialects.errors import OptionError
from dialects.expr import Expr
from dialects.graph import ConstantOp, GraphOp, ReshapeOp
from dialects.graph.dtypes import numpy_dtype
from dialects.loop.dynamic import output_sizes
from dialects.loop.program import KernelOp, ProgramOp, WeightOp
from dialects.loop.types import BufferType, buffer, buffer_type
from dialects.weights import WeightStore

GRAPH_PASSES: tuple[type[ModulePass], ...] = (
    FoldConstantsPass,  # sizes and constants first: everything later sees simpler operators
    FoldBatchNormPass,  # on constants, so after folding
    EliminatePass,  # folding leaves equal and unused operators behind
    FuseAttentionPass,  # before parts of an attention join other groups
    FusePass,  # last: it decides what becomes one kernel
)

NAIVE_GRAPH_PASSES: tuple[type[ModulePass], ...] = (FoldConstantsPass, EliminatePass)

ALL_PASSES: tuple[type[ModulePass], ...] = (
    *GRAPH_PASSES,
    DifferentiatePass,
    GraphToLoopPass,
    ChooseLayoutsPass,
    PlaceHalosPass,
    SchedulePass,
    HoistWorkspacePass,
    DropUnusedWeightsPass,
    PlanMemoryPass,
    TimeCallsPass,
    *PRIMITIVE_PASSES,
)
"""What `weft-opt` offers."""

OnStage = Callable[[str, int, int], None]
"""Is told a stage's name, how many of its steps are done, and how many there are."""


@dataclass
class Report:
    """What happened while compiling: seconds by stage, operators after each pass and, by name,
    in the optimised graph; flops of each kernel over its symbols, its schedules and their steps;
    and whether something runs as often as values say.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    operators: dict[str, int] = field(default_factory=dict[str, int])
    graph: Counter[str] = field(default_factory=Counter[str])
    flops: dict[str, Expr] = field(default_factory=dict[str, Expr])
    schedules: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    steps: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    repeats: bool = True

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Adds the time until the end of the block to a stage."""
        start = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - start)

    def note(self, kernel: str, scheduled: Scheduled) -> None:
        """Keeps what was done to a kernel."""
        self.schedules[kernel] = scheduled.used
        self.steps[kernel] = scheduled.steps

    def add(self, name: str, seconds: float) -> None:
        """Adds time to a stage."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


@dataclass
class Road:
    """One compilation on its way: options, whom to tell, where to write what each stage gives, and
    kernels that were compiled before.
    """

    options: Options
    on_stage: OnStage = lambda name, done, total: None
    dump_dir: Path | None = None
    store: KernelStore | None = None
    report: Report = field(default_factory=Report)

    def dump(self, name: str, text: object) -> None:
        """Writes the IR after a stage, where that was asked for."""
        if self.dump_dir is not None:
            self.dump_dir.mkdir(parents=True, exist_ok=True)
            (self.dump_dir / name).write_text(f"{text!s}\n")


def compile_model(source: Source, options: Options, road: Road | None = None) -> Compiled:
    """Compiles a model (a path, bytes or ModelProto) to objects and weights.

    Raises ModelError for a damaged model, and UnsupportedError listing everything that weft lacks.
    """
    road = road or Road(options)
    road.on_stage("import", 0, 1)
    with road.report.stage("import"):
        imported = import_model(source, outputs=options.outputs)
    return compile_module(imported.module, imported.weights, options, road)


def compile_module(
    module: ModuleOp, weights: WeightStore, options: Options, road: Road | None = None
) -> Compiled:
    """Compiles a module with one graph function, in place."""
    road = road or Road(options)
    optimize_graph(module, WeftContext(weights), road)
    expected = _expected_kernels(module)
    with rare_collections(), kernel_compiler(expected, store=road.store) as compiler:
        lower_graph(module, road)
        code = compile_kernels(module, compiler, road)
        plan_program(module, road)
        if options.timed:
            time_calls(module)
        code |= compile_kernels(module, compiler, road, but=code)  # copies between layouts
        return _to_machine(module, weights, code, road)


def compile_loops(text: str, options: Options) -> Compiled:
    """Compiles a program without weights and its kernels, given as text and scheduled already."""
    module = Parser(WeftContext(), text, "<loops>").parse_module()
    module.verify()
    road = Road(replace(options, naive=True))
    code = compile_kernels(module, KernelCompiler(()), road)
    plan_program(module, road)
    return _to_machine(module, WeightStore(), code, road)


def _to_machine(
    module: ModuleOp, weights: WeightStore, code: dict[str, bytes], road: Road
) -> Compiled:
    """The rest of the way, from a planned program and the code of its kernels."""
    options = road.options
    program = next(op for op in module.ops if isinstance(op, ProgramOp))
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    sources = _weight_sources(program, weights)
    with road.report.stage("weights"):
        arrays = {key: weights[key] for key in weights}
        prepared = Weights(sources, arrays, _transforms(program))
    signature = signature_of(program)
    metadata = _metadata(program, signature, prepared, options)
    metadata |= _description(program, kernels, road.report, options)
    objects = emit_objects(program, signature, prepared, metadata, road) | code
    return Compiled(
        options.prefix, options.target, signature, objects,
        (*exported_symbols(options.prefix), *standalone_exports(options.target, options.prefix)),
        frozenset(LIBC_NAMES), prepared, metadata,
    )  # fmt: skip


def plan_model(source: Source, road: Road) -> Report:
    """Goes the road up to scheduled kernels, and says what was done; compiles nothing.

    Raises as compile_model does.
    """
    with road.report.stage("import"):
        imported = import_model(source, outputs=road.options.outputs)
    optimize_graph(imported.module, WeftContext(imported.weights), road)
    to_loops(imported.module, road)
    return road.report


def naive_kernels(source: Source, options: Options) -> dict[str, str]:
    """The text of each kernel before it is scheduled, by name. Raises as compile_model does."""
    imported = import_model(source)
    road = Road(options)
    optimize_graph(imported.module, WeftContext(imported.weights), road)
    lower_graph(imported.module, road)
    return {name: str(kernel) for name, kernel in kernels_of(imported.module).items()}


def _expected_kernels(module: ModuleOp) -> int:
    """About how many kernels the graph will become: workers start before that is known."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    named = (op.name for function in functions for op in function.body.block.ops)
    return sum(name not in (ConstantOp.name, ReshapeOp.name) for name in named)


def optimize_graph(module: ModuleOp, context: WeftContext, road: Road) -> None:
    """Runs the graph passes."""
    road.dump("00-imported.mlir", module)
    if road.options.gradients:
        with road.report.stage(DifferentiatePass.name):
            DifferentiatePass(inputs=road.options.gradients).apply(context, module)
    passes = NAIVE_GRAPH_PASSES if road.options.naive else GRAPH_PASSES
    for number, graph_pass in enumerate(passes, 1):
        road.on_stage("graph", number, len(passes))
        with road.report.stage(graph_pass.name):
            graph_pass().apply(context, module)
        road.report.operators[graph_pass.name] = sum(1 for _ in module.walk())
        road.dump(f"{number:02}-{graph_pass.name}.mlir", module)
    road.report.graph.update(op.name for op in module.walk() if isinstance(op, GraphOp))


def to_loops(module: ModuleOp, road: Road) -> None:
    """Lowers the graph to kernels and their program,
    schedules the kernels and plans the program.
    """
    lower_graph(module, road)
    _schedule_kernels(module, road)
    plan_program(module, road)
    _schedule_kernels(module, road)  # copies between layouts


def _schedule_kernels(module: ModuleOp, road: Road) -> None:
    """Schedules the kernels that are not scheduled yet, in this process."""
    done = road.report.schedules
    kernels = {name: each for name, each in kernels_of(module).items() if name not in done}
    for number, (name, kernel) in enumerate(kernels.items()):
        road.on_stage("schedule", number, len(kernels))
        with road.report.stage("schedule"):
            road.report.note(name, choose_schedule(kernel, road.options))


def lower_graph(module: ModuleOp, road: Road) -> None:
    """Lowers the graph to naive kernels and their program."""
    options, report = road.options, road.report
    with report.stage("graph-to-loop"):
        lower_module(module, strict=options.strict_fp)
    road.dump("20-loop-naive.mlir", module)
    if not options.naive:
        with report.stage("layouts"):
            place_buffers(module, options.target)
        road.dump("21-loop-layouts.mlir", module)
    kernels = kernels_of(module)
    report.flops |= {name: kernel_flops(kernel) for name, kernel in kernels.items()}
    report.repeats = repeats(module)
    _require_kernels(options, list(kernels))


def plan_program(module: ModuleOp, road: Road) -> None:
    """Gives the buffers of the program their layouts and places, for kernels that are scheduled."""
    with road.report.stage("program"):
        hoist_workspace(module)
        AssignLayouts(_conversion).run(module)
        drop_unused_weights(module)
        for op in module.ops:
            if isinstance(op, ProgramOp):
                plan_memory(op, kernels_of(module))
    road.dump("30-loop-scheduled.mlir", module)


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


def emit_objects(
    program: ProgramOp,
    signature: Signature,
    weights: Weights,
    metadata: dict[str, object],
    road: Road,
) -> dict[str, bytes]:
    """Machine code by name of what every model has: the run time and the program."""
    target, prefix = road.options.target, road.options.prefix
    counts = Counts(
        len(signature.inputs), len(signature.outputs), len(signature.symbols),
        len(signature.found), signature.made,
    )  # fmt: skip
    objects: dict[str, bytes] = {}
    with road.report.stage("run time"):
        text = json.dumps(metadata, sort_keys=True)
        run_time = emit_run_time(
            target, prefix, counts, text, f"{prefix}.weights", weight_offsets(weights),
            [Level(prefix, feature_groups(target))],
        )  # fmt: skip
        objects["runtime"] = compile_object(run_time, baseline(target))
        if is_standalone(target):
            objects["standalone"] = compile_object(emit_standalone(prefix), target)
    with road.report.stage("program"):
        objects["program"] = compile_object(emit_program(program, target, prefix=prefix), target)
    return objects


def compile_kernels(
    module: ModuleOp, compiler: KernelCompiler, road: Road, but: Container[str] = ()
) -> dict[str, bytes]:
    """Schedules and compiles the kernels whose names are not in `but`; gives the machine code by
    name. In the module they are declarations afterwards. Stages add up what all processes took.
    """
    kernels = {name: each for name, each in kernels_of(module).items() if name not in but}
    dumps = road.dump_dir is not None
    tasks = [KernelTask(str(kernel), road.options, dumps) for kernel in kernels.values()]
    codes = compiler.compile(tasks, lambda done: road.on_stage("compile", done, len(tasks)))
    objects: dict[str, bytes] = {}
    for (name, kernel), code in zip(kernels.items(), codes, strict=True):
        objects[name] = code.code
        module.body.block.insert_op_before(parse_kernel(code.kernel), kernel)
        kernel.detach()
        kernel.erase()
        road.report.note(name, Scheduled(code.used, ()))
        for stage, seconds in code.seconds.items():
            road.report.add(stage, seconds)
        road.dump(f"40-{name}.ll", code.ir)
    return objects


def signature_of(program: ProgramOp) -> Signature:
    """Names, dtypes and dims of the program's inputs and outputs, and the free symbols."""
    arguments = [buffer_type(argument) for argument in program.body.block.args]
    hints = [argument.name_hint or f"v{n}" for n, argument in enumerate(program.body.block.args)]
    names = [*_names(program, "input_names"), *_names(program, "output_names")] or hints
    specs = [
        TensorSpec(name, numpy_dtype(kind.element).name, tuple(_dim(dim) for dim in kind.shape))
        for name, kind in zip(names, arguments, strict=True)
    ]
    count = program.inputs.data
    symbols, found = tuple(program.symbol_names), tuple(output_sizes(program))
    return Signature(tuple(specs[:count]), tuple(specs[count:]), symbols, found)


def _names(program: ProgramOp, key: str) -> list[str]:
    names = program.attributes.get(key)
    return [name.data for name in names] if isa(names, ArrayAttr[StringAttr]) else []


def _dim(dim: Expr) -> int | str:
    return str(dim) if dim.constant is None else dim.constant


def _weight_sources(program: ProgramOp, weights: WeightStore) -> list[WeightSource]:
    """The weights of the program in the order of its table."""
    sources: list[WeightSource] = []
    for key, kind in program_weights(program):
        plain = kind == buffer(kind.shape, kind.element)
        transform = None if plain else _transform_name(kind)
        elements = kind.size.constant
        assert elements is not None, "a weight has a static shape"
        sources.append(WeightSource(key, transform, elements, weights[key].dtype.name))
    return sources


def _transform(kind: BufferType) -> KernelOp:
    kernel = copy_kernel(buffer(kind.shape, kind.element), kind)
    canonicalize_kernel(kernel)
    return kernel


def _transform_name(kind: BufferType) -> str:
    return kernel_symbol("prepare", _transform(kind).sym_name.data)


def _transforms(program: ProgramOp) -> WeightTransforms:
    """The kernels that bring weights into the layouts that the program
    reads, compiled for this machine.
    """
    host = host_target()
    kinds = dict.fromkeys(
        buffer_type(op.result) for op in program.walk() if isinstance(op, WeightOp)
    )
    derived = [kind for kind in kinds if kind != buffer(kind.shape, kind.element)]
    if not derived:
        return WeightTransforms(None)
    kernels = {kernel.sym_name.data: kernel for kernel in map(_transform, derived)}
    objects = [
        compile_object(emit_kernel(kernel, host, prefix="prepare", exported=True), host)
        for kernel in kernels.values()
    ]
    exports = [kernel_symbol("prepare", name) for name in kernels]
    return WeightTransforms(load_objects(objects, exports))


def _metadata(
    program: ProgramOp, signature: Signature, weights: Weights, options: Options
) -> dict[str, object]:
    """What an artifact says of itself."""
    size = workspace_bytes(program)
    return {
        "abi": ABI_VERSION,
        "weft": VERSION,
        "prefix": options.prefix,
        "triple": options.target.triple,
        "cpu": options.target.cpu,
        "features": [name for name in options.target.features if name.startswith("+")],
        **signature.to_json(),
        "workspace_bytes": _dim(size),
        "weights": [
            {
                "name": source.name,
                "dtype": source.dtype,
                "bytes": weights.bytes(source),
                "offset": offset,
            }
            for source, offset in zip(weights.sources, weight_offsets(weights), strict=True)
        ],
    }


def _description(
    program: ProgramOp, kernels: list[KernelOp], report: Report, options: Options
) -> dict[str, object]:
    """What an artifact says of its inside: nothing that differs between two compilations."""
    by_name = {kernel.sym_name.data: kernel for kernel in kernels}
    timed: dict[str, object] = {"timed_calls": timed_calls(program)} if options.timed else {}
    return timed | {
        "operators": dict(sorted(report.graph.items())),
        "kernels": describe_kernels(program, by_name, report.flops, report.schedules),
        "memory": describe_memory(program),
        "repeats": report.repeats,
    }
