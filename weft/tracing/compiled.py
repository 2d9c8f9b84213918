"""`trace`: what a Python function does with tensors without values, compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from weft.compilation import compile_cached
from weft.compiler.deferred import deferred
from weft.compiler.driver.options import Changes, Options
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.python.executable import Executable
from weft.tracing.spec import described_examples, options_for
from weft.tracing.survey.stored import StoredProgram, found_or_made, stored_program

if TYPE_CHECKING:
    from weft.probing import inside, watching
    from weft.tracing import trace as recording
else:
    inside = deferred("weft.probing.inside")
    watching = deferred("weft.probing.watching")
    recording = deferred("weft.tracing.trace")


def trace(
    function: Callable[..., Any],
    *examples: Any,
    options: Options | None = None,
    threads: int | None = None,
    trap_nan: bool = False,
    **changes: Unpack[Changes],
) -> Executable:
    """Compiles what a function does with inputs like the examples: arrays, or `weft.Spec` with
    names for sizes that vary.

    The function is run once, on tensors without values; loops and conditions of Python are run then
    and are not in the result. It is not run where this computer has compiled the same before: the
    function, and all that its code leads to. The options are those of `weft.compile`. Raises
    WeftError, which names the line, for conditions on tensors and for operands that do not fit.
    """
    chosen = options_for(function, "traced", options, changes)
    described = described_examples(function, examples)

    def entry() -> StoredProgram | None:
        values = {"function": function}
        return None if trap_nan else stored_program("trace", values, chosen, described)

    def loaded(compiled: Compiled) -> Executable:
        return compiled.executable(threads)

    def build(source: Any, options: Options, key: str | None = None) -> Executable:
        return loaded(compile_cached(source, options, default_cache(os.environ), key=key))

    def made(key: str | None) -> tuple[Executable, None]:
        imported = recording.record(function, *examples).imported(chosen.prefix)
        if trap_nan:
            return inside.build_trapped(imported, chosen, (), build), None
        with_watch = watching.watching(imported, chosen, build)
        return with_watch(build(imported, chosen, key)), None

    return found_or_made(entry, loaded, made)[0]
