"""`weft bench`: a model's time beside other engines', and what the machine would allow."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.bench.engines import OURS, PEERS
from weft.bench.kernels import kernel_rows, time_kernels
from weft.bench.limits import Limits, measure_limits, multiply_adds
from weft.bench.rounds import ROUNDS, SECONDS, Measured, measure
from weft.bench.rows import Row, engine_rows, limit_rows
from weft.bench.work import work_of
from weft.cli.arrays import add_input_options, random_inputs, read_inputs
from weft.cli.model import add_compile_options, compile_from, is_artifact, model_for_peers
from weft.cli.parser import command_parser
from weft.cli.progress import stage_progress
from weft.cli.table import table
from weft.cli.terminal import show
from weft.compiler.machine.artifact.artifact import check_runs_on, read_metadata
from weft.compiler.machine.artifact.signature import Signature
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target.native import calibration_advice
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.weights import Array

_EXAMPLES: Final = """\
examples:
  weft bench model.onnx                               weft and onnxruntime, one thread
  weft bench model.onnx --vs openvino,torch --threads 2
  weft bench model.onnx --vs all --json > rows.jsonl  every engine that is installed
  weft bench model.onnx --vs none --kernels           where weft's own time goes
  weft bench bert.onnx --dim batch=1 --dim sequence=128     compiled for these sizes
  weft bench bert.onnx --random-dim batch=1 --random-dim sequence=128     for any, run with these

Each engine runs in a process of its own, on as many cores as there are threads, and is stopped
while the others have their turn. Its answer is compared with weft's before it is timed. The ratio
is its time over weft's: above 1, weft is faster. Limits are measured in the same run, by loops
that weft compiles. An engine that is not installed or cannot run the model is listed as such.
"""

DEFAULT_PEERS: Final = "onnxruntime"


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft bench",
        "Times a model beside other engines, in turns, and against the limits of the machine.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file; with --vs none also an artifact of weft")
    made.add_argument(
        "--vs",
        metavar="ENGINES",
        default=DEFAULT_PEERS,
        help=f"separated by commas: {', '.join(PEERS)}; all, none; {DEFAULT_PEERS} by default",
    )
    made.add_argument("--threads", type=int, default=1, metavar="N", help="1 by default")
    made.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"turns: {ROUNDS} by default"
    )
    made.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"of each engine in each round: {SECONDS} by default",
    )
    add_input_options(made)
    made.add_argument("--seed", type=int, default=0, help="of random inputs: 0 by default")
    made.add_argument(
        "--kernels", action="store_true", help="time each kernel of weft's, in a build with clocks"
    )
    made.add_argument("--json", action="store_true", help="JSON, one object a line")
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Measures and prints. Raises WeftError, also where weft or a peer gives a wrong answer."""
    peers = _peers(arguments.vs)
    if arguments.kernels and is_artifact(arguments.model):
        rule = "requires an ONNX model to put clocks in"
        raise OptionError(f"--kernels {rule}, got the artifact {arguments.model}")
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        library = _library(arguments, peers, Path(folder))
        metadata = read_metadata(library)
        inputs = _inputs(arguments, Signature.from_json(metadata))
        work = work_of(metadata, inputs)
        model = model_for_peers(arguments, Path(folder)) if peers else library
        limits, measured = _measure(
            arguments, {OURS: library} | dict.fromkeys(peers, model), inputs
        )
    rows = [*limit_rows(limits), *engine_rows(measured, work, limits)]
    if arguments.kernels:
        rows += _kernel_rows(arguments, inputs, limits)
    show("\n".join(map(json.dumps, rows)) if arguments.json else _shown(rows))
    _complain(arguments.model, measured)


def _peers(text: str) -> list[str]:
    if text in ("all", "none"):
        return list(PEERS) if text == "all" else []
    names = text.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        rule = f"requires engines of {', '.join(PEERS)}, all or none"
        raise OptionError(f"--vs {rule}, got {', '.join(unknown)}")
    return names


def _library(arguments: argparse.Namespace, peers: Sequence[str], folder: Path) -> Path:
    """The artifact to be timed: what a user would deploy."""
    if is_artifact(arguments.model):
        if peers:
            rule = "requires an ONNX model for other engines"
            raise OptionError(f"--vs {rule}, got the artifact {arguments.model}")
        return Path(arguments.model)
    compiled = compile_from(arguments)
    check_runs_on(host_target(), compiled.metadata, arguments.model)
    library = folder / "libmodel.so"
    compiled.export(library)
    return library


