"""Planned programs and the code of their kernels -> a compiled model: the run time, the weights in
the layouts that are read, and what an artifact says of itself.

Each CPU level has a program and kernels of its own; the run time and the weights are common.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.utils.hints import isa

from weft.compiler.driver.compile_kernels import level_of
from weft.compiler.driver.compile_run_time import features, identity, run_time_tasks
from weft.compiler.driver.derive_weights import DerivedWeights
from weft.compiler.driver.options import Options
from weft.compiler.driver.prepare_weights import (
    derived_weights,
    describe_weights,
    external_weights,
    prepare_weights,
    transform_objects,
)
from weft.compiler.driver.program_code import program_object
from weft.compiler.driver.report import Report
from weft.compiler.frontend.model_version import described_version
from weft.compiler.frontend.string_outputs import described_strings
from weft.compiler.loop_to_llvm.data import data_ir
from weft.compiler.loop_to_llvm.program.dispatch import bucket_prefix, emit_choice
from weft.compiler.loop_to_llvm.program.emit import (
    WeightKey,
    emit_program,
    program_weights,
    workspace_bytes,
)
from weft.compiler.loop_to_llvm.run_time import emit_external_weights, emit_self_test
from weft.compiler.loop_to_llvm.runtime import LIBC_NAMES, Counts, exported_symbols, metadata_of
from weft.compiler.loop_to_llvm.runtime.external_weights import (
    ExternalWeights,
    external_weight_exports,
)
from weft.compiler.loop_to_llvm.runtime.profile import name_symbol
from weft.compiler.loop_to_llvm.runtime.self_test import self_test_exports
from weft.compiler.loop_to_llvm.runtime.standalone import (
    emit_standalone,
    is_standalone,
    standalone_exports,
)
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on
from weft.compiler.machine.artifact.model_table import model_table
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.data_object import data_object
from weft.compiler.machine.elf.link import undefined_symbols
from weft.compiler.machine.elf.native_object import C_FUNCTIONS, own_object, taken_from_libc
from weft.compiler.machine.weights.prepare import Weights
from weft.compiler.machine.weights.prepared import weight_offsets
from weft.compiler.program.describe import (
    describe_calls,
    describe_collectives,
    describe_kernels,
    describe_memory,
)
from weft.compiler.program.parallelize_calls import describe_concurrent
from weft.compiler.program.time_calls import timed_calls
from weft.compiler.target.features import baseline
from weft.dialects.errors import ArtifactError, OptionError
from weft.dialects.expr import Expr, maximum
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.loop.dynamic import output_sizes
from weft.dialects.loop.effects import HostCallOp, NativeCallOp
from weft.dialects.loop.program import (
    COLLECTIVE_BYTES,
    INPUT_RANKS,
    INPUTS_CUT,
    MESH,
    MESSAGES_BACK,
    OUTPUT_RANKS,
    OUTPUTS_CUT,
    REPEATS,
    KernelOp,
    ProgramOp,
    donated_pairs,
    listed_ranks,
    number_calls,
)
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.weights import WeightStore

if TYPE_CHECKING:
    from weft.compiler.driver.golden import GoldenRun


class CompiledLevel(Struct, frozen=True):
    """A planned program with the code of its kernels, for the target of these options; kernels in
    the module are declarations.
    """

    options: Options
    module: ModuleOp
    code: Mapping[str, bytes]
    report: Report

    @property
    def program(self) -> ProgramOp:
        return next(op for op in self.module.ops if isinstance(op, ProgramOp))

    @property
    def bodies(self) -> list[ProgramOp]:
        """The programs that compute: the only one, or those among which it chooses."""
        programs = [op for op in self.module.ops if isinstance(op, ProgramOp)]
        return programs[1:] or programs

    @property
    def kernels(self) -> dict[str, KernelOp]:
        """The declarations by name."""
        kernels = (op for op in self.module.ops if isinstance(op, KernelOp))
        return {kernel.sym_name.data: kernel for kernel in kernels}


def assemble(
    levels: Sequence[CompiledLevel],
    weights: WeightStore,
    options: Options,
    report: Report,
    golden: GoldenRun | None = None,
) -> Compiled:
    """The compiled model of all levels, which start with the least. Times go into the report.

    With golden data it can test itself, which it is made to do here where this machine runs it:
    raises OptionError where it does not compute them.
    """
    bodies = [program for level in levels for program in level.bodies]
    keys = list(dict.fromkeys(chain(*map(program_weights, bodies))))
    with report.stage("weights"):
        prepared = prepare_weights(keys, weights, options)
        derived = derived_weights(keys, weights, options)
    signature = signature_of(levels[0].program)
    with report.stage("metadata"):
        metadata = _metadata(levels, signature, prepared, derived, options)
    if golden is not None:
        metadata["self_test"] = golden.identity()
    outside = external_weights(prepared, derived, metadata, options)
    with report.stage("run time"):
        names = _kernel_names(levels)
        objects = _common_objects(signature, prepared, metadata, outside, names, options, golden)
    objects |= transform_objects(keys, derived, options)
    with report.stage("program code"):
        for level in levels:
            objects |= _level_objects(level, keys, options)
    exports = (
        *exported_symbols(options.prefix, options.target),
        *external_weight_exports(options.prefix, outside),
        *standalone_exports(options.target, options.prefix),
        *self_test_exports(options.prefix, golden),
    )
    compiled = Compiled(
        options.prefix, options.target, signature, objects, exports,
        LIBC_NAMES.union(taken_from_libc(metadata)), prepared, metadata,
    )  # fmt: skip
    if golden is not None:
        with report.stage("self-test"):
            _test(compiled)
    return compiled


def _test(compiled: Compiled) -> None:
    """Runs the self-test, where this machine can."""
    try:
        check_runs_on(host_target(calibrated=False), compiled.metadata, compiled.prefix)
    except ArtifactError:
        return
    try:
        compiled.executable(threads=1).self_test()
    except ArtifactError as error:
        rule = "requires inputs on which the model computes what its operators' references do"
        raise OptionError(f"self-test {rule}, got: {error}") from error


def _common_objects(
    signature: Signature,
    weights: Weights,
    metadata: dict[str, object],
    outside: ExternalWeights | None,
    names: Mapping[str, bytes],
    options: Options,
    golden: GoldenRun | None,
) -> dict[str, bytes]:
    """Machine code by name of what no level has for itself, for any processor of the
    architecture; `names` are those of kernels.
    """
    target, prefix, bare = options.target, options.prefix, options.artifact.bare
    counts = Counts(
        len(signature.inputs), len(signature.outputs), len(signature.symbols),
        len(signature.found), signature.made, not bare, len(options.levels()),
    )  # fmt: skip
    text = "{}" if bare else json.dumps(metadata, sort_keys=True)
    table = model_table(_bare(metadata) if bare else metadata)
    offsets = [None if outside else offset for offset in weight_offsets(weights)]
    data = {"facts": {**metadata_of(prefix, text, table, counts, offsets), **names}}
    texts: dict[str, str] = {}
    if outside is not None:
        texts["external_weights"] = emit_external_weights(target, prefix, outside)
    if golden is not None:
        layout = golden.layout(signature.symbols)
        texts["self_test"] = emit_self_test(target, prefix, layout, counts)
        data["golden"] = {f"{prefix}.golden": golden.content()}
    if is_standalone(target):
        texts["standalone"] = emit_standalone(prefix)
        texts |= {name: data_ir(target.triple, contents) for name, contents in data.items()}
    run_time = {name: task.object_for(prefix) for name, task in run_time_tasks(options).items()}
    objects = {name: compile_object(text, baseline(target)) for name, text in texts.items()}
    if not is_standalone(target):
        objects |= {name: data_object(each, run_time["runtime"]) for name, each in data.items()}
    return {**run_time, **objects}


def _bare(metadata: Mapping[str, object]) -> dict[str, object]:
    """What all models have in common that say nothing of themselves."""
    keys = ("abi", "prefix", "weft", "triple", "cpu", "features", "weights_in", "weights")
    kept = {key: metadata[key] for key in keys}
    return {**kept, **Signature((), ()).to_json(), "workspace_bytes": 0}


def _level_objects(
    level: CompiledLevel, weights: Sequence[WeightKey], options: Options
) -> dict[str, bytes]:
    """The program and the kernels of a level by name, in which the level is where there are more
    than one.
    """
    own = level.options
    programs = {p.sym_name.data: p for p in level.bodies if p is not level.program}
    numbers = number_calls(level.bodies)
    emit = partial(
        emit_program, target=own.target, prefix=own.prefix, weights=weights, numbers=numbers
    )
    quality = level_of(level.program)
    if programs:
        texts = {name: emit(p, name=bucket_prefix(own.prefix, p)) for name, p in programs.items()}
        texts["program"] = emit_choice(level.program, level.bodies, own.target, prefix=own.prefix)
        code = {name: compile_object(text, own.target, quality) for name, text in texts.items()}
    else:
        emitted = partial(emit, level.program)
        code = {"program": program_object(level.program, emitted, own.prefix, own.target, quality)}
    code |= {**level.code, **_native_objects(level)}
    start = f"{own.target.name}." if options.artifact.isa else ""
    return {f"{start}{name}": data for name, data in code.items()}


def _kernel_names(levels: Sequence[CompiledLevel]) -> dict[str, bytes]:
    """The names of kernels as programs refer to them."""
    return {
        name_symbol(level.options.prefix, kernel): f"{kernel}\0".encode()
        for level in levels
        for kernel in level.kernels
    }


def _native_objects(level: CompiledLevel) -> dict[str, bytes]:
    """The object files of the user's that programs call, each once, by name."""
    found: dict[str, bytes] = {}
    for op in _native_calls(level.bodies):
        if op.content is not None:
            start = f"{level.options.prefix}.{op.unit}."
            arch = level.options.target.arch
            found[op.unit] = own_object(op.content, op.function.data, arch, start)
    return found


