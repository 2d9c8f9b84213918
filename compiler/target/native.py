"""The machine that a process runs on, as a Target, from what LLVM and the system say of it."""

from __future__ import annotations

from collections.abc import Mapping

from weft.compiler.target import TARGETS
from weft.compiler.target.cost import GENERIC, CostModel
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import WHOLE_VECTORS

NATIVE = "native"
"""The name of the target of this machine."""


def native_target(
    triple: str,
    cpu: str,
    features: Mapping[str, bool],
    caches: Mapping[str, int],
    cores: int,
    calibrated: CostModel | None = None,
) -> Target:
    """A target named `native`, for the CPU and the features that LLVM detects. `caches` are sizes
    in bytes by the fields of Target.

    A CPU with a table has its costs and its caches, so that it makes the same choices on every
    machine; the last cache is smaller where there is less of it. Another has the caches that are
    detected, and costs that were `calibrated`, or else those of its generic level.
    """
    arch = triple.split("-", 1)[0]
    table = table_of(arch, cpu, features)
    if table is not None:
        last = min(table.l3_bytes, caches.get("l3_bytes", table.l3_bytes))
        caches = {"l1_bytes": table.l1_bytes, "l2_bytes": table.l2_bytes, "l3_bytes": last}
        # Linux names few features of an Arm CPU.
        features = {name[1:]: True for name in table.features if name[0] == "+"} | dict(features)
    vector_bytes, has_fma = _vectors(arch, features)
    listed = tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return Target(
        name=NATIVE,
        triple=triple,
        cpu=cpu,
        features=(*listed, WHOLE_VECTORS) if vector_bytes == 64 else listed,
        vector_bytes=vector_bytes,
        vector_registers=32 if vector_bytes == 64 or arch == "aarch64" else 16,
        has_fma=has_fma,
        factor_registers=1 if has_fma and arch == "x86_64" else 3,
        cores=cores,
        cost=(table or generic_level(arch, features)).cost if calibrated is None else calibrated,
        **caches,
    )


def table_of(arch: str, cpu: str, features: Mapping[str, bool]) -> Target | None:
    """The table of a CPU by LLVM's name; None where there is none, and where the machine hides
    features of that CPU, whose vectors may be others then.
    """
    found = (each for each in TARGETS if (each.arch, each.cpu) == (arch, cpu))
    return next((each for each in found if _has_features(each, features)), None)


def generic_level(arch: str, features: Mapping[str, bool]) -> Target:
    """The last level of an architecture that has no more features than these; the first target of
    all for one that weft does not know.
    """
    levels = [each for each in TARGETS if each.arch == arch and each.cost.source == GENERIC]
    able = [
        each
        for each in levels
        if all(features.get(name[1:], False) for name in each.features if name[0] == "+")
    ]
    return [*levels[:1], *able][-1] if levels else TARGETS[0]


def calibration_advice(cpu: str, source: str) -> str:
    """A line for whoever sees a CPU by LLVM's name and the source of its costs: what measures them
    where nobody did; nothing where they are its own, or it is no CPU but a level.
    """
    levels = (each.cpu for each in TARGETS if each.cost.source == GENERIC)
    if source != GENERIC or cpu in levels:
        return ""
    return f"{cpu} has no table of costs: `weft calibrate` measures them in some seconds"


def _has_features(target: Target, features: Mapping[str, bool]) -> bool:
    """Whether nothing that the target has is known to be missing."""
    return all(features.get(name[1:], True) for name in target.features if name[0] == "+")


def _vectors(arch: str, features: Mapping[str, bool]) -> tuple[int, bool]:
    """Bytes of a vector register, and whether multiply-add is one instruction."""
    if arch == "aarch64":
        return 16, True
    has_fma = features.get("fma", False)
    if features.get("avx512f", False) and features.get("avx512vl", False):
        return 64, has_fma
    return (32 if features.get("avx2", False) else 16), has_fma
