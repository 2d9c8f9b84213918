"""`weft plan`: what a call of a model takes on the ranks of a mesh, by a model of the CPU and of
what connects them; no rank is started.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict, replace
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.utils.hints import isa

from weft.cli.arrays import random_inputs
from weft.cli.model import add_compile_options, executable_from, progressing_from
from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes, table
from weft.cli.terminal import show
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.loop_to_llvm.program.emit import workspace_bytes
from weft.compiler.program.describe import describe_collectives
from weft.compiler.program.memory.plan_memory import buffer_bytes
from weft.compiler.program.predict_step import Prediction, Program, predict_step, program_of
from weft.compiler.target.wire import MEMORY, Wire
from weft.dialects.errors import OptionError
from weft.dialects.loop.dynamic import SubviewOp, weight_of
from weft.dialects.loop.program import INPUTS_CUT, OUTPUTS_CUT, ProgramOp, donated_pairs
from weft.dialects.loop.types import buffer_type_of

_EXAMPLES: Final = """\
examples:
  weft plan model.onnx --mesh data=64,model=8 --shard x=data --alpha 2us --beta 12GB/s
  weft plan vit.onnx --mesh stage=2 --stage /blocks.5/Add_1=1 --alpha 30us --beta 1.1GB/s
"""

MEASURED_CALLS: Final = 8
"""Of which the fastest counts."""

MOST_COLLECTIVES: Final = 16
"""Collectives that are shown one by one."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft plan",
        "Predicts what a call of a model takes on the ranks of a mesh: time, memory and bytes on "
        "the wire, from the scheduled program, and what bounds it.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file")
    made.add_argument(
        "--alpha", default="2us", metavar="TIME", help="what a message takes, 2us by default"
    )
    made.add_argument(
        "--beta", default="12GB/s", metavar="RATE", help="bytes of a wire, 12GB/s by default"
    )
    made.add_argument("--threads", type=int, default=1, help="of each rank, one by default")
    made.add_argument(
        "--measure",
        action="store_true",
        help="call the model on this machine alone first; calls of ranks then take as many times "
        "what the model of the CPU says as these did",
    )
    made.add_argument("--json", action="store_true", help="everything, as one JSON object")
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Prints the prediction. Raises WeftError."""
    wire = Wire.written(arguments.alpha, arguments.beta)
    if arguments.threads < 1:
        raise OptionError(f"plan requires a thread or more, got {arguments.threads}")
    what = _program(arguments)
    if arguments.measure:
        what = replace(what, scale=_measured_scale(arguments))
    found = _described(what, predict_step(what, wire))
    show(json.dumps(found, indent=1) if arguments.json else _shown(found, arguments))


def _program(arguments: argparse.Namespace) -> Program:
    """The planned program of the command line's model and mesh."""
    with progressing_from(arguments) as start:
        session = start()
        module = plan_model(arguments.model, session).module
    return program_of(module, read_mesh(session.options.mesh), arguments.threads)


def _measured_scale(arguments: argparse.Namespace) -> float:
    """How many times as long as predicted calls of the model on one rank take."""
    alone = argparse.Namespace(**vars(arguments), random_dim=[])
    alone.mesh = alone.shard = alone.stage = None
    executable = executable_from(alone)
    inputs = random_inputs(executable.inputs, 0, alone)
    times: list[float] = []
    for _ in range(1 + MEASURED_CALLS):
        begin = time.perf_counter()
        executable(**inputs)
        times.append(time.perf_counter() - begin)
    return min(times[1:]) / predict_step(_program(alone), MEMORY).step


