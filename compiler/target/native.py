"""The machine that a process runs on, as a Target, from what LLVM and the system say of it."""

from __future__ import annotations

from collections.abc import Mapping

from weft.compiler.target.target import Target


def native_target(
    triple: str, cpu: str, features: Mapping[str, bool], caches: Mapping[str, int], cores: int
) -> Target:
    """A target named `native`, for the CPU and the features that LLVM detects. `caches` are sizes
    in bytes by the fields of Target.
    """
    arch = triple.split("-", 1)[0]
    vector_bytes, has_fma = _vectors(arch, features)
    return Target(
        name="native",
        triple=triple,
        cpu=cpu,
        features=tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())),
        vector_bytes=vector_bytes,
        vector_registers=32 if vector_bytes == 64 or arch == "aarch64" else 16,
        has_fma=has_fma,
        factor_registers=1 if has_fma and arch == "x86_64" else 3,
        cores=cores,
        **caches,
    )


def _vectors(arch: str, features: Mapping[str, bool]) -> tuple[int, bool]:
    """Bytes of a vector register, and whether multiply-add is one instruction."""
    if arch == "aarch64":
        return 16, True
    has_fma = features.get("fma", False)
    if features.get("avx512f", False) and features.get("avx512vl", False):
        return 64, has_fma
    return (32 if features.get("avx2", False) else 16), has_fma
