"""What commands that compile a model have in common: their options, progress and cache."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import Field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.cli.progress import stage_progress
from weft.compilation import compile_cached, options_of
from weft.compiler.driver.deadline import deadline
from weft.compiler.driver.options import (
    Artifact,
    Buckets,
    Options,
    keyword_of,
    option_fields,
    user_options,
)
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import (
    Compiled,
    check_runs_on,
    is_artifact,
    load,
    read_metadata,
)
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.budget import Budget
from weft.dialects.errors import OptionError

if TYPE_CHECKING:
    from weft.compiler.frontend.imported import ImportedModel, Source

_GROUPS: Final = (
    ("how to compile", Options),
    ("copies for some sizes", Buckets),
    ("what the artifact has", Artifact),
    ("what compiling may use, at most", Budget),
)
"""Records whose fields are arguments of the command line."""


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is compiled, and how; what is not given stays None."""
    for title, record in _GROUPS:
        group = parser.add_argument_group(title)
        for each in user_options(record):
            group.add_argument(_flag_of(each), dest=keyword_of(each), **_argument_of(each))
    group = parser.add_argument_group("cache and stages")
    group.add_argument("--no-cache", action="store_true", help="compile even what is in the cache")
    group.add_argument(
        "--dump-dir",
        metavar="DIR",
        type=Path,
        help="write the IR after each pass there; implies --no-cache",
    )
    group.add_argument(
        "--verify-each",
        action="store_true",
        help="verify the IR after each pass; implies --no-cache",
    )


def _flag_of(option: Field[Any]) -> str:
    return option.metadata.get("flag") or f"--{keyword_of(option).replace('_', '-')}"


def _argument_of(option: Field[Any]) -> dict[str, Any]:
    """What argparse has to know of an option."""
    argument: dict[str, Any] = {"help": option.metadata["help"], **option.metadata["argument"]}
    if option.default is False:
        argument["action"] = "store_true"
    if argument.get("action") == "append":
        argument["help"] += "; for several, again"
    return {"default": None, **argument}


def budget_from(arguments: argparse.Namespace) -> Budget:
    """What the command line lets a compilation use. Raises OptionError for no positive numbers."""
    return Budget(**_given(arguments, map(keyword_of, user_options(Budget))))


def options_from(arguments: argparse.Namespace) -> Options:
    """The compiler's options as the command line has them."""
    return options_of(arguments.model, **_given(arguments, option_fields()))


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The arguments of these names that the command line has."""
    found = {name: getattr(arguments, name, None) for name in names}
    return {name: written for name, written in found.items() if written is not None}


def compile_from(arguments: argparse.Namespace, *, timed: bool = False) -> Compiled:
    """The model of the command line, compiled or out of the cache; `timed` with clocks in it."""
    options = replace(options_from(arguments), timed=timed)
    uncached = arguments.no_cache or arguments.verify_each or arguments.dump_dir is not None
    cache = None if uncached else default_cache(os.environ)
    budget = budget_from(arguments)
    stages = arguments.dump_dir, arguments.verify_each
    with progressing(options, budget, *stages) as start:
        return compile_cached(arguments.model, options, cache, start, budget=budget)


def progressing_from(
    arguments: argparse.Namespace,
) -> contextlib.AbstractContextManager[Callable[[], Session]]:
    """`progressing` as the command line says."""
    stages = arguments.dump_dir, arguments.verify_each
    return progressing(options_from(arguments), budget_from(arguments), *stages)


@contextlib.contextmanager
def progressing(
    options: Options, budget: Budget, dump_dir: Path | None = None, verify_each: bool = False
) -> Generator[Callable[[], Session]]:
    """A function that begins a compilation whose progress is shown, and which may use `budget`."""
    with deadline(budget), stage_progress() as on_stage:

        def start() -> Session:
            return Session(options, on_stage, dump_dir, budget=budget, verify_each=verify_each)

        yield start


def model_for_peers(arguments: argparse.Namespace, folder: Path) -> Path:
    """The model of the command line for engines that know nothing of --value: a copy in the folder
    where there are values.
    """
    fixed = options_from(arguments).values
    if not fixed:
        return Path(arguments.model)
    from weft.compiler.frontend.onnx.fix_inputs import fixed_model

    proto = fixed_model(arguments.model, {each.name: each.array for each in fixed})
    path = folder / "fixed.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def executable_from(arguments: argparse.Namespace) -> Executable:
    """The artifact of the command line, loaded, or its model, compiled; with --threads."""
    return executables_from(arguments)[1]()


def executables_from(
    arguments: argparse.Namespace,
) -> tuple[Mapping[str, Any], Callable[[], Executable]]:
    """The metadata of the command line's artifact, or of its model, compiled; and what makes an
    executable with --threads of it, for each rank that asks.
    """
    if is_artifact(arguments.model):
        metadata = read_metadata(arguments.model)
        return metadata, lambda: load(arguments.model, host_target(), threads=arguments.threads)
    compiled = compile_from(arguments)
    check_runs_on(host_target(), compiled.metadata, arguments.model)
    return compiled.metadata, lambda: compiled.executable(arguments.threads)


def trapped_from(arguments: argparse.Namespace) -> Executable:
    """The model of the command line, compiled so that calls name the operator that makes NaN.
    Raises OptionError for an artifact.
    """
    from weft.probing.inside import build_trapped

    if is_artifact(arguments.model):
        raise OptionError(f"trap-nan requires a model, got the artifact {arguments.model}")
    cache = None if arguments.no_cache else default_cache(os.environ)

    def build(source: Source | ImportedModel, options: Options) -> Executable:
        compiled = compile_cached(source, options, cache, budget=budget_from(arguments))
        return compiled.executable(arguments.threads)

    return build_trapped(arguments.model, options_from(arguments), (), build)
