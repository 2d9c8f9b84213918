"""`weft calibrate`: what this machine's CPU takes, for models of time that have no table of it."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from msgspec.structs import asdict

from weft.bench.calibrate import calibrate
from weft.cli.parser import command_parser
from weft.cli.progress import stage_progress
from weft.cli.table import table
from weft.cli.terminal import show, tell
from weft.compiler.machine.codegen.calibration import write_calibration
from weft.compiler.machine.codegen.host import HostCpu, host_cpu, host_target
from weft.compiler.target.cost import CostModel

_EXAMPLES: Final = """\
examples:
  weft calibrate           some seconds; what is compiled from then on is for these costs
  weft calibrate --json

A CPU that weft knows by name has a table of costs, so that one compiles the same code on every
machine that has it. What is measured of such a CPU is printed beside its table, and nothing is
kept. Of others it is kept in the cache's folder ($WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or
~/.cache/weft), and is a part of the target `native`; remove the file to have the generic costs
back. Numbers are rounded to two digits. Nothing else should run meanwhile.
"""

UNITS: Final = {
    "ghz": "GHz",
    "fma_ports": "vectors a cycle",
    "fma_latency": "cycles",
    "load_ports": "vectors a cycle",
    "store_ports": "vectors a cycle",
    "l2_bandwidth": "bytes a cycle",
    "l3_bandwidth": "bytes a cycle",
    "memory_gbs": "GB/s",
    "total_memory_gbs": "GB/s",
    "parallel_ns": "ns",
    "page_fault_ns": "ns",
}
"""Of what is measured."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft calibrate",
        "Measures what this machine's CPU takes to compute, to move bytes and to start threads.",
        _EXAMPLES,
    )
    made.add_argument("--json", action="store_true", help="the costs as one JSON object")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Measures, prints, and keeps what there is no table of. Raises WeftError and OSError."""
    cpu = host_cpu()
    target = host_target(calibrated=False)
    with stage_progress() as on_step:
        measured = calibrate(target, on_step)
    if cpu.table is None:
        write_calibration(cpu.calibration, cpu.name, measured)
    if arguments.json:
        show(json.dumps(_content(cpu, measured, target.cost), indent=1))
        return
    show(_shown(cpu, measured, target.cost))
    if cpu.table is None:
        tell(f"{cpu.calibration}: costs of {cpu.name}")


def _content(cpu: HostCpu, measured: CostModel, assumed: CostModel) -> dict[str, Any]:
    path = None if cpu.table else str(cpu.calibration)
    return {
        "cpu": cpu.name,
        "path": path,
        "measured": {name: value for name, value in asdict(measured).items() if name in UNITS},
        assumed.source: {name: value for name, value in asdict(assumed).items() if name in UNITS},
    }


def _shown(cpu: HostCpu, measured: CostModel, assumed: CostModel) -> str:
    before = "table" if cpu.table else "generic"
    rows = [
        [name, f"{getattr(measured, name):g}", f"{getattr(assumed, name):g}", unit]
        for name, unit in UNITS.items()
    ]
    kept = "which has a table: nothing is kept" if cpu.table else "which has no table"
    return f"{cpu.name}, {kept}\n{table([['', 'measured', before, ''], *rows])}"
