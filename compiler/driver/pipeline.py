"""A model and options -> a compiled model: `compile_model()` reads from top to bottom."""

from __future__ import annotations

import weft.dialects.definitions  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Ahead of xDSL's dialects, which declare what it defines later.
# isort: split
import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from weft.compiler.driver.assemble import CompiledLevel, assemble
from weft.compiler.driver.buckets.programs import (
    chooser_of,
    padding_modules,
    require_bucket_sizes,
    require_independent_rows,
)
from weft.compiler.driver.compile_kernels import (
    KERNELS_PER_WORKER,
    KernelCompiler,
    infrequent_collections,
    kernel_compiler,
)
from weft.compiler.driver.compile_run_time import run_time_tasks
from weft.compiler.driver.kept_programs import find_program, keep_program, program_key
from weft.compiler.driver.kernel_makers import CompiledKernels, ScheduledKernels
from weft.compiler.driver.lowering import (
    LAYOUT_PASSES,
    PROGRAM_PASSES,
    UNSCHEDULED,
    graph_passes,
    lower,
)
from weft.compiler.driver.options import Options
from weft.compiler.driver.read_model import begin, read_model
from weft.compiler.driver.run_passes import note_options, running
from weft.compiler.driver.session import Session
from weft.compiler.frontend.graph_file_names import STAMP
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.graph.fuse.fuse_matmuls import FuseMatmulsPass
from weft.compiler.graph.passes import SIMPLIFYING_PASSES
from weft.compiler.graph.share_weights import share_weights
from weft.compiler.graph.simplify.inline_calls import inline_calls, inlined_size
from weft.compiler.graph.simplify.unify_sizes import UnifySizesPass
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.program.buckets import MergeProgramsPass
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.dialects.context import WeftContext, parse_module
from weft.dialects.errors import OptionError
from weft.dialects.graph import ConstantOp, FusedOp, GraphOp, ReshapeOp
from weft.dialects.loop.program import ProgramOp
from weft.dialects.module_attributes import code_options
from weft.dialects.weights import WeightStore

IMPORTED: Final = "import"
"""The stage behind which no pass has run yet."""


@infrequent_collections()
def compile_model(
    source: Source | ImportedModel,
    options: Options,
    session: Session | None = None,
    imported: ImportedModel | None = None,
) -> Compiled:
    """Compiles a model (a path, bytes, ModelProto, or an imported one) to objects and weights; it
    may be `imported` already, by `begin`.

    Raises ModelError for a damaged model, and UnsupportedError listing everything that weft lacks.
    """
    session = session or Session(options)
    imported = imported or begin(source, session)
    if options.artifact.self_test is not None:
        from weft.compiler.driver.golden import golden_run  # few models are to test themselves

        session.golden = golden_run(imported.module, imported.weights, options, session.report)
    if options.buckets.sizes:
        return _compile_buckets(source, imported, options, session)
    module, weights = imported.module, imported.weights
    optimize_graph(module, WeftContext(weights), session)
    key = program_key(module, weights, session)
    kept = find_program(key, weights, session) if key else None
    if kept is not None:
        return kept
    chosen = options.levels()
    levels: list[CompiledLevel] = []
    run_times = tuple(run_time_tasks(options).values())
    with _kernel_compiler([module], session) as compiler:
        for level, own in zip(chosen, [module, *(module.clone() for _ in chosen[1:])], strict=True):
            kernels = CompiledKernels(compiler, session.level(level), run_times)
            lower(own, weights, kernels, kernels.session)
            levels.append(_level(own, kernels))
        compiled = assemble(levels, weights, options, session.report, session.golden)
    if key is not None:
        keep_program(key, compiled, weights, session)
    return compiled


def compile_module(
    module: ModuleOp, weights: WeightStore, options: Options, session: Session | None = None
) -> Compiled:
    """Compiles a module with one graph function, in place."""
    imported = ImportedModel(module, weights, "", (), ())
    return compile_model(imported, options, session, imported)


