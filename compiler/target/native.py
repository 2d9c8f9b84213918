"""The machine that a process runs on, as a Target, from what LLVM and the system say of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from weft.compiler.target import TARGETS
from weft.compiler.target.cost import CALIBRATED, GENERIC, CostModel
from weft.compiler.target.cpuid import uses_tiles
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import WHOLE_VECTORS

_ONLY_AMD = "sse4a"
"""A feature of all CPUs of one vendor and of none of the other."""

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
    machine. Another has the caches that are detected, and costs that were `calibrated`, or else
    those of the nearest table. The last cache, which others may share, is none larger than the
    table's.
    """
    arch = triple.split("-", 1)[0]
    table = table_of(arch, cpu, features)
    nearest = table or nearest_table(arch, features)
    if nearest.cost.source != GENERIC:
        last = min(nearest.l3_bytes, caches.get("l3_bytes", nearest.l3_bytes))
        caches = {**caches, "l3_bytes": last}
    if table is not None:
        caches = {**caches, "l1_bytes": table.l1_bytes, "l2_bytes": table.l2_bytes}
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
        cost=nearest.cost if calibrated is None else calibrated,
        **caches,
    )


def table_of(arch: str, cpu: str, features: Mapping[str, bool]) -> Target | None:
    """The table of a CPU by LLVM's name; None where there is none, and where the machine hides
    features of that CPU, whose vectors may be others then.
    """
    found = (each for each in TARGETS if (each.arch, each.cpu) == (arch, cpu))
    return next((each for each in found if _has_features(each, features)), None)


def nearest_table(arch: str, features: Mapping[str, bool]) -> Target:
    """For a CPU that has no table: of the CPUs with vectors of 512 bits that have none but these
    features, on x86-64 of the same vendor, the one with the most. A virtual machine may give a CPU
    the name of an older one, and LLVM has several names for one core. Those of narrower vectors are
    of a decade, so that they have the last level of the architecture; one that weft does not know
    has the first target of all.
    """
    amd = features.get(_ONLY_AMD, False)
    able = [
        each
        for each in TARGETS
        if each.arch == arch and all(features.get(name, False) for name in _needed(each))
    ]
    wide = [
        each
        for each in able
        if each.vector_bytes == 64
        and each.cost.source != GENERIC
        and (_ONLY_AMD in _needed(each)) == amd
    ]
    levels = [each for each in TARGETS if each.arch == arch and each.cost.source == GENERIC]
    able_levels = [each for each in levels if each in able]
    first = levels[:1] or TARGETS[:1]
    return [*first, *able_levels, *sorted(wide, key=lambda each: len(_needed(each)))][-1]


@cache
def _needed(target: Target) -> tuple[str, ...]:
    """The features without those of tiles of matrices, which virtual machines often hide: costs of
    vectors are the same without them.
    """
    names = (name[1:] for name in target.features if name[0] == "+")
    return tuple(name for name in names if not uses_tiles(name))


def calibration_advice(cpu: str, source: str) -> str:
    """A line for whoever sees a CPU by LLVM's name and the source of its costs: what measures them
    where nobody did; nothing where they are its own, or it is no CPU but a level.
    """
    levels = (each.cpu for each in TARGETS if each.cost.source == GENERIC)
    if source in (CALIBRATED, cpu) or cpu in levels:
        return ""
    taken = "" if source == GENERIC else f", those of {source} are taken"
    return f"{cpu} has no table of costs{taken}: `weft calibrate` measures them in some seconds"


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
