"""What commands that compile a model have in common: their options, progress and cache."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli.progress import stage_progress
from weft.compilation import compile_cached, options_of
from weft.compiler.driver.deadline import deadline
from weft.compiler.driver.options import (
    BUCKET_ELSE,
    BUCKET_FIT,
    Options,
    parse_bound,
    parse_bucket,
    parse_bucket_mask,
)
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled, check_runs_on, load
from weft.compiler.machine.artifact.cache import default_cache
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.weights.file import EMBEDDED, PLACES
from weft.compiler.target import TARGETS
from weft.dialects.budget import MAX_BYTES, MAX_NODES, TIMEOUT, Budget
from weft.dialects.errors import OptionError

if TYPE_CHECKING:
    from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source

_MAGICS: Final = (b"\x7fELF", b"\0asm")


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is compiled, and how."""
    _add_artifact_options(parser)
    _add_bucket_options(parser)
    _add_code_options(parser)
    _add_budget_options(parser)


def _add_artifact_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the result takes and gives")
    group.add_argument("--prefix", help="what the C names start with; the model's name by default")
    group.add_argument(
        "--outputs",
        metavar="NAME,NAME",
        help="the values that the model gives, any of its graph, in place of its own outputs",
    )
    group.add_argument(
        "--gradients",
        metavar="NAME,NAME",
        help="inputs in which the first output, one number, is differentiated: further outputs",
    )
    group.add_argument(
        "--bound",
        metavar="SIZE=LEAST..MOST",
        action="append",
        default=[],
        help="the bounds of a named size of the inputs, such as batch=1..32; for several, again",
    )
    group.add_argument(
        "--weights",
        choices=PLACES,
        default=EMBEDDED,
        help="where an artifact has its weights: embedded, in a file beside it, or with its caller",
    )
    group.add_argument(
        "--self-test",
        metavar="INPUTS.npz",
        nargs="?",
        const=True,
        default=False,
        help="golden inputs and outputs inside, which <prefix>_self_test and weft verify compare; "
        "the inputs are weft's own unless a file has them by name",
    )


def _add_bucket_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("copies for some sizes")
    group.add_argument(
        "--bucket",
        metavar="SIZES=VALUES",
        action="append",
        default=[],
        help="copies of the program for these sizes, such as batch=1,4 or h,w=224x224,448x448, "
        "which share weights; for several sizes, again",
    )
    group.add_argument(
        "--bucket-else",
        choices=BUCKET_ELSE,
        default=BUCKET_ELSE[0],
        help="what happens to a call with sizes of no bucket: an error, or a copy for any sizes",
    )
    group.add_argument(
        "--bucket-fit",
        choices=BUCKET_FIT,
        default=BUCKET_FIT[0],
        help="the sizes that a bucket is for: its own, or lesser ones that are padded as well; "
        "models whose rows depend on each other are refused",
    )
    group.add_argument(
        "--bucket-mask",
        metavar="SIZE=INPUT",
        action="append",
        default=[],
        help="an input whose zeros make the model ignore what is padded along a size, such as "
        "sequence=attention_mask; for several, again",
    )


def _add_code_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how to compile")
    group.add_argument(
        "--target-cpu",
        metavar="CPU",
        default="native",
        help=f"native (this machine), {', '.join(target.name for target in TARGETS)}",
    )
    group.add_argument(
        "--isa",
        metavar="LEVEL,LEVEL",
        help="x86-64 levels out of v1 to v4: code for each in one artifact; the last "
        "that the processor can run is what runs",
    )
    group.add_argument(
        "--strict-fp",
        action="store_true",
        help="keep sums in the order of the model, never fuse multiply and add",
    )
    group.add_argument(
        "--max-iterations",
        metavar="N",
        type=int,
        help="a call fails in a loop of more, such as one that never ends; no limit by default",
    )
    group.add_argument(
        "--check-indices",
        action="store_true",
        help="a call with an index outside of its axis fails, in place of reading the nearest",
    )
    group.add_argument("--naive", action="store_true", help="plain loops: no fusion, no schedules")
    group.add_argument(
        "--schedule",
        metavar="FILE",
        type=Path,
        help="how to schedule the kernels that it names, as `weft inspect --schedules` prints it",
    )
    group.add_argument(
        "--tuned",
        metavar="FILE",
        type=Path,
        help="schedules that `weft tune` found, for those kernels of the model that it has",
    )
    group.add_argument("--no-cache", action="store_true", help="compile even what is in the cache")
    group.add_argument(
        "--dump-dir",
        metavar="DIR",
        type=Path,
        help="write the IR after each stage there; implies --no-cache",
    )