def _compile_buckets(
    source: Source | ImportedModel, imported: ImportedModel, options: Options, session: Session
) -> Compiled:
    """One artifact of a program for each bucket, each from the model with these sizes, and of one
    for all others if asked for; they share weights and the kernels that are the same.
    """
    require_bucket_sizes(imported.module, options)
    table, store = options.buckets.combinations(), imported.weights
    whole = imported.module.clone()
    _differentiate(whole, WeftContext(store), session)
    chooser = chooser_of(whole, options)
    if options.buckets.fit == "pad":
        require_independent_rows(_simplified(whole, store), options)
    graphs: list[ModuleOp] = []
    for sizes in table:
        own = read_model(source, options, session.extensions, sizes, session.budget)
        optimize_graph(own.module, WeftContext(own.weights), session)
        share_weights(own.module, own.weights, store)
        graphs.append(own.module)
    if options.buckets.otherwise == "dynamic":
        optimize_graph(imported.module, WeftContext(store), session)
        graphs.append(imported.module)
    levels: list[CompiledLevel] = []
    run_times = tuple(run_time_tasks(options).values())
    with _kernel_compiler(graphs, session) as compiler:
        for level in options.levels():
            own = session.level(level)
            parts: list[CompiledLevel] = []
            for graph in graphs:
                kernels = CompiledKernels(compiler, own, run_times)
                module = graph.clone()
                lower(module, store, kernels, own)
                parts.append(_level(module, kernels))
            parts[len(table) : len(table)] = _padding_levels(chooser, parts, compiler, own)
            module = _merged(chooser, [part.module for part in parts], own)
            code = {name: data for part in parts for name, data in part.code.items()}
            levels.append(CompiledLevel(level, module, code, own.report))
    return assemble(levels, store, options, session.report, session.golden)


def _merged(chooser: ProgramOp, parts: Sequence[ModuleOp], session: Session) -> ModuleOp:
    """One module of the program that chooses, and of those among which it does."""
    module = ModuleOp([chooser.clone(), *parts])
    note_options(module, session.options)
    with running(session, MergeProgramsPass.name, module, []):
        MergeProgramsPass().apply(WeftContext(), module)
    session.report.end_passes()
    return module


def _simplified(module: ModuleOp, weights: WeightStore) -> ModuleOp:
    """A graph in which no operators are grouped yet, and sizes have the names that buckets call
    them by.
    """
    for simplify in (each for each in SIMPLIFYING_PASSES if each is not UnifySizesPass):
        simplify().apply(WeftContext(weights), module)
    return module


@contextmanager
def _kernel_compiler(graphs: Sequence[ModuleOp], session: Session) -> Generator[KernelCompiler]:
    """A compiler for the kernels of optimised graphs: workers start before these are known. So the
    store remembers which groups of operators compilations have had to the end, unless there are so
    few that no worker would start.
    """
    store = session.store if session.observer is None else None  # who looks wants all of it
    asked = _group_keys(graphs, session.options)
    new = [each for each in asked if store is None or store.find_kernel(each) is None]
    with kernel_compiler(len(new), session.cores, store) as compiler:
        yield compiler
    if store is not None:
        for each in new:
            store.keep_kernel(each, b"")


def _padding_levels(
    chooser: ProgramOp, parts: Sequence[CompiledLevel], compiler: KernelCompiler, session: Session
) -> list[CompiledLevel]:
    """The programs that pad to buckets, if that was asked for; `parts` starts with the buckets'."""
    if session.options.buckets.fit != "pad":
        return []
    modules = padding_modules(chooser, [part.program for part in parts], session.options)
    return [_planned(module, WeightStore(), compiler, session) for module in modules]


def _planned(
    module: ModuleOp, weights: WeightStore, compiler: KernelCompiler, session: Session
) -> CompiledLevel:
    """Compiles the kernels of a module that has been lowered already, and plans its program."""
    kernels = CompiledKernels(compiler, session)
    passes = tuple(each for each in PROGRAM_PASSES if each not in LAYOUT_PASSES)
    lower(module, weights, kernels, session, passes)
    return _level(module, kernels)


def _level(module: ModuleOp, kernels: CompiledKernels) -> CompiledLevel:
    """A planned program with the code of the kernels that it has."""
    code = {name: kernels.code[name] for name in kernels_of(module)}
    return CompiledLevel(kernels.session.options, module, code, kernels.session.report)


def compile_loops(text: str, options: Options) -> Compiled:
    """Compiles a program without weights and its kernels, given as text and scheduled already."""
    module = parse_module(text, "<loops>")
    module.verify()
    session = Session(replace(options, naive=True))
    level = _planned(module, WeightStore(), KernelCompiler(()), session)
    return assemble([level], WeightStore(), session.options, session.report)


