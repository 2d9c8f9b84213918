"""The machine that this process runs on, as a Target."""

from __future__ import annotations

import os
from pathlib import Path

from llvmlite import binding

from weft.compiler.target.native import native_target
from weft.compiler.target.target import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def host_target(threads: int | None = None) -> Target:
    """The CPU that LLVM detects, its caches, and the cores that this process may use (or
    `threads`).
    """
    return native_target(
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features(),
        _cache_sizes(),
        threads or len(os.sched_getaffinity(0)),
    )


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
