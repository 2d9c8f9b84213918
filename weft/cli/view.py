"""`weft view`: one page that shows a model or an artifact, or two builds of it."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Final

from weft.cli.arrays import add_random_dims, read_archive
from weft.cli.model import add_compile_options, budget_from, options_from
from weft.cli.parser import command_parser
from weft.cli.progress import stage_progress
from weft.cli.terminal import show
from weft.compiler.driver.deadline import deadline
from weft.compiler.driver.read_options import read_fixed_sizes
from weft.dialects.errors import OptionError
from weft.view import Page, Run, data
from weft.view.page import as_json

_EXAMPLES: Final = """\
examples:
  weft view model.onnx --open                 model.html: graph, kernels, memory, time
  weft view model.onnx --schedule my.txt      beside it what schedules of your own make of it
  weft view model.onnx --inputs x.npz --watch logits --watch /layer1/Relu_output
  weft view liba.so libb.so -o both.html      two builds, and where they differ
  weft view model.onnx --json | python -m json.tool
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft view",
        "Writes one HTML file that shows a model from its graph to its assembly, memory and time. "
        "It needs no server and no network.",
        _EXAMPLES,
    )
    made.add_argument("model", help="a model, or an artifact made by weft")
    made.add_argument("other", nargs="?", help="another build, to be compared")
    made.add_argument("-o", "--output", metavar="FILE", type=Path, help="by default MODEL.html")
    made.add_argument("--open", action="store_true", help="let the browser show the page")
    made.add_argument("--json", action="store_true", help="print the data of the page, write none")
    made.add_argument(
        "--inputs", metavar="FILE", help="arrays by input in NumPy's .npz; random ones for the rest"
    )
    made.add_argument(
        "--watch", metavar="NAME", action="append", default=[],
        help="a value of the graph whose numbers to show; for several, again",
    )  # fmt: skip
    made.add_argument("--no-time", action="store_true", help="run and measure nothing")
    made.add_argument("--threads", type=int, metavar="N", help="by default one for each processor")
    add_random_dims(made)
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Writes the page, or prints its data. Raises WeftError and OSError."""
    if arguments.no_time and arguments.watch:
        raise OptionError("--watch requires a run, got --no-time")
    texts = [*(arguments.dims or ()), *arguments.random_dim]
    dims = {each.name: each.size for each in read_fixed_sizes(texts)}
    inputs = {} if arguments.inputs is None else read_archive(arguments.inputs)
    how = Run(inputs, dims, arguments.watch, arguments.threads, not arguments.no_time)
    builds = [path for path in (arguments.model, arguments.other) if path is not None]
    budget = budget_from(arguments)
    with deadline(budget), stage_progress() as on_stage:
        options = options_from(arguments)
        # Beside schedules of one's own stands what weft does by itself.
        forced = bool(options.schedule) and arguments.other is None
        plain = options.changed(schedule=()) if forced else None
        view = data(
            *builds, options=options, against=plain, run=how, on_stage=on_stage, budget=budget
        )
    if arguments.json:
        show(as_json(view))
        return
    path = Page(view).save(arguments.output or Path(f"{Path(arguments.model).stem}.html"))
    show(path)
    if arguments.open:
        webbrowser.open(path.absolute().as_uri())
