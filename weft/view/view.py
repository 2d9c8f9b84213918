"""Models and artifacts -> what pages show of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

from msgspec.structs import replace

from weft.api import source_of
from weft.compilation import options_of
from weft.compiler.driver.options import Changes, Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import OnStage, Session
from weft.compiler.machine.artifact.artifact import (
    check_runs_on,
    is_artifact,
    load,
    read_metadata,
)
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.python.profile import Profile
from weft.dialects.budget import Budget
from weft.dialects.errors import ArtifactError, InputError, OptionError
from weft.dialects.weights import Array
from weft.probing.differences import differences
from weft.probing.parting import find_parting, values_inside
from weft.probing.watching import watching
from weft.view.build import at_sizes, build_of_compilation, build_of_metadata
from weft.view.measure import histogram, inputs_for, measured_limits, time_of
from weft.view.observe import Observer
from weft.view.records import Build, Histogram, OutputDifference, Parting, View

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel, Source

CALLS: Final = 24
"""Of the model, of which the median is shown."""

TURNS: Final = 3
"""In which builds are run, one after the other."""

TIMED: Final = ("time", "roofline")
"""Panels that need times."""

TOLERANCE: Final = 1e-4
"""The largest difference of outputs that counts as none, as a share of their scale."""

VERSION: Final = 1
"""Of the JSON: raised when a field changes its meaning or goes away."""


class Run(NamedTuple):
    """How models are run for a page: arrays by input, sizes of random ones, the names of tensors to
    look at, threads; and whether anything is timed.
    """

    inputs: Mapping[str, Any] = {}
    dims: Mapping[str, int] = {}
    watch: Sequence[str] = ()
    threads: int | None = None
    timed: bool = True


class _Looked(NamedTuple):
    """A build, and what runs it, unless this machine cannot; and what it was compiled from, unless
    that is compiled code, too.
    """

    build: Build
    executable: Executable | None
    watched: Executable | None = None
    source: Source | ImportedModel | None = None
    options: Options | None = None


def data(
    model: Any,
    *others: Any,
    specs: Sequence[Any] = (),
    options: Options | None = None,
    against: Options | None = None,
    run: Run = Run(),  # noqa: B008  it is immutable
    on_stage: OnStage = lambda name, done, total: None,
    budget: Budget | None = None,
    **changes: Unpack[Changes],
) -> View:
    """What a page shows of a model, or of two builds: paths of models or artifacts, or whatever
    `weft.compile` takes, with `specs` and options as there; or of a model by the options `against`
    and by `options`.

    Each model is compiled anew, with somebody looking. Raises what compiling and loading raise,
    OptionError for more than two builds, and InputError for inputs that do not fit.
    """
    sources = [(model, options), *((other, options) for other in others)]
    if against is not None:
        sources.insert(0, (model, against))
    if len(sources) > 2:
        raise OptionError(f"view requires one build or two, got {len(sources)}")

    def look(source: Any, options: Options | None) -> _Looked:
        if isinstance(source, (str, os.PathLike)) and is_artifact(cast("str", source)):
            return _artifact(Path(cast("str", source)), run)
        read = source_of(source, specs)
        chosen = options_of(read, options, **changes)
        session = Session(chosen, on_stage, budget=budget or Budget())
        return _model(read, session, run)

    looked = [look(*each) for each in sources]
    inputs, reason = _inputs(looked, run)
    profiles = _profiles(looked, inputs) if run.timed else {}
    builds = tuple(_measured(each, inputs, reason, run, profiles) for each in looked)
    outputs = _outputs(looked, inputs)
    parting = None if outputs is None else _parting(looked, inputs or {}, run, outputs)
    return View(VERSION, builds, parting)


def _profiles(
    looked: Sequence[_Looked], inputs: Mapping[str, Array] | None
) -> dict[Executable, Profile]:
    """What each build that runs here takes, taking turns, so that a slow moment is no build's."""
    executables = [each.executable for each in looked if each.executable is not None]
    found: dict[Executable, Profile] = {}
    for _ in range(TURNS if inputs is not None else 0):
        for each in executables:
            own = each.profile(inputs or {}, calls=CALLS // TURNS)
            before = found.get(each)
            found[each] = own if before is None else replace(own, calls=before.calls + own.calls)
    return found


def _outputs(
    looked: Sequence[_Looked], inputs: Mapping[str, Array] | None
) -> tuple[OutputDifference, ...] | None:
    """How far the outputs of two builds lie apart; None where not both run on the inputs."""
    executables = [each.executable for each in looked if each.executable is not None]
    if len(executables) < 2 or inputs is None:
        return None
    if any({spec.name for spec in each.inputs} != set(inputs) for each in executables):
        return None
    first, second = (each.run(inputs) for each in executables)
    if first.keys() != second.keys():
        return None
    found = differences(first, second)
    return tuple(OutputDifference(each.name, each.absolute, each.of_scale) for each in found)


def _parting(
    looked: Sequence[_Looked],
    inputs: Mapping[str, Array],
    run: Run,
    outputs: tuple[OutputDifference, ...],
) -> Parting:
    """The outputs, and where two models part that have values of the same names inside."""
    sources = [each.source for each in looked if each.source is not None]
    if len(sources) < 2 or all(each.of_scale <= TOLERANCE for each in outputs):
        return Parting(outputs)
    first, second = map(values_inside, sources)
    shared = {each.name for each in second}

    def value(form: _Looked, name: str) -> Array:
        assert form.source is not None
        assert form.options is not None
        options = form.options.changed(outputs=(name,), gradients=(), self_test=None)
        return _executable(run, form.source, options).run(inputs)[name]

    ours, theirs = (partial(value, each) for each in looked)
    values = [each for each in first if each.name in shared]
    found = find_parting(values, ours, theirs, TOLERANCE)
    return Parting(outputs) if found is None else Parting(outputs, found.value, found.node)


def _artifact(path: Path, run: Run) -> _Looked:
    metadata = read_metadata(path)
    build = build_of_metadata(metadata, path.name)
    if run.watch:
        raise OptionError(f"watch requires the graph of a model, got the artifact {path}")
    try:
        check_runs_on(host_target(calibrated=False), metadata, str(path))
    except ArtifactError as error:
        return _Looked(_without_time(build, str(error)), None)
    return _Looked(build, load(path, host_target(calibrated=False), threads=run.threads))


def _model(source: Source | ImportedModel, session: Session, run: Run) -> _Looked:
    """Compiles a model with somebody looking; again for values that are watched."""
    options = session.options
    if options.buckets.sizes or options.artifact.isa:
        raise OptionError("view requires one program, got buckets or several CPU levels")
    observer = session.observer = Observer()
    attach = watching(source, options, partial(_executable, run))
    compiled = compile_model(source, options, session)
    file = Path(cast("str", source)).name if isinstance(source, (str, os.PathLike)) else ""
    build = build_of_compilation(compiled, observer, session.report, options, file)
    try:
        check_runs_on(host_target(calibrated=False), compiled.metadata, compiled.prefix)
    except ArtifactError as error:
        return _Looked(_without_time(build, str(error)), None)
    executable = attach(compiled.executable(run.threads))
    watched = executable.watch(*run.watch) if run.watch else None
    return _Looked(build, executable, watched, source, options)


def _executable(run: Run, source: Source | ImportedModel, options: Options) -> Executable:
    return compile_model(source, options).executable(run.threads)


def _without_time(build: Build, reason: str) -> Build:
    why = dict.fromkeys((*TIMED, "values"), reason)
    return replace(build, missing=build.missing | why)


def _inputs(looked: Sequence[_Looked], run: Run) -> tuple[dict[str, Array] | None, str]:
    """What the first build that runs here is given, or why there is nothing."""
    for each in looked:
        if each.executable is not None:
            try:
                return inputs_for(each.executable.inputs, run.inputs, run.dims), ""
            except InputError as error:
                if run.inputs or run.watch:
                    raise
                return None, str(error)
    return None, ""


def _measured(
    looked: _Looked,
    inputs: Mapping[str, Array] | None,
    reason: str,
    run: Run,
    profiles: Mapping[Executable, Profile],
) -> Build:
    """The build with what running it tells."""
    build, executable, watched = looked.build, looked.executable, looked.watched
    if executable is None:
        return build
    if inputs is None:
        return _without_time(build, reason)
    values = [] if watched is None else _values(watched, inputs, run.watch)
    build = replace(build, values=tuple(values))
    if not run.timed:
        return replace(build, missing=build.missing | dict.fromkeys(TIMED, "timing was left out"))
    recorded = profiles[executable]
    time = time_of(recorded)
    return replace(at_sizes(build, recorded), time=time, limits=measured_limits(time.threads))


def _values(
    watched: Executable, inputs: Mapping[str, Array], names: Sequence[str]
) -> list[Histogram]:
    """The watched tensors; several of one name are `name/0`, `name/1` and so on."""
    outputs = watched.run(inputs)
    return [
        histogram(name, array)
        for name, array in outputs.items()
        if name in names or name.rpartition("/")[0] in names
    ]