def _native_calls(programs: Sequence[ProgramOp]) -> list[NativeCallOp]:
    """The calls of functions of the user's, one of each."""
    inside = (op for program in programs for op in program.walk())
    return [*{op.callee: op for op in inside if isinstance(op, NativeCallOp)}.values()]


def signature_of(program: ProgramOp) -> Signature:
    """Names, dtypes and dims of the program's inputs and outputs, and the free symbols."""
    arguments = [buffer_type_of(argument) for argument in program.body.block.args]
    hints = [argument.name_hint or f"v{n}" for n, argument in enumerate(program.body.block.args)]
    names = [*_names(program, "input_names"), *_names(program, "output_names")] or hints
    specs = [
        TensorSpec(name, numpy_dtype(each.element).name, tuple(_dim(dim) for dim in each.shape))
        for name, each in zip(names, arguments, strict=True)
    ]
    count = program.inputs.data
    symbols, found = tuple(program.symbol_names), tuple(output_sizes(program))
    pairs = tuple(donated_pairs(program))
    return Signature(tuple(specs[:count]), tuple(specs[count:]), symbols, found, pairs)


def _names(program: ProgramOp, key: str) -> list[str]:
    names = program.attributes.get(key)
    return [name.data for name in names] if isa(names, ArrayAttr[StringAttr]) else []


