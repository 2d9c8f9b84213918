"""Programs that were read from source become native code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from weft.compilation import compile_cached
from weft.compiler.driver.options import Changes, Options
from weft.compiler.frontend.imported import ImportedModel
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import OptionError
from weft.probing import inside, watching
from weft.source import interpret
from weft.tracing.spec import options_for

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, StringAttr


def imported(program: interpret.SourceGraph, name: str) -> ImportedModel:
    """The graph of a program as front ends give it."""
    main = program.module.body.block.first_op
    assert main is not None, "a module holds the function"
    names: list[tuple[str, ...]] = []
    for side in ("input", "output"):
        listed = cast("ArrayAttr[StringAttr]", main.attributes[f"{side}_names"])
        names.append(tuple(each.data for each in listed))
    return ImportedModel(program.module, program.recording.weights, name, names[0], names[1])


def compile_program(
    program: interpret.SourceGraph,
    function: Callable[..., Any],
    *,
    options: Options | None,
    threads: int | None,
    trap_nan: bool = False,
    watch: Sequence[str] = (),
    max_recursion: int | None = None,
    key: str | None = None,
    **changes: Unpack[Changes],
) -> Executable:
    """The native code of a function's program, with further outputs of the names to `watch`. The
    options are those of `weft.compile`.
    """
    chosen = options_for(function, "source", options, changes)
    source = imported(program, chosen.prefix)

    def build(source: Any, options: Options) -> Executable:
        return compile_cached(source, options, default_cache(os.environ), key=key).executable(
            threads
        )

    if trap_nan:
        return inside.build_trapped(source, chosen, (), build)
    if watch:
        watchable = watching.build_watchable(source, chosen, build)
        if watchable.compile_watched is None:
            rule = f"values that the function names, as by weft.watch(x, {watch[0]!r})"
            raise OptionError(f"watch requires {rule}, got none")
        return watchable.watch(*watch)
    return build(source, chosen)
