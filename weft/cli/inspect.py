"""`weft inspect`: what a model or an artifact takes, does and needs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from weft.bench.timing import median_ms
from weft.cli.arrays import add_random_dims, random_inputs
from weft.cli.drawing.tree import drawn_tree
from weft.cli.model import (
    add_compile_options,
    executable_from,
    is_artifact,
    progressing_from,
)
from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes, shown_flops, table
from weft.cli.terminal import show
from weft.cli.why import shown_plans
from weft.compiler.loop.kernel_schedule import KernelSchedule
from weft.compiler.machine.artifact.artifact import check_runs_on, load, read_metadata
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.python.executable import Executable
from weft.compiler.target.native import calibration_advice
from weft.compiler.target.usable_cores import usable_cores
from weft.dialects.errors import OptionError

_EXAMPLES: Final = """\
examples:
  weft inspect libmodel.so             read from the artifact, which is not loaded
  weft inspect model.onnx              compiled anew: the times of the stages too
  weft inspect model.onnx --time       and how long a call takes
  weft inspect model.onnx --schedules > my.txt       edit it, then
  weft compile model.onnx --schedule my.txt
  weft inspect model.onnx --why matmul           why products are scheduled as they are
  weft inspect model.onnx --passes     what each pass did
  weft inspect model.onnx --tree       every call of a kernel with the nodes that it computes
  weft inspect libmodel.so --roofline  kernels against what this machine computes and moves
  weft inspect libmodel.so --json | python -m json.tool
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft inspect",
        "Shows signature, operators, kernels, flops, bytes and the memory plan.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file, or a shared object made by weft")
    made.add_argument("--json", action="store_true", help="everything, as one JSON object")
    made.add_argument("--time", action="store_true", help="run it on random inputs, take the time")
    made.add_argument(
        "--schedules",
        metavar="KERNEL",
        nargs="?",
        const="",
        help="print the primitives that made each kernel, or those that start with KERNEL",
    )
    made.add_argument(
        "--why",
        metavar="KERNEL",
        nargs="?",
        const="",
        help="the plans of each product and convolution, or those that start with KERNEL, by the "
        "time that the model of the CPU expects of them",
    )
    made.add_argument(
        "--passes",
        action="store_true",
        help="what each pass did: operators before and after, time, what changed",
    )
    made.add_argument("--tree", action="store_true", help="draw what a call runs, in order")
    made.add_argument(
        "--roofline",
        action="store_true",
        help="profile it on random inputs, measure the machine, and draw each kernel between both",
    )
    add_random_dims(made)
    made.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="for --time and --roofline; by default one for each processor",
    )
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Prints what is known of the model. Raises WeftError."""
    if arguments.schedules is not None:
        show(_schedules(arguments), end="")
        return
    if arguments.why is not None:
        show(_why(arguments))
        return
    if arguments.passes:
        show(_passes(arguments))
        return
    if arguments.roofline:
        show(_roofline(arguments))
        return
    metadata, executable = _metadata(arguments)
    if arguments.tree:
        show(drawn_tree(metadata))
        return
    if executable is not None:
        inputs = random_inputs(executable.inputs, 0, arguments)
        metadata["run_ms"] = median_ms(executable, inputs)
    show(json.dumps(metadata, indent=1) if arguments.json else _shown(metadata))


def _roofline(arguments: argparse.Namespace) -> str:
    """The kernels of a call on random inputs, and the limits of as many threads."""
    from weft.bench.limits import measure_limits
    from weft.cli.drawing.roofline import drawn_roofline

    threads = arguments.threads or usable_cores()
    executable = executable_from(argparse.Namespace(**{**vars(arguments), "threads": threads}))
    profile = executable.profile(random_inputs(executable.inputs, 0, arguments))
    return drawn_roofline(profile, measure_limits(threads))


def _schedules(arguments: argparse.Namespace) -> str:
    """The schedules of a model's kernels as a file for --schedule."""
    from weft.compiler.driver.pipeline import plan_model
    from weft.compiler.loop.schedule_file import format_schedules

    if is_artifact(arguments.model):
        raise OptionError(f"--schedules requires a model, got the artifact {arguments.model}")
    with progressing_from(arguments) as start:
        session = start()
        plan_model(arguments.model, session)
    steps = session.report.steps
    chosen = [name for name in steps if name.startswith(arguments.schedules)]
    if not chosen:
        shown_steps = ", ".join(steps)
        raise OptionError(
            f"--schedules requires a kernel out of {shown_steps}, got {arguments.schedules}"
        )
    return format_schedules(KernelSchedule(name, steps[name]) for name in chosen)


