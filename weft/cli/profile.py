"""`weft profile`: where the time of a call goes, as a table and as a trace."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from weft.cli.arrays import add_input_options, random_inputs, read_archive, read_inputs
from weft.cli.drawing.drawn import drawn_table, shown_share
from weft.cli.drawing.ranks import drawn_ranks
from weft.cli.model import add_compile_options, executables_from
from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes, shown_flops
from weft.cli.terminal import show
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.machine.python.executable import Executable
from weft.compiler.machine.python.profile import Profile, Row
from weft.dialects.weights import Array
from weft.distributed import pipeline
from weft.distributed.profiles import RankProfiles
from weft.distributed.world import simulate, world

_EXAMPLES: Final = """\
examples:
  weft profile libmodel.so                              a table by kernel, on random inputs
  weft profile model.onnx --by node                     by the nodes of the model
  weft profile libmodel.so --inputs x.npz -o trace.json then open it in ui.perfetto.dev
  weft profile bert.onnx --random-dim batch=1 --random-dim sequence=128 --threads 2
  weft profile libmodel.so --json | python -m json.tool
  weft profile model.onnx --mesh data=2 --shard x=data  ranks as threads, beside one another

The artifact itself reads the clock where kernels begin: it is the one that is deployed, and a
kernel costs some 30 ns more. What is shown is the call of median duration. `ms` is the time in
which a thread was at a kernel, or waited for others in it; with several threads `busy` is what
all of them computed. Kernels that run side by side overlap, so that percentages may add up to
more than 100. From C, give a context a function with m_set_profile (docs/abi.md).
"""

CALLS: Final = 25

_BY: Final[Mapping[str, Callable[[Profile], list[Row]]]] = {
    "kernel": Profile.by_kernel,
    "operator": Profile.by_operator,
    "node": Profile.by_node,
}


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft profile",
        "Shows where the time of a call goes: each thread's kernels, waiting and what is between.",
        _EXAMPLES,
    )
    made.add_argument("model", help="a model, or an artifact made by weft")
    made.add_argument(
        "-o", "--output", metavar="FILE", type=Path,
        help="write a trace in Chrome's JSON there, which ui.perfetto.dev opens: a track for each "
        "thread with nodes, flops and bytes of kernels, and the memory in use",
    )  # fmt: skip
    made.add_argument(
        "--by", choices=list(_BY), action="append",
        help="rows of the table; for several tables, again; kernel by default",
    )  # fmt: skip
    made.add_argument(
        "--calls", type=int, default=CALLS, metavar="N", help=f"to be profiled: {CALLS} by default"
    )
    made.add_argument("--threads", type=int, metavar="N", help="by default one for each processor")
    made.add_argument(
        "--inputs", metavar="FILE", help="arrays by input in NumPy's .npz; random ones for the rest"
    )
    add_input_options(made)
    made.add_argument("--seed", type=int, default=0, help="of random inputs: 0 by default")
    made.add_argument("--json", action="store_true", help="tables and spans as one JSON object")
    add_compile_options(made)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Profiles and prints. Raises WeftError and OSError."""
    metadata, make = executables_from(arguments)
    if "mesh" in metadata:
        _run_ranks(arguments, metadata, make)
        return
    executable = make()
    inputs = _inputs(arguments, executable)
    profile = executable.profile(inputs, calls=arguments.calls)
    if arguments.output is not None:
        profile.save_trace(arguments.output)
    if arguments.json:
        show(json.dumps(as_json(profile), indent=1))
        return
    tables = [
        drawn_table(f"{profile.prefix} by {by}", *_cells(_BY[by](profile), profile, by))
        for by in arguments.by or ["kernel"]
    ]
    show("\n".join([_head(profile), *tables]))
    if arguments.output is not None:
        show(f"trace: {arguments.output}")


def _run_ranks(
    arguments: argparse.Namespace, metadata: Mapping[str, Any], make: Callable[[], Executable]
) -> None:
    """Profiles a model for a mesh on ranks that are threads of this process, and prints what they
    did beside one another.
    """
    mesh = read_mesh(metadata["mesh"]["axes"])
    assert mesh is not None, "a mesh has axes"
    arguments.threads = arguments.threads or 1

    def profiled() -> Profile:
        executable = make()
        pipeline.join_stages(executable, world())
        return executable.profile(_inputs(arguments, executable), calls=arguments.calls)

    together = RankProfiles.of(simulate(mesh.ranks, profiled))
    if arguments.output is not None:
        together.save_trace(arguments.output)
    if arguments.json:
        pairs = zip(together.profiles, together.offsets, strict=True)
        found = [
            {"rank": rank, "begin": start, **as_json(profile)}
            for rank, (profile, start) in enumerate(pairs)
        ]
        show(json.dumps({"mesh": metadata["mesh"], "ranks": found}, indent=1))
        return
    show(drawn_ranks(together))
    if arguments.output is not None:
        show(f"trace: {arguments.output}")


def _inputs(arguments: argparse.Namespace, executable: Executable) -> dict[str, Array]:
    """The arrays of files, and random ones for the rest."""
    specs = executable.inputs
    given = {} if arguments.inputs is None else read_archive(arguments.inputs)
    given |= read_inputs(specs, arguments.input)
    drawn = [spec for spec in specs if spec.name not in given]
    return given | random_inputs(drawn, arguments.seed, arguments)


def as_json(profile: Profile) -> dict[str, Any]:
    """Everything that is known: nanoseconds, and numbers or null for work."""
    median = profile.median
    spans = [asdict(span) | {"name": profile.name(span)} for span in median.spans]
    return {
        "model": profile.prefix,
        "nanoseconds": median.duration,
        "calls": [call.duration for call in profile.calls],
        "threads": list(median.threads),
        "kernel_calls": [asdict(call) for call in profile.kernel_calls],
        "spans": spans,
        **{by: [asdict(row) for row in rows(profile)] for by, rows in _BY.items()},
    }


def _head(profile: Profile) -> str:
    median, calls = profile.median, len(profile.calls)
    shortest = min(call.duration for call in profile.calls)
    threads = len(median.threads)
    return (
        f"{_milliseconds(median.duration)} ms, the median of {calls} calls "
        f"(least {_milliseconds(shortest)}), {threads} thread{'s' if threads > 1 else ''}"
    )


def _cells(rows: Sequence[Row], profile: Profile, by: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table."""
    duration, several = profile.median.duration, len(profile.median.threads) > 1
    head = [by, "runs", "ms", "%", "", *(["busy"] if several else []), "flops", "bytes", "GFLOP/s"]
    cells = [
        [
            row.name,
            str(row.runs or ""),
            _milliseconds(row.wall),
            f"{100 * row.wall / duration:.1f}",
            shown_share(row.wall / duration),
            *([_milliseconds(row.busy)] if several else []),
            *_work(row),
        ]
        for row in rows
    ]
    return head, cells


def _work(row: Row) -> list[str]:
    if not row.runs:
        return ["", "", ""]
    return [
        "?" if row.flops is None else shown_flops(row.flops),
        "?" if row.bytes is None else shown_bytes(row.bytes),
        "" if not row.flops else f"{row.flops / row.wall:.3g}",
    ]


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.4g}" if nanoseconds >= 1e6 else f"{nanoseconds / 1e6:.4f}"