def _dim(dim: Expr) -> int | str:
    return str(dim) if dim.constant is None else dim.constant


def _metadata(
    levels: Sequence[CompiledLevel],
    signature: Signature,
    weights: Weights,
    derived: DerivedWeights | None,
    options: Options,
) -> dict[str, object]:
    """What an artifact says of itself: nothing that differs between two compilations. What its
    inside is like is that of the last level, and of each where there are more than one.
    """
    sizes = [workspace_bytes(program) for level in levels for program in level.bodies]
    several_sizes = {"buckets": options.buckets.combinations()} if options.buckets.sizes else {}
    known = described_strings(levels[0].program.attributes)
    inside = [_description(level) for level in levels]
    several = {"levels": inside} if options.artifact.isa else {}
    return (
        several
        | _described_mesh([each.program for each in levels])
        | _described_host_calls(levels[0].bodies)
        | _described_native_calls(levels[0].bodies)
        | several_sizes
        | known
        | {
            **identity(options),
            "model_version": described_version(levels[0].program.attributes),
            **signature.to_json(),
            "workspace_bytes": _dim(maximum(sizes)),
            **describe_weights(weights, derived, options),
            **{key: value for key, value in inside[-1].items() if key not in ("name", "features")},
        }
    )


def _described_mesh(programs: Sequence[ProgramOp]) -> dict[str, object]:
    """The axes of the ranks, and how they cut inputs and outputs, for a program of several, which
    has levels; and how many bytes of the arena collectives use.
    """
    program = programs[0]
    axes = program.attributes.get(MESH)
    if not isinstance(axes, StringAttr):
        return {}
    cut = {"inputs": _names(program, INPUTS_CUT), "outputs": _names(program, OUTPUTS_CUT)}
    done: dict[str, object] = {"collectives": describe_collectives(program)}
    noted = (each.attributes.get(COLLECTIVE_BYTES) for each in programs)
    reached = [each.data for each in noted if isa(each, IntAttr)]
    done["collective_bytes"] = max(reached, default=0)
    return {"mesh": {"axes": axes.data, **cut, **done, **_described_stages(program)}}


