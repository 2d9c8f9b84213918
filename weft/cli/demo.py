"""`weft demo`: a real network to a shared object, run and checked against a stored answer."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

import numpy as np

from weft.bench.timing import median_ms
from weft.cli.demo_model import DEMO_NETWORK, demo_input, demo_model, demo_reference
from weft.cli.model import progressing
from weft.cli.table import shown_bytes
from weft.cli.terminal import show
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled, load
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.dialects.budget import Budget
from weft.dialects.errors import WeftError

TOLERANCE: Final = 1e-4
"""Of the answer's scale."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = argparse.ArgumentParser(
        "weft demo",
        description=f"Compiles {DEMO_NETWORK}, a network that comes with the onnx package, with "
        "random weights to a shared object, runs it, and checks its answer.",
    )
    made.add_argument(
        "--output-dir",
        metavar="DIR",
        type=Path,
        default=Path("weft-demo"),
        help="where the files go: ./weft-demo by default",
    )
    made.add_argument("--threads", type=int, metavar="N", help="by default one for each processor")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Compiles, runs and checks. Raises WeftError when the answer is not the stored one."""
    folder: Path = arguments.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    model = demo_model()
    content = model.SerializeToString()
    _write(folder / f"{DEMO_NETWORK}.onnx", content)
    show(f"model     {DEMO_NETWORK}: {len(model.graph.node)} nodes, {shown_bytes(len(content))}")
    library = folder / f"lib{DEMO_NETWORK}.so"
    start = time.perf_counter()
    compiled = _compile(content)
    compiled.export(library)
    seconds = time.perf_counter() - start
    show(f"compiled  {seconds:.2f} s for {compiled.target.cpu}, {len(compiled.objects)} objects")
    executable = load(library, host_target(), threads=arguments.threads)
    _check(executable)
    _time(executable)
    show(f"files     {library} ({shown_bytes(library.stat().st_size)}), its header and the model")
    show(f"next      weft inspect {library}")


def _compile(content: bytes) -> Compiled:
    options = options_of(content, prefix=DEMO_NETWORK)
    with progressing(options, Budget()) as start:
        return compile_model(content, options, start())


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as out:
        out.write(content)


def _check(executable: Executable) -> None:
    (answer,) = executable(demo_input())
    reference = demo_reference()
    scale = float(np.abs(reference).max())
    error = float(np.abs(answer - reference).max()) / scale
    if not error <= TOLERANCE:
        rule = f"requires the stored answer within {TOLERANCE:g} of its scale"
        raise WeftError(f"demo {rule}, got an error of {error:.3g}")
    show(f"checked   against onnxruntime's stored answer: error {error:.1e} of its scale")


def _time(executable: Executable) -> None:
    name = executable.inputs[0].name
    median = median_ms(executable, {name: demo_input()})
    show(f"ran       {median:.2f} ms a call, the median")