def import_model(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """Imports a model. Raises as compile_model does."""
    with session.report.stage("import"):
        return read_model(source, session.options, session.extensions, budget=session.budget)


def read_graph(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """Imports a model and optimises its graph; the report says what each pass did. Raises as
    compile_model does.
    """
    imported = import_model(source, session)
    optimize_graph(imported.module, WeftContext(imported.weights), session)
    return imported


def plan_model(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """Lowers a model to scheduled kernels and a planned program, and compiles nothing. Raises as
    compile_model does.
    """
    imported = read_graph(source, session)
    lower(imported.module, imported.weights, ScheduledKernels(session), session)
    return imported


def naive_kernels(source: Source, options: Options) -> dict[str, str]:
    """The text of each kernel before it is scheduled, by name. Raises as compile_model does."""
    session = Session(options)
    imported = read_graph(source, session)
    lower(imported.module, imported.weights, ScheduledKernels(session), session, UNSCHEDULED)
    return {name: str(kernel) for name, kernel in kernels_of(imported.module).items()}


def _group_keys(graphs: Sequence[ModuleOp], options: Options) -> list[str]:
    """Keys of what will become kernels: one for all groups of operators, or operators on their own,
    that are alike, and for each processor and way to lower them; none for so few that no worker has
    a use for them.
    """
    functions = (op for graph in graphs for op in graph.ops if isinstance(op, FuncOp))
    ops = (op for function in functions for op in function.body.block.ops if op.results)
    computing = [op for op in ops if not isinstance(op, (ConstantOp, ReshapeOp))]
    levels = options.levels()
    if len(computing) * len(levels) < KERNELS_PER_WORKER:
        return []
    groups = dict.fromkeys(
        repr(op.structure)
        if isinstance(op, FusedOp)
        else repr((op.name, sorted(op.properties.items()), op.operand_types, op.result_types))
        for op in computing
    )
    targets = [(each.target.triple, each.target.cpu, each.target.features) for each in levels]
    texts = [
        f"{target} {options.strict_fp} {options.naive} {each}"
        for target in targets
        for each in groups
    ]
    few = len(texts) < KERNELS_PER_WORKER
    return [] if few else [hashlib.sha256(each.encode()).hexdigest() for each in texts]


def optimize_graph(module: ModuleOp, context: WeftContext, session: Session) -> None:
    """Runs the graph passes; a graph that was saved behind them is done. Raises BudgetError for one
    of too many operators.
    """
    note_options(module, session.options)
    session.dump("00-imported.mlir", module)
    session.show(IMPORTED, module)
    context.refusals = None if session.observer is None else session.observer.refusals
    session.budget.require_nodes(inlined_size(module))
    if STAMP in module.attributes:
        for what in ("gradients", "check_indices"):
            if getattr(session.options, what):
                rule = f"{what} require a graph that is not optimised yet"
                raise OptionError(f"{rule}, got one of a graph file")
        del module.attributes[STAMP]
        inline_calls(module)
        session.report.graph.update(op.name for op in module.walk() if isinstance(op, GraphOp))
        return
    _differentiate(module, context, session)
    own = tuple(each for extension in session.extensions for each in extension.passes)
    rewrites = [each for extension in session.extensions for each in extension.rewrites]
    passes = graph_passes(code_options(module), own, rewrites)
    if session.options.buckets.sizes:
        # Some products that are joined would have weights of their own.
        passes = tuple(each for each in passes if each is not FuseMatmulsPass)
    for number, graph_pass in enumerate(passes, 1):
        session.on_stage("graph", number, len(passes))
        with running(session, graph_pass.name, module, context.notes):
            graph_pass().apply(context, module)
    session.report.end_passes()
    session.report.graph.update(op.name for op in module.walk() if isinstance(op, GraphOp))


def _differentiate(module: ModuleOp, context: WeftContext, session: Session) -> None:
    """Appends the gradients that the options ask for; to a graph that is optimised, none."""
    if session.options.gradients and STAMP not in module.attributes:
        from weft.compiler.graph.differentiate.differentiate import (
            DifferentiatePass,  # few models are differentiated
        )

        with session.report.stage(DifferentiatePass.name):
            inline_calls(module)
            DifferentiatePass(inputs=session.options.gradients).apply(context, module)