def _why(arguments: argparse.Namespace) -> str:
    """The plans of the contractions of a model's kernels."""
    from weft.compiler.driver.pipeline import naive_kernels

    if is_artifact(arguments.model):
        raise OptionError(f"--why requires a model, got the artifact {arguments.model}")
    with progressing_from(arguments) as start:
        options = start().options
        kernels = naive_kernels(arguments.model, options)
    chosen = {name: text for name, text in kernels.items() if name.startswith(arguments.why)}
    if not chosen:
        names = ", ".join(kernels)
        raise OptionError(f"--why requires a kernel out of {names}, got {arguments.why}")
    return shown_plans(chosen, options.target, as_json=arguments.json)


def _passes(arguments: argparse.Namespace) -> str:
    """A row for each pass; with --json as JSON."""
    from weft.compiler.driver.pipeline import plan_model

    if is_artifact(arguments.model):
        raise OptionError(f"--passes requires a model, got the artifact {arguments.model}")
    with progressing_from(arguments) as start:
        session = start()
        plan_model(arguments.model, session)
    if arguments.json:
        return json.dumps([asdict(record) for record in session.report.passes], indent=1)
    rows: list[list[object]] = [["pass", "before", "after", "time", "changes"]]
    for record in session.report.passes:
        changes = [f"{name.removeprefix('graph.')} {by:+}" for name, by in record.changes.items()]
        shown = (
            f"{1e3 * record.seconds:.1f} ms",
            "; ".join(filter(None, [", ".join(changes), *record.notes])),
        )
        rows.append([record.name, record.before, record.after, *shown])
    return table([[str(cell) for cell in row] for row in rows])


def _metadata(arguments: argparse.Namespace) -> tuple[dict[str, Any], Executable | None]:
    """The metadata, and with --time the executable."""
    path, threads = arguments.model, arguments.threads
    if is_artifact(path):
        metadata = {"file_bytes": os.path.getsize(path)} | read_metadata(path)
        return metadata, load(path, host_target(), threads=threads) if arguments.time else None
    from weft.compiler.driver.pipeline import compile_model

    with progressing_from(arguments) as start:
        session = start()
        compiled = compile_model(path, session.options, session)
    metadata = dict(compiled.metadata) | {
        "code_bytes": {name: len(data) for name, data in compiled.objects.items()},
        "stage_seconds": session.report.seconds,
    }
    if not arguments.time:
        return metadata, None
    check_runs_on(host_target(), compiled.metadata, path)
    return metadata, compiled.executable(threads)


def _shown(metadata: Mapping[str, Any]) -> str:
    levels = metadata.get("levels", [])
    sections = [
        f"{metadata['prefix']}: weft {metadata['weft']}, ABI {metadata['abi']}, "
        f"{metadata['triple']}, {metadata['cpu']}{_costs(metadata)}",
        _section("levels", [[each["name"], " ".join(each["features"])] for each in levels]),
        _section("inputs", [_tensor_row(tensor) for tensor in metadata["inputs"]]),
        _section("outputs", [_tensor_row(tensor) for tensor in metadata["outputs"]]),
        _section("operators", [[count, name] for name, count in metadata["operators"].items()]),
        _section("kernels", _kernel_rows(metadata["kernels"])),
        _section("side by side", _concurrent_rows(metadata.get("concurrent", []))),
        _section("memory", _memory_rows(metadata)),
        _section("totals", _total_rows(metadata)),
    ]
    if "stage_seconds" in metadata:
        rows = [[f"{1e3 * s:.1f} ms", name] for name, s in metadata["stage_seconds"].items()]
        sections.append(_section("stages", rows))
    return "\n\n".join(section for section in sections if section)


