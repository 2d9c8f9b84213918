"""The machine that this process runs on, as a Target."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.compiler.machine.codegen.calibration import calibration_path, read_calibration
from weft.compiler.machine.codegen.llvm_library import llvm_text
from weft.compiler.target.cost import CostModel
from weft.compiler.target.cpuid import uses_tiles
from weft.compiler.target.native import native_target, table_of
from weft.compiler.target.target import Target
from weft.compiler.target.usable_cores import usable_cores

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

_ARCH_PRCTL: Final = 158
_REQUEST_STATE: Final = 0x1023
_TILE_DATA: Final = 18
"""Linux's call on x86-64 that asks for registers which hold tiles of matrices."""


class HostCpu(Struct, frozen=True):
    """What LLVM detects of this machine: the triple, the CPU's name, and by name which features it
    has; and the table of such a CPU, if there is one.
    """

    triple: str
    name: str
    features: dict[str, bool]
    table: Target | None

    @property
    def calibration(self) -> Path:
        """The file of what was measured on it."""
        return calibration_path(self.name, self.features)


@cache
def host_cpu() -> HostCpu:
    """The CPU that LLVM detects."""
    triple, name = llvm_text("GetProcessTriple"), llvm_text("GetHostCPUName")
    listed = [each for each in llvm_text("GetHostCPUFeatures").split(",") if each]
    features = {each[1:]: each[0] == "+" for each in listed}
    tiles = [feature for feature in features if uses_tiles(feature)]
    if any(features[feature] for feature in tiles) and not _has_permission():
        features |= dict.fromkeys(tiles, False)
    return HostCpu(triple, name, features, table_of(triple.split("-", 1)[0], name, features))


def host_target(threads: int | None = None, *, calibrated: bool = True) -> Target:
    """The CPU that LLVM detects, and the cores that this process may use (or `threads`). Its costs
    are those of its table, else what `weft calibrate` measured, unless `calibrated` is false, else
    those of its generic level. Raises OptionError for measured costs that cannot be read.
    """
    cpu = host_cpu()
    reads = calibrated and cpu.table is None
    measured = read_calibration(cpu.calibration) if reads else None
    return _target(threads or usable_cores(), measured)


@cache
def _target(cores: int, measured: CostModel | None) -> Target:
    cpu = host_cpu()
    return native_target(cpu.triple, cpu.name, cpu.features, _cache_sizes(), cores, measured)


@cache
def _has_permission() -> bool:
    """Asks the system once whether this process may use registers of tiles."""
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0


@cache
def _cache_sizes() -> dict[str, int]:
    """Data cache sizes by field of Target; what the system does not tell keeps its default."""
    sizes: dict[str, int] = {}
    for entry in sorted(_CACHES.glob("index*")):
        if (entry / "type").read_text().strip() == "Instruction":
            continue
        level, size = (entry / "level").read_text().strip(), (entry / "size").read_text().strip()
        sizes[f"l{level}_bytes"] = int(size.removesuffix("K")) * 1024
    return {
        name: size for name, size in sizes.items() if name in ("l1_bytes", "l2_bytes", "l3_bytes")
    }
