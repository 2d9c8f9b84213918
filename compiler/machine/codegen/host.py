"""The machine that this process runs on, as a Target."""

from __future__ import annotations

import os
from pathlib import Path

from llvmlite import binding

from compiler.target.target import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def host_target(threads: int | None = None) -> Target:
    """The CPU that LLVM detects, its caches, and the cores that this process may use (or
    `threads`).
    """
    features = binding.get_host_cpu_features()
    arch = binding.get_process_triple().split("-", 1)[0]
    caches = _cache_sizes()
    wide, fused = _vectors(arch, features)
    return Target(
        name="native",
        triple=binding.get_process_triple(),
        cpu=binding.get_host_cpu_name(),
        features=tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())),
        vector_bytes=wide,
        vector_registers=32 if wide == 64 or arch == "aarch64" else 16,
        has_fma=fused,
        factor_registers=1 if fused and arch == "x86_64" else 3,
        cores=threads or len(os.sched_getaffinity(0)),
        **caches,
    )


def _vectors(arch: str, features: dict[str, bool]) -> tuple[int, bool]:
    """Bytes of a vector register, and whether multiply-add is one instruction."""
    if arch == "aarch64":
        return 16, True
    fused = features.get("fma", False)
    if features.get("avx512f", False) and features.get("avx512vl", False):
        return 64, fused
    return (32 if features.get("avx2", False) else 16), fused


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