def _costs(metadata: Mapping[str, Any]) -> str:
    """Whose costs decided what was compiled, where these are not the CPU's own."""
    source = metadata["costs"]["source"]
    advice = calibration_advice(metadata["cpu"], source)
    return f", {source} costs\n{advice}" if advice else ""


def _section(title: str, rows: Sequence[Sequence[object]]) -> str:
    return f"{title}\n{table(rows)}" if rows else ""


def _tensor_row(tensor: Mapping[str, Any]) -> list[object]:
    return [tensor["name"], tensor["dtype"], f"[{', '.join(map(str, tensor['dims']))}]"]


def _kernel_rows(kernels: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    return [
        [
            kernel["name"],
            f"{kernel['calls']} x",
            shown_flops(kernel["flops"]),
            shown_bytes(kernel["bytes"]),
            ", ".join(dict.fromkeys([*kernel["schedules"], *_refusals(kernel)])),
        ]
        for kernel in kernels
    ]


def _refusals(kernel: Mapping[str, Any]) -> list[str]:
    return [f"no {refusal}" for refusal in kernel.get("refused", ())]


def _concurrent_rows(groups: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Groups of branches, by number of threads what the model says that they take one after the
    other and side by side, and the kernels of each branch.
    """
    rows: list[list[object]] = []
    for number, group in enumerate(groups, 1):
        rows.append([f"group {number}", f"with {group['least']} to {group['most']} threads"])
        for threads, (apart, together) in group["modelled"].items():
            times = f"{apart / 1e3:.1f} us apart, {together / 1e3:.1f} us together"
            rows.append(["", f"{threads} threads: {times}"])
        for branch in group["branches"]:
            rows.append(["", f"branch: {', '.join(branch)}"])
    return rows


def _memory_rows(metadata: Mapping[str, Any]) -> list[list[object]]:
    """The plan: each buffer's place in the arena and the operations that it lives through."""
    return [
        [
            f"at {buffer['offset']}",
            shown_bytes(buffer["bytes"]),
            f"steps {buffer['first']} to {buffer['last']}",
            buffer["name"],
        ]
        for buffer in metadata["memory"]
    ]


def _total_rows(metadata: Mapping[str, Any]) -> list[list[object]]:
    kernels = metadata["kernels"]
    rows: list[list[object]] = [
        [sum(kernel["calls"] for kernel in kernels), "kernel calls"],
        [_total([kernel["flops"] for kernel in kernels], shown_flops), "computed"],
        [_total([kernel["bytes"] for kernel in kernels], shown_bytes), "read and written"],
        [shown_bytes(_weight_bytes(metadata["weights"])), "weights"],
        [shown_bytes(metadata["workspace_bytes"]), "workspace at its peak"],
    ]
    if "self_test" in metadata:
        rows.append([_self_test(metadata["self_test"]), "self-test"])
    if "file_bytes" in metadata:
        rows.append([shown_bytes(metadata["file_bytes"]), "file"])
    if "code_bytes" in metadata:
        rows.append([shown_bytes(sum(metadata["code_bytes"].values())), "objects"])
    if "run_ms" in metadata:
        rows.append([f"{metadata['run_ms']:.3f} ms", "a call"])
    return [[str(cell) for cell in row] for row in rows]


def _self_test(metadata: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in metadata["sizes"].items())
    where = f" for {sizes}" if sizes else ""
    return (
        f"{shown_bytes(metadata['bytes'])} of {metadata['inputs']} inputs and their outputs{where}"
    )


def _weight_bytes(weights: Sequence[Mapping[str, Any]]) -> int:
    """The bytes of all weights; what is stored at one place is there once."""
    return sum({weight["offset"]: weight["bytes"] for weight in weights}.values())


def _total(counts: Sequence[int | str], shown: Any) -> str:
    """A sum; what depends on symbols is added up only where all of it is numbers."""
    numbers = [count for count in counts if isinstance(count, int)]
    symbolic = len(counts) - len(numbers)
    return shown(sum(numbers)) if not symbolic else f"as of {symbolic} symbolic kernels above"
