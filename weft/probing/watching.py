"""Executables that may be compiled again for values inside of their graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from weft.compiler.driver.options import Options
from weft.compiler.machine.python.executable import Executable

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel, Source

    Build = Callable[[Source | ImportedModel, Options], Executable]


def build_watchable(source: Source | ImportedModel, options: Options, build: Build) -> Executable:
    """Builds an executable with `compile_watched`."""
    return watching(source, options, build)(build(source, options))


def watching(
    source: Source | ImportedModel, options: Options, build: Build
) -> Callable[[Executable], Executable]:
    """What gives the executable of a source its `compile_watched`: a model in a file is read again
    with further outputs; a graph that a program made, which compiling changes, is kept where it
    names values.
    """
    if hasattr(source, "module"):
        return _watching_graph(cast("ImportedModel", source), options, build)

    def watched(executable: Executable) -> Executable:
        outputs = [spec.name for spec in executable.outputs]
        own = outputs[: len(outputs) - len(options.gradients)]

        def compile_watched(names: Sequence[str]) -> Executable:
            return build(source, options.changed(outputs=(*own, *names), self_test=None))

        executable.compile_watched = compile_watched
        return executable

    return watched


def _watching_graph(
    source: ImportedModel, options: Options, build: Build
) -> Callable[[Executable], Executable]:
    from weft.compiler.graph.probe import ProbePass, watched_labels
    from weft.dialects.context import WeftContext

    kept = source.module.clone() if watched_labels(source.module) else None

    def compile_watched(names: Sequence[str]) -> Executable:
        assert kept is not None, "a graph with names is kept"
        module = kept.clone()
        ProbePass(tuple(names)).apply(WeftContext(), module)
        return build(replace(source, module=module), options)

    def watched(executable: Executable) -> Executable:
        if kept is not None:
            executable.compile_watched = compile_watched
        return executable

    return watched