def _described_stages(program: ProgramOp) -> dict[str, object]:
    """The ranks of a pipeline that read each input and have each output, and whether messages go
    one way alone.
    """
    described: dict[str, object] = {}
    for name in (INPUT_RANKS, OUTPUT_RANKS):
        if name in program.attributes:
            described[name] = listed_ranks(program, name)
    return described | {"one_way": MESSAGES_BACK not in program.attributes} if described else {}


def _described_host_calls(programs: Sequence[ProgramOp]) -> dict[str, object]:
    """The functions of the host that programs call, if any."""
    inside = (op for program in programs for op in program.walk())
    calls = [op.text.data for op in inside if isinstance(op, HostCallOp)]
    return {"host_calls": list(dict.fromkeys(calls))} if calls else {}


def _described_native_calls(programs: Sequence[ProgramOp]) -> dict[str, object]:
    """The functions of the user's that programs call, if any: the hash of their object file and
    what that takes from libc; nothing else of one that only this process has.
    """
    described: list[dict[str, object]] = []
    for op in _native_calls(programs):
        described.append({"name": op.function.data})
        if op.content is not None:
            libc = sorted(undefined_symbols([op.content]) & C_FUNCTIONS)
            digest = hashlib.sha256(op.content).hexdigest()
            described[-1] |= {"sha256": digest, "libc": libc}
    return {"native_calls": described} if described else {}


def _description(level: CompiledLevel) -> dict[str, object]:
    """The inside of one level."""
    program, report, options = level.bodies[-1], level.report, level.options
    timed: dict[str, object] = {"timed_calls": timed_calls(program)} if options.timed else {}
    return timed | {
        "name": options.target.name,
        "features": features(options),
        "costs": asdict(options.target.cost),
        "operators": dict(sorted(report.graph.items())),
        "kernels": describe_kernels(program, level.kernels, report.schedules, report.refused),
        "calls": describe_calls(level.bodies, level.kernels),
        "memory": describe_memory(program, exact=bool(options.guarded)),
        "repeats": any(REPEATS in each.attributes for each in level.bodies),
        "concurrent": describe_concurrent(program, level.kernels, options.target),
    }