def _inputs(arguments: argparse.Namespace, signature: Signature) -> dict[str, Array]:
    given = read_inputs(signature.inputs, arguments.input)
    drawn = [spec for spec in signature.inputs if spec.name not in given]
    return given | random_inputs(drawn, arguments.seed, arguments)


def _measure(
    arguments: argparse.Namespace, models: dict[str, Path], inputs: dict[str, Array]
) -> tuple[Limits, list[Measured]]:
    with stage_progress() as on_turn:
        on_turn("limits", 0, 1)
        limits = measure_limits(arguments.threads)
        *measured, turns = measure(
            models,
            inputs,
            arguments.threads,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            on_turn=on_turn,
            companions=multiply_adds(arguments.threads),
        )
    return limits.during(turns), measured


def _kernel_rows(
    arguments: argparse.Namespace, inputs: dict[str, Array], limits: Limits
) -> list[Row]:
    timed = compile_from(arguments, timed=True)
    (times,) = time_kernels([timed], inputs, arguments.threads)
    return kernel_rows(times, work_of(timed.metadata, inputs), limits)


def _complain(model: str, measured: Sequence[Measured]) -> None:
    """A wrong answer, or none from weft, is an error; a peer that is missing is not."""
    for each in measured:
        if each.status == "differs" or (each.engine == OURS and each.status != "ok"):
            rule = f"requires equal answers of {OURS} and {each.engine}"
            if each.engine == OURS:
                rule = f"requires an answer of {OURS}"
            raise WeftError(f"{model} {rule}, got: {each.reason}")


def _shown(rows: Sequence[Row]) -> str:
    limits = [row for row in rows if row["kind"] == "limit"]
    engines = [row for row in rows if row["kind"] == "engine"]
    kernels = [row for row in rows if row["kind"] == "kernel"]
    parts = [_shown_limits(limits), _shown_engines(engines)]
    return "\n\n".join([*parts, _shown_kernels(kernels)] if kernels else parts)


def _shown_limits(rows: Sequence[Row]) -> str:
    threads = rows[0]["threads"]
    of = f"{rows[0]['cpu']}, {threads} thread{'s' if threads > 1 else ''}"
    lines: list[list[object]] = [["multiply-add", f"{rows[0]['gflops']} GFLOP/s"]]
    limit_names = dict.fromkeys(row["limit"] for row in rows[1:])
    for limit_name in limit_names:
        cells = [f"{row['level']} {row['gbs']}" for row in rows[1:] if row["limit"] == limit_name]
        lines.append([limit_name, f"{', '.join(cells)} GB/s"])
    advice = calibration_advice(rows[0]["cpu"], host_target().cost.source)
    return "\n".join([f"limits of {of}", *filter(None, [advice]), table(lines)])


def _shown_engines(rows: Sequence[Row]) -> str:
    head = ["engine", "version", "ms", "ratio", "GFLOP/s", "% of FMA", "GB/s", "% of roofline"]
    timed = [
        [
            row["engine"],
            row["version"],
            f"{row['ms']:g}",
            f"{row['ratio']:.2f}",
            f"{row['gflops']:g}",
            f"{row['fma_percent']:g}",
            f"{row['gbs']:g}",
            f"{row['roofline_percent']:g}",
        ]
        for row in rows
        if "ratio" in row
    ]
    others = [
        f"{row['engine']} {row['status']}: {row['reason']}" for row in rows if "reason" in row
    ]
    return "\n".join([table([head, *timed], indent=""), *others])


def _shown_kernels(rows: Sequence[Row]) -> str:
    head = ["kernel", "calls", "ms", "%", "GFLOP/s", "GB/s", "% of roofline", "schedules"]
    cells = [
        [
            row["kernel"],
            str(row["calls"]),
            f"{row['ms']:g}",
            f"{row['share_percent']:g}",
            f"{row['gflops']:g}",
            f"{row['gbs']:g}",
            f"{row['roofline_percent']:g}",
            ", ".join(row["schedules"]),
        ]
        for row in rows
    ]
    return table([head, *cells], indent="")
