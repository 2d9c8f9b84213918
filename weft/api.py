"""`compile` and `load`: a model becomes an executable in this process, or an artifact does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from weft.compilation import compile_cached, options_of
from weft.compiler.driver.deadline import deadline
from weft.compiler.driver.extension import Extension
from weft.compiler.driver.options import Bound, Options, parse_bucket, parse_bucket_mask
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on
from weft.compiler.machine.artifact.artifact import load as load_artifact
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.bindings.names import base_name
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.budget import MAX_BYTES, MAX_NODES, TIMEOUT, Budget
from weft.probing.watching import build_watchable

if TYPE_CHECKING:
    from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
    from weft.tracing.graph import Graph


@runtime_checkable
class _Built(Protocol):
    """A graph that a program built."""

    def imported(self) -> ImportedModel:
        """The graph as front ends give it."""
        ...


def compile(
    model: Source | Graph | Callable[..., Any],
    specs: Sequence[Any] = (),
    *,
    threads: int | None = None,
    target: str = "native",
    strict_fp: bool = False,
    naive: bool = False,
    cache: bool | Cache = True,
    prefix: str | None = None,
    schedule: str | os.PathLike[str] | None = None,
    outputs: Sequence[str] = (),
    gradients: Sequence[str] = (),
    tuned: str | os.PathLike[str] | None = None,
    extensions: Sequence[Extension] = (),
    isa: Sequence[str] = (),
    bounds: Mapping[str, tuple[int, int]] | None = None,
    weights: str = "embedded",
    buckets: Sequence[str] = (),
    bucket_else: str = "refuse",
    bucket_fit: str = "exact",
    bucket_masks: Sequence[str] = (),
    trap_nan: bool = False,
    self_test: bool | str | os.PathLike[str] | Mapping[str, Any] = False,
    max_iterations: int | None = None,
    max_nodes: int = MAX_NODES,
    max_bytes: int = MAX_BYTES,
    timeout: float = TIMEOUT,
    check_indices: bool = False,
) -> Executable:
    """Compiles a model (a path, bytes, an onnx.ModelProto, a weft.Graph or a Python function) into
    this process.

    A function is compiled from its source, for arguments like `specs`: a `weft.Spec` or an example
    each; what it reads of arrays outside becomes constants.
    `threads` compute a call, one for each processor by default. `target` is `native` or the name of
    a CPU level that this machine has. `strict_fp` keeps sums in the order of the graph. `naive`
    applies no schedule. `prefix` starts the symbols of exported artifacts: the model's name by
    default. Models that were compiled before come out of `cache`, the user's own unless one is
    given; False compiles anew. `schedule` is a file that says how some kernels are scheduled, as
    `weft inspect --schedules` writes it. `outputs` are the values that the model gives, any of its
    graph by their names, in place of its own outputs; what they do not need is left out.
    `gradients` are inputs: the derivative of the first output, which has to be one number, in each
    of them follows the other outputs as `grad_<input>`. `tuned` is a file that `weft tune` wrote,
    of schedules for those kernels of the model that it has. `bounds` are the least and greatest
    values of named sizes of the inputs; a call with others is refused. `buckets`, texts such as
    `batch=1,4` or `h,w=224x224,448x448`, make copies of the program for these sizes, which share
    weights; a call with others is refused, or runs a copy for any where `bucket_else` is `dynamic`.
    With `bucket_fit="pad"` lesser sizes are padded to those of a bucket; what cannot be proved to
    stay right is refused while compiling, unless a text of `bucket_masks`, such as
    `sequence=attention_mask`, names an input whose zeros make the model ignore what is padded.
    `weights` says where exported artifacts have them: `embedded`, in a `file` beside the artifact,
    or with the `caller`. With `self_test`, the model has golden inputs and outputs in it, which
    `Executable.self_test()` and `m_self_test` of exported artifacts compare: on inputs that weft
    makes up, or on arrays by name, out of an .npz file as well. `extensions` are operators, graph
    passes, schedules and importers beside weft's own; with them, or for a `weft.Graph`, only
    kernels come out of the cache. With `trap_nan` calls look at every value, and raise InputError
    that names the first operator, and the node or the line of it, that makes NaN or an infinity out
    of numbers. Where `max_iterations` is given, a call raises InputError that names a loop of more.
    With `check_indices` it does for an index outside of its axis, which otherwise stands for the
    nearest element, and names the node, the axis and the index.
    A compilation makes at most `max_nodes` operators, counted once functions are inlined and loops
    written out, and `max_bytes` of tensors beside the model's own, and takes at most `timeout`
    seconds. Raises BudgetError for more, ModelError for a damaged model, UnsupportedError that
    lists everything in it that weft lacks, OptionError for options that do not exist,
    IllegalSchedule for a schedule that would change what a kernel computes.
    """
    budget = Budget(max_nodes, max_bytes, timeout)
    with deadline(budget):
        source = _source_of(model, specs)
    options = options_of(
        source,
        target,
        prefix,
        strict_fp=strict_fp,
        naive=naive,
        schedule=schedule,
        outputs=outputs,
        gradients=gradients,
        tuned=tuned,
        isa=isa,
        bounds=[Bound(name, *pair) for name, pair in (bounds or {}).items()],
        weights=weights,
        buckets=[parse_bucket(text) for text in buckets],
        bucket_else=bucket_else,
        bucket_fit=bucket_fit,
        bucket_masks=[parse_bucket_mask(text) for text in bucket_masks],
        self_test=self_test,
        max_iterations=max_iterations,
        check_indices=check_indices,
    )
    store = default_cache(os.environ) if cache is True else cache or None

    def build(source: Source | ImportedModel, options: Options) -> Executable:
        compiled = compile_cached(source, options, store, extensions=extensions, budget=budget)
        return _in_process(compiled, threads)

    if trap_nan:
        from weft.probing.inside import build_trapped

        return build_trapped(source, options, extensions, build)
    executable = build_watchable(source, options, build)
    session = partial(Session, options, extensions=tuple(extensions), budget=budget)
    executable.save_graph = partial(_save_graph, model, specs, session)
    return executable


def _save_graph(
    model: Any, specs: Sequence[Any], session: Callable[[], Session], path: Path
) -> None:
    """Writes the optimised graph of a model, which is read again, and its weights beside it."""
    from weft.compiler.driver.emit import save_graph

    base_name(path)
    save_graph(_source_of(model, specs), path, session())


def _source_of(model: Any, specs: Sequence[Any]) -> Source | ImportedModel:
    if isinstance(model, _Built):
        return model.imported()
    if not callable(model):
        return model
    from weft.source.jit import read_model

    return read_model(getattr(model, "source_function", model), specs)


def _in_process(compiled: Compiled, threads: int | None) -> Executable:
    check_runs_on(host_target(), compiled.metadata, compiled.prefix)
    return compiled.executable(threads)


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
    return load_artifact(Path(path), host_target(), threads=threads, weights=weights, verify=verify)