def _add_budget_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what compiling may use, at most")
    group.add_argument(
        "--max-nodes",
        metavar="COUNT",
        type=int,
        default=MAX_NODES,
        help=f"operators, functions inlined and loops written out; {MAX_NODES} by default",
    )
    group.add_argument(
        "--max-bytes",
        metavar="BYTES",
        type=int,
        default=MAX_BYTES,
        help=f"of tensors that it makes beside the model's own; {MAX_BYTES} by default",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=TIMEOUT,
        help=f"that it takes; {TIMEOUT:g} by default",
    )


def budget_from(arguments: argparse.Namespace) -> Budget:
    """What the command line lets a compilation use. Raises OptionError for no positive numbers."""
    return Budget(arguments.max_nodes, arguments.max_bytes, arguments.timeout)


def options_from(arguments: argparse.Namespace) -> Options:
    """The compiler's options as the command line has them."""
    return options_of(
        arguments.model,
        arguments.target_cpu,
        arguments.prefix,
        strict_fp=arguments.strict_fp,
        naive=arguments.naive,
        check_indices=arguments.check_indices,
        schedule=arguments.schedule,
        tuned=arguments.tuned,
        weights=arguments.weights,
        gradients=_names(arguments.gradients),
        outputs=_names(arguments.outputs),
        isa=_names(arguments.isa),
        bounds=[parse_bound(text) for text in arguments.bound],
        buckets=[parse_bucket(text) for text in arguments.bucket],
        bucket_else=arguments.bucket_else,
        self_test=arguments.self_test,
        max_iterations=arguments.max_iterations,
        bucket_fit=arguments.bucket_fit,
        bucket_masks=[parse_bucket_mask(text) for text in arguments.bucket_mask],
    )


def _names(listed: str | None) -> list[str]:
    return [name for name in (listed or "").split(",") if name]


def compile_from(arguments: argparse.Namespace, *, timed: bool = False) -> Compiled:
    """The model of the command line, compiled or out of the cache; `timed` with clocks in it."""
    options = replace(options_from(arguments), timed=timed)
    uncached = arguments.no_cache or arguments.dump_dir is not None
    cache = None if uncached else default_cache(os.environ)
    budget = budget_from(arguments)
    with progressing(options, arguments.dump_dir, budget) as start:
        return compile_cached(arguments.model, options, cache, start, budget=budget)


def progressing_from(
    arguments: argparse.Namespace,
) -> contextlib.AbstractContextManager[Callable[[], Session]]:
    """`progressing` as the command line says."""
    return progressing(options_from(arguments), arguments.dump_dir, budget_from(arguments))


@contextlib.contextmanager
def progressing(
    options: Options, dump_dir: Path | None, budget: Budget
) -> Generator[Callable[[], Session]]:
    """A function that begins a compilation whose progress is shown, and which may use `budget`."""
    with deadline(budget), stage_progress() as on_stage:

        def start() -> Session:
            return Session(options, on_stage, dump_dir, budget=budget)

        yield start


def executable_from(arguments: argparse.Namespace) -> Executable:
    """The artifact of the command line, loaded, or its model, compiled; with --threads."""
    if is_artifact(arguments.model):
        return load(arguments.model, host_target(), threads=arguments.threads)
    compiled = compile_from(arguments)
    check_runs_on(host_target(), compiled.metadata, arguments.model)
    return compiled.executable(arguments.threads)


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


def is_artifact(path: str) -> bool:
    """Whether a file is a shared object or a WebAssembly module by its first bytes. Raises
    OSError.
    """
    with open(path, "rb") as file:
        return file.read(4) in _MAGICS
