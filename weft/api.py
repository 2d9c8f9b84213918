"""`compile` and `load`: a model becomes an executable in this process, or an artifact does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack, runtime_checkable

from weft.compilation import compile_cached, options_of
from weft.compiler.deferred import deferred
from weft.compiler.driver.deadline import deadline
from weft.compiler.driver.extension import Extension
from weft.compiler.driver.options import Changes, Options
from weft.compiler.driver.session import Session
from weft.compiler.frontend.graph_file_names import SUFFIX
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on
from weft.compiler.machine.artifact.artifact import load as load_artifact
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.bindings.names import base_name
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.budget import MAX_BYTES, MAX_NODES, TIMEOUT, Budget
from weft.dialects.errors import OptionError
from weft.distributed.world import world
from weft.probing.watching import watching

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel, Source
    from weft.distributed import pipeline
    from weft.tracing.graph import Graph
else:
    pipeline = deferred("weft.distributed.pipeline")


@runtime_checkable
class _Built(Protocol):
    """A graph that a program built."""

    def imported(self) -> ImportedModel:
        """The graph as front ends give it."""
        ...


def compile(
    model: Source | Graph | _Built | Callable[..., Any],
    specs: Sequence[Any] = (),
    *,
    options: Options | None = None,
    threads: int | None = None,
    cache: bool | Cache = True,
    extensions: Sequence[Extension] = (),
    trap_nan: bool = False,
    max_nodes: int = MAX_NODES,
    max_bytes: int = MAX_BYTES,
    timeout: float = TIMEOUT,
    **changes: Unpack[Changes],
) -> Executable:
    """Compiles a model: a path, bytes, an onnx.ModelProto, a weft.Graph, a Python function, or a
    torch.export.ExportedProgram.

    A function is compiled from its source, for arguments like `specs`: a `weft.Spec` or an example
    each; what it reads of arrays outside becomes constants.
    `options` are a `weft.Options`, whose fields say what there is to choose; `changes` are such
    fields, in their place: `weft.compile(model, strict_fp=True, buckets=["batch=1,4"])`.
    `threads` compute a call, one for each processor by default. Models that were compiled before
    come out of `cache`, the user's own unless one is given; False compiles anew. `extensions` are
    operators, graph passes, schedules and importers beside weft's own; with them, or for a
    `weft.Graph`, only kernels come out of the cache. With `trap_nan` calls look at every value, and
    raise InputError that names the first operator, and the node or the line of it, that makes NaN
    or an infinity out of numbers.
    A compilation makes at most `max_nodes` operators, counted once functions are inlined and loops
    unrolled, and `max_bytes` of tensors beside the model's own, and takes at most `timeout`
    seconds. Raises BudgetError for more, ModelError for a damaged model, UnsupportedError that
    lists everything in it that weft lacks, OptionError for options that do not exist and for what
    is no model, IllegalSchedule for a schedule that would change what a kernel computes.
    """
    budget = Budget(max_nodes, max_bytes, timeout)
    with deadline(budget):
        source = source_of(model, specs)
    chosen = options_of(source, options, **changes)
    store = default_cache(os.environ) if cache is True else cache or None

    def build(source: Source | ImportedModel, options: Options) -> Executable:
        compiled = compile_cached(source, options, store, extensions=extensions, budget=budget)
        return _in_process(compiled, threads)

    if trap_nan:
        from weft.probing.inside import build_trapped

        return build_trapped(source, chosen, extensions, build)
    executable = watching(source, chosen, build)(build(source, chosen))
    session = partial(Session, chosen, extensions=tuple(extensions), budget=budget)
    return _remembering(executable, model, specs, session, chosen)


def _remembering(
    executable: Executable,
    model: Any,
    specs: Sequence[Any],
    session: Callable[[], Session],
    options: Options,
) -> Executable:
    """The executable, which can save the graph that it was made of and show it."""
    executable.save_graph = partial(_save_graph, model, specs, session)
    executable.page = partial(_page, model, specs=specs, options=options)
    return executable


def _page(model: Any, **how: Any) -> Any:
    """A page about a model."""
    return import_module("weft.view").page(model, **how)  # which stands above this module


def _save_graph(
    model: Any, specs: Sequence[Any], session: Callable[[], Session], path: Path
) -> None:
    """Writes the optimised graph of a model, which is read again, and its weights beside it."""
    from weft.compiler.driver.emit import save_graph

    base_name(path)
    save_graph(source_of(model, specs), path, session())


def save_graph(
    model: Source | Graph | _Built | Callable[..., Any],
    path: str | os.PathLike[str],
    specs: Sequence[Any] = (),
    *,
    extensions: Sequence[Extension] = (),
) -> None:
    """Writes the graph of a program as it was made, before anything is optimised, as a file
    (`.mlir`) that `weft.compile` and `weft compile` take, with whatever options, and its weights
    beside it: of a weft.Graph, of what `weft.trace` or `weft.step` gave, of a function or what
    `weft.jit` gave, for arguments like `specs`, or of a model. Raises as `weft.compile` does, and
    OptionError for a path without that suffix.
    """
    from weft.compiler.driver.emit import save_graph

    output = Path(path)
    if output.suffix != SUFFIX:
        raise OptionError(f"save_graph requires a path that ends with {SUFFIX}, got {output}")
    base_name(output)
    source = source_of(model, specs)
    session = Session(options_of(source), extensions=tuple(extensions))
    save_graph(source, output, session, optimised=False)


def source_of(model: Any, specs: Sequence[Any]) -> Source | ImportedModel:
    """What `compile` takes, as front ends read it. Raises SourceError for a function that cannot be
    compiled.
    """
    if isinstance(model, _Built):
        return model.imported()
    if hasattr(model, "graph_signature"):  # a torch.export.ExportedProgram
        return import_module("weft.torch.export").read_program(model)
    if not callable(model):
        return model
    from weft.source.jit import read_model

    return read_model(getattr(model, "source_function", model), specs)


def _in_process(compiled: Compiled, threads: int | None) -> Executable:
    check_runs_on(host_target(calibrated=False), compiled.metadata, compiled.prefix)
    if "mesh" not in compiled.metadata:
        return compiled.executable(threads)
    here = world()  # which contexts reach that are made behind it
    executable = compiled.executable(threads)
    pipeline.join_stages(executable, here)
    return executable


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    verify: bool = False,
) -> Executable:
    """Opens an artifact that `Executable.export` or `weft compile` wrote. `weights` are those that
    it has outside: the path of their file, by default that beside it, or arrays by name. With
    `verify` all weights are read, and have to be those of the artifact's digest.

    Raises ArtifactError for a file that is damaged, no artifact, or made for another machine,
    OptionError for weights in a form that the artifact does not take, InputError for arrays that
    do not fit.
    """
    world()
    loaded = load_artifact(
        Path(path), host_target(calibrated=False), threads=threads, weights=weights, verify=verify
    )
    if "mesh" in loaded.metadata:
        pipeline.join_stages(loaded, world())
    loaded.page = partial(_page, path)
    return loaded