def _described(what: Program, found: Prediction) -> dict[str, Any]:
    workspace = workspace_bytes(what.program).constant or 0
    count, donated = what.program.inputs.data, {target for _, target in donated_pairs(what.program)}
    arguments = [buffer_bytes(buffer_type_of(each)) for each in what.program.body.block.args]
    kept = [size for at, size in enumerate(arguments) if at - count not in donated]
    handed = sum(size.constant or 0 for size in kept)
    slowest = max(found.ranks, key=lambda each: sum(each.parts.values()))
    bound = max(slowest.parts, key=lambda name: slowest.parts[name])
    total = sum(slowest.parts.values())
    return {
        "mesh": str(what.mesh or ""),
        "ranks": what.mesh.ranks if what.mesh else 1,
        "first_s": found.first,
        "step_s": found.step,
        "scale": what.scale,
        "bound": bound,
        "bound_share": slowest.parts[bound] / total if total else 0.0,
        "workspace_bytes": workspace,
        "argument_bytes": handed,
        "cut": dict(_cut(what.program)),
        "collectives": describe_collectives(what.program),
        "stages": [
            {
                **asdict(each),
                "weight_bytes": weights,
                "memory_bytes": workspace + handed + weights,
            }
            for each, weights in zip(found.ranks, found.weights, strict=True)
        ],
    }


def _cut(program: ProgramOp) -> Iterator[tuple[str, str]]:
    """The axes of each dim of inputs and outputs that are cut, and how many parts weights have."""
    written = [
        each.data
        for name in (INPUTS_CUT, OUTPUTS_CUT)
        if isa(listed := program.attributes.get(name), ArrayAttr[StringAttr])
        for each in listed
    ]
    for argument, axes in zip(program.body.block.args, written, strict=False):
        if axes:
            yield argument.name_hint or "output", axes
    for op in program.walk():
        if isinstance(op, SubviewOp) and (weight := weight_of(op.result)) is not None:
            parts = buffer_type_of(weight.result).shape[0]
            yield weight.key.data, f"{parts} parts, as each rank reads one"


def _together(found: Mapping[str, Any]) -> Sequence[Sequence[object]]:
    """What ranks do together: those with the most bytes, for nodes, and what all others are."""
    collectives: Sequence[Mapping[str, Any]] = found["collectives"]
    most = sorted(collectives, key=lambda each: -each["bytes"])
    rows: list[Sequence[object]] = [
        [each["operation"], each["ranks"], shown_bytes(each["bytes"]), each["node"] or ""]
        for each in most[:MOST_COLLECTIVES]
    ]
    rest = most[MOST_COLLECTIVES:]
    if rest:
        total = shown_bytes(sum(each["bytes"] for each in rest))
        rows.append([f"{len(rest)} others", "", total, ""])
    return rows


def _shown(found: Mapping[str, Any], arguments: argparse.Namespace) -> str:
    stages: Sequence[Mapping[str, Any]] = found["stages"]
    scaled = [["measured", f"{found['scale']:.3g} of what the model says"]]
    mesh = f" ({found['mesh']})" if found["mesh"] else ""
    rows = [
        ["step", _time(found["step_s"])],
        ["first call", _time(found["first_s"])],
        *(scaled if arguments.measure else []),
        ["bound by", f"{found['bound']}, {100 * found['bound_share']:.0f} % of the slowest rank"],
        ["sent by a rank", shown_bytes(max(each["sent"] for each in stages))],
        ["memory of a rank", shown_bytes(max(each["memory_bytes"] for each in stages))],
        ["  workspace", shown_bytes(found["workspace_bytes"])],
        ["  inputs, outputs", shown_bytes(found["argument_bytes"])],
        ["  weights", shown_bytes(max(each["weight_bytes"] for each in stages))],
    ]
    names = ("computing", "memory", "latency", "bytes", "stages")
    heads = ["stage", "arithmetic", "memory", "latency", "bandwidth", "waiting", "messages", "sent"]
    each_stage: list[list[object]] = [[f"{head}" for head in heads]]
    for number, each in enumerate(stages):
        times = [_time(each[name]) for name in names]
        each_stage.append([number, *times, each["messages"], shown_bytes(each["sent"])])
    wire = f"messages of {arguments.alpha} and {arguments.beta}"
    head = f"{found['ranks']} ranks{mesh} of {arguments.threads} threads, {wire}"
    text = f"{head}\n{table(rows)}\n\na rank in one call\n{table(each_stage)}"
    if found["cut"]:
        text += f"\n\nwhat is cut\n{table(list(found['cut'].items()))}"
    if found["collectives"]:
        heads = ["operation", "ranks", "bytes", "for the node"]
        text += f"\n\nwhat ranks do together\n{table([heads, *_together(found)])}"
    return text


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
