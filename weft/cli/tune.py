"""`weft tune`: schedules that are faster on this machine than those that weft chooses."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.bench.tune import SECONDS, Tuner
from weft.cli.arrays import add_random_dims, random_inputs
from weft.cli.model import add_compile_options, is_artifact, options_from
from weft.cli.parser import command_parser
from weft.cli.progress import stage_progress
from weft.cli.table import table
from weft.cli.terminal import show, tell
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.loop.tuned_file import Tuned, write_tuned
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import OptionError

_EXAMPLES: Final = """\
examples:
  weft tune model.onnx                          two minutes, into model.tuned.json
  weft tune bert.onnx --random-dim batch=1 --random-dim sequence=128 --threads 2 --seconds 600
  weft compile model.onnx --tuned model.tuned.json

Each kernel that takes long is timed where it runs in the model, with schedules made for other
numbers of registers and sizes of caches, and with other tiles; what is faster is kept. The file
names kernels by their structure, so that it serves every model that has them, and the CPU. A file
that is there already is added to.
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft tune",
        "Searches schedules for a model's kernels by timing them on this machine.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file")
    made.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="<model>.tuned.json by default"
    )
    made.add_argument("--threads", type=int, default=1, metavar="N", help="1 by default")
    made.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"after which no other round begins: {SECONDS:g} by default",
    )
    made.add_argument("--seed", type=int, default=0, help="of the random inputs: 0 by default")
    add_random_dims(made)
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Searches, writes the file and prints what was gained. Raises WeftError."""
    if is_artifact(arguments.model):
        raise OptionError(f"tune requires an ONNX model, got the artifact {arguments.model}")
    options = options_from(arguments)
    if options.target != host_target():
        raise OptionError(f"tune requires the target native, got {arguments.target}")
    if options.naive or options.schedule:
        raise OptionError("tune requires schedules of its own, got --naive or --schedule")
    output = arguments.output or Path(f"{Path(arguments.model).stem}.tuned.json")
    if not output.parent.is_dir():
        raise OptionError(f"-o requires a folder that exists, got {output.parent}")
    with stage_progress() as on_round:
        on_round("compile", 0, 1)
        signature = Signature.from_json(compile_model(arguments.model, options).metadata)
        inputs = random_inputs(signature.inputs, arguments.seed, arguments)
        tuner = Tuner(arguments.model, options, inputs, arguments.threads)
        found = tuner.run(arguments.seconds, on_round=on_round)
    write_tuned(output, found)
    show(_shown(found))
    tell(f"{output}: {len(found)} kernels")


def _shown(found: Sequence[Tuned]) -> str:
    if not found:
        return "no schedule was found that is faster than weft's own"
    rows = [
        [
            each.kernel,
            f"{each.default_ms:.4g} ms",
            f"{each.tuned_ms:.4g} ms",
            f"{each.default_ms / each.tuned_ms:.2f} x",
        ]
        for each in sorted(found, key=lambda each: each.tuned_ms - each.default_ms)
    ]
    return table([["kernel", "before", "now", "gain"], *rows], indent="")
