"""`weft run`: a model or an artifact on arrays from files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from weft.cli.arrays import (
    add_input_options,
    add_random_option,
    described,
    random_inputs,
    read_inputs,
    write_outputs,
)
from weft.cli.model import add_compile_options, executable_from, trapped_from
from weft.cli.parser import command_parser
from weft.cli.table import table
from weft.cli.terminal import show

_EXAMPLES: Final = """\
examples:
  weft run libmodel.so --input image=x.npy --output-dir out
  weft run model.onnx --input x.npy                    the only input needs no name
  weft run bert.onnx --random --dim batch=2 --dim sequence=64
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft run",
        "Runs a model once and prints what came out, or writes it as .npy files.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file, or a shared object made by weft")
    add_input_options(made)
    add_random_option(made)
    made.add_argument(
        "--output-dir", metavar="DIR", type=Path, help="where to write <output>.npy files"
    )
    made.add_argument(
        "--trap-nan",
        action="store_true",
        help="fail at the first operator that makes NaN or an infinity, and name its node",
    )
    made.add_argument("--threads", type=int, metavar="N", help="by default one for each processor")
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Runs the model. Raises WeftError, and OSError for files that cannot be read."""
    executable = (trapped_from if arguments.trap_nan else executable_from)(arguments)
    inputs = read_inputs(executable.inputs, arguments.input)
    if arguments.random is not None:
        drawn = random_inputs(executable.inputs, arguments.random, arguments)
        inputs = drawn | inputs
    outputs = executable.run(inputs)
    if arguments.output_dir is None:
        rows = [[name, *described(array)] for name, array in outputs.items()]
        show(table(rows, indent=""))
        return
    for path in write_outputs(outputs, arguments.output_dir):
        show(path)
