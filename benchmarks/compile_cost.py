"""What compiling costs: `python -m benchmarks.compile_cost [MODEL ...] [--against CHECKOUT]`.

A model is a name of the recorded list, or an ONNX file. A shared object is made of it
in a process of its own: first with an empty cache, then once more with what that left, which is the
warm cost. Seconds are of the processor, user and system, of the whole tree of processes; wall is
what a user waits; memory is that of the largest process. Sources are bytecode before, as those of
installed packages: 630 files take 1.5 s. `--against` does the same with the compiler of
another checkout, in turns, and prints both as a ratio: medians of `--rounds`. Each line of the
result is a model.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.models import MODELS, MORE_MODELS, find_cases
from benchmarks.options import append_row, parser_of
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.dialects.errors import WeftError

_EXPORT: Final = "import sys, weft; weft.compile(sys.argv[1]).export(sys.argv[2])"
"""What is asked of a checkout: the public interface alone, which is older than modules' names."""

_BUILD: Final = """
import sys
from pathlib import Path
from benchmarks.models import find_cases
(case,) = find_cases(sys.argv[1:2])
Path(sys.argv[2]).write_bytes(case.build().SerializeToString())
"""
"""A process that starts another lends it its own peak memory, so models are made in their own."""

_LIBRARY: Final = "libmodel.so"

HERE: Final = Path(__file__).parents[1]

OURS, THEIRS = "here", "there"


class Cost(NamedTuple):
    """Seconds of the processor and of the clock, and MB of the largest process."""

    cpu: float
    wall: float
    peak_mb: float


def main() -> None:
    """Compiles each model with each compiler in turns; prints a table."""
    parser = parser_of("compile_cost", __doc__, "compile-cost-")
    names = ", ".join(case.name for case in (*MODELS, *MORE_MODELS))
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"an ONNX file, or {names}")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another version of weft")
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each")
    arguments = parser.parse_args()
    trees = {OURS: HERE}
    if arguments.against is not None:
        if not (arguments.against / "weft" / "__init__.py").exists():
            parser.error(f"--against requires a checkout of weft, got {arguments.against}")
        trees[THEIRS] = arguments.against.resolve()
    unknown = [each for each in arguments.models if not each.endswith(".onnx")]
    unknown = sorted(set(unknown) - {case.name for case in (*MODELS, *MORE_MODELS)})
    if unknown:
        parser.error(f"MODEL requires an ONNX file or a name of the list, got {unknown}")
    for tree in trees.values():
        for folder in ("weft", "compiler", "dialects"):
            compileall.compile_dir(tree / folder, quiet=2)
    rows: list[dict[str, Any]] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="weft-cost-") as folder:
        for name, file in _files(arguments.models, Path(folder)):
            try:
                rows.append(measure(name, file, trees, arguments.rounds))
            except WeftError as error:
                print(f"error: {name}: {error}", file=sys.stderr)
                failed = True
                continue
            append_row(arguments.output, rows[-1])
            Console().print(table(rows[-1:]))
    if len(rows) > 1:
        Console().print(table(rows))
    sys.exit(failed)


def _files(models: Sequence[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of the models that are asked for; those of the list are made."""
    named = [each for each in models if not each.endswith(".onnx")]
    yield from (
        (Path(each).stem, Path(each).resolve()) for each in models if each.endswith(".onnx")
    )
    cases = find_cases(named) if named else [] if models else [*MODELS, *MORE_MODELS]
    for case in cases:
        path = folder / f"{case.name}.onnx"
        subprocess.run([sys.executable, "-c", _BUILD, case.name, str(path)], cwd=HERE, check=True)
        yield case.name, path
        path.unlink()


def measure(name: str, model: Path, trees: Mapping[str, Path], rounds: int) -> dict[str, Any]:
    """The row of a model. Raises WeftError where a compiler refuses it."""
    costs: dict[tuple[str, str], list[Cost]] = {}
    kernels = 0
    for _ in range(rounds):
        for who, tree in trees.items():
            with tempfile.TemporaryDirectory(prefix="weft-cache-") as cache:
                for state in ("cold", "warm"):
                    costs.setdefault((who, state), []).append(_compile(tree, model, cache))
                if who == OURS:
                    kernels = len(read_metadata(f"{cache}/{_LIBRARY}")["kernels"])
    size = model.stat().st_size
    row: dict[str, Any] = {"model": name, "bytes": size, "kernels": kernels, "rounds": rounds}
    for (who, state), each in costs.items():
        row[f"{state}_{who}"] = [round(median(values), 3) for values in zip(*each, strict=True)]
    return row


def _compile(tree: Path, model: Path, cache: str) -> Cost:
    """Compiles with the compiler of a checkout, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-c", _EXPORT, str(model), f"{cache}/{_LIBRARY}"]
        process = subprocess.Popen(command, env=environment, cwd=cache, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            text = said.read().strip().splitlines() or ["no message"]
            raise WeftError(f"{tree.name} requires a model that it compiles, got: {text[-1][:300]}")
    wall = time.perf_counter() - start
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1.024 / 1e3)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Costs by model; with two compilers, the quotient of both, and the geometric means of all."""
    shown = Table("model", "", "CPU s", "wall s", "MB", "warm CPU s", title="compiling")
    shown.columns[1].header = "compiler"
    for row in rows:
        for who in (OURS, THEIRS):
            if f"cold_{who}" in row:
                cold, warm = Cost(*row[f"cold_{who}"]), Cost(*row[f"warm_{who}"])
                cells = (f"{cold.cpu:.2f}", f"{cold.wall:.2f}", f"{cold.peak_mb:.0f}")
                shown.add_row(row["model"], who, *cells, f"{warm.cpu:.2f}")
    pairs = [row for row in rows if f"cold_{THEIRS}" in row]
    if pairs:
        quotients = [
            geometric_mean(
                row[f"{state}_{OURS}"][at] / row[f"{state}_{THEIRS}"][at] for row in pairs
            )
            for state, at in (("cold", 0), ("cold", 1), ("cold", 2), ("warm", 0))
        ]
        shown.add_row("geometric mean", "here / there", *(f"{each:.2f}" for each in quotients))
    return shown


if __name__ == "__main__":
    main()
