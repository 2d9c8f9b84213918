"""`weft compare`: whether two forms of a model give the same, and from which value on not."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec.structs import asdict

from weft.cli.arrays import (
    add_input_options,
    add_random_option,
    random_inputs,
    read_inputs,
)
from weft.cli.model import (
    add_compile_options,
    budget_from,
    is_artifact,
    model_for_peers,
    options_from,
)
from weft.cli.parser import command_parser
from weft.cli.table import table
from weft.cli.terminal import show
from weft.compilation import compile_cached
from weft.compiler.machine.artifact.artifact import load
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.errors import OptionError
from weft.dialects.weights import Array
from weft.probing.differences import Difference, differences
from weft.probing.parting import Parting, find_parting, values_inside

ONNXRUNTIME: Final = "onnxruntime"
NAIVE: Final = "naive"

_EXAMPLES: Final = """\
examples:
  weft compare model.onnx libmodel.so --random       the artifact against the model
  weft compare model.onnx onnxruntime --input x.npy  against another engine
  weft compare model.onnx naive --random --bisect    the first value that schedules change
  weft compare liba.so libb.so --random --dim batch=2
"""

Runner = Callable[[Mapping[str, Array]], dict[str, Array]]


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft compare",
        "Runs two forms of a model on the same inputs and shows how far they differ. "
        "Exits with 1 where that is more than --tolerance.",
        _EXAMPLES,
    )
    made.add_argument("first", help="an ONNX file, or an artifact made by weft")
    made.add_argument(
        "second", help=f"another, or {ONNXRUNTIME}, or {NAIVE}: the first without schedules"
    )
    add_input_options(made)
    add_random_option(made)
    made.add_argument(
        "--tolerance",
        metavar="SHARE",
        type=float,
        default=1e-4,
        help="the largest difference that counts as none, as a share of an output's scale; 1e-4",
    )
    made.add_argument(
        "--bisect",
        action="store_true",
        help="find the first value of the graph at which the two part; both have to be models",
    )
    made.add_argument("--json", action="store_true", help="the differences as one JSON object")
    made.add_argument("--threads", type=int, metavar="N", help="by default one for each processor")
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Compares the outputs, and the values inside where they differ. Raises WeftError."""
    arguments.model = arguments.first
    if arguments.first in (ONNXRUNTIME, NAIVE):
        raise OptionError(f"compare requires a model or an artifact first, got {arguments.first}")
    first, second = _executable(arguments, arguments.first), _runner(arguments, arguments.second)
    inputs = read_inputs(first.inputs, arguments.input)
    if arguments.random is not None:
        inputs = random_inputs(first.inputs, arguments.random, arguments) | inputs
    found = differences(first.run(inputs), second(inputs))
    apart = [each for each in found if not each.of_scale <= arguments.tolerance]
    parting = _bisect(arguments, inputs) if apart and arguments.bisect else None
    show(_as_json(found, parting) if arguments.json else _shown(found, parting))
    if apart:
        sys.exit(1)


def _runner(arguments: argparse.Namespace, form: str, outputs: Sequence[str] = ()) -> Runner:
    """What runs one of the two forms; with `outputs` the values that it gives."""
    if form in (ONNXRUNTIME, NAIVE) and is_artifact(arguments.first):
        raise OptionError(f"{form} requires a model to run, got the artifact {arguments.first}")
    if form == ONNXRUNTIME:
        wanted = outputs or options_from(arguments).outputs
        with TemporaryDirectory() as folder:
            path = model_for_peers(arguments, Path(folder))
            return _onnxruntime(str(path), wanted, arguments.threads)
    return _executable(arguments, form, outputs).run


def _executable(
    arguments: argparse.Namespace, form: str, outputs: Sequence[str] = ()
) -> Executable:
    if form != NAIVE and is_artifact(form):
        return load(form, host_target(), threads=arguments.threads)
    options = options_from(arguments)
    if outputs:
        options = replace(options, outputs=tuple(outputs))
    if form == NAIVE:
        form, options = arguments.first, replace(options, naive=True)
    compiled = compile_cached(form, options, None, budget=budget_from(arguments))
    return compiled.executable(arguments.threads)


def _onnxruntime(path: str, outputs: Sequence[str], threads: int | None) -> Runner:
    """The model in onnxruntime, with any values of its graph as outputs."""
    onnx: Any = importlib.import_module("onnx")
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise OptionError(f"{ONNXRUNTIME} requires the package to be installed") from error
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads or 0
    settings.log_severity_level = 3
    with TemporaryDirectory() as folder:
        if outputs:
            proto = onnx.load(path)
            del proto.graph.output[:]
            proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
            path = str(Path(folder) / "model.onnx")
            onnx.save(proto, path, save_as_external_data=proto.ByteSize() > 2**30)
        providers = ["CPUExecutionProvider"]
        try:
            session = onnxruntime.InferenceSession(path, settings, providers=providers)
        except Exception as error:  # its errors have no base but this one
            reason = str(error).partition("\n")[0]
            raise OptionError(f"{ONNXRUNTIME} refuses {path}: {reason}") from error
    names: list[str] = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def _bisect(arguments: argparse.Namespace, inputs: Mapping[str, Array]) -> Parting | None:
    """Where the two forms part. Raises OptionError for an artifact."""
    if is_artifact(arguments.first) or (
        arguments.second not in (ONNXRUNTIME, NAIVE) and is_artifact(arguments.second)
    ):
        raise OptionError("--bisect requires two models, for an artifact has no values inside")

    def value(form: str, name: str) -> Array:
        return _runner(arguments, form, [name])(inputs)[name]

    ours, theirs = (partial(value, form) for form in (arguments.first, arguments.second))
    return find_parting(values_inside(arguments.first), ours, theirs, arguments.tolerance)


def _as_json(found: Sequence[Difference], parting: Parting | None) -> str:
    metadata: dict[str, Any] = {"outputs": [asdict(each) for each in found]}
    if parting is not None:
        metadata["parts_at"] = asdict(parting)
    return json.dumps(metadata, indent=1)


def _shown(found: Sequence[Difference], parting: Parting | None) -> str:
    heads = ("output", "absolute", "relative", "ULP", "of scale")
    rows = [heads, *(_row(each) for each in found)]
    text = table(rows, indent="")
    if parting is None:
        return text
    node = f"{parting.value} of node '{parting.node}' ({parting.operator})"
    return f"{text}\nparts at {node}: {parting.difference.of_scale:.3g} of scale"


def _row(each: Difference) -> tuple[str, ...]:
    numbers = (each.absolute, each.relative, each.ulp, each.of_scale)
    return each.name, *(f"{number:.3g}" for number in numbers)
