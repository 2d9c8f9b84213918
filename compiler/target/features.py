"""What an artifact asks a processor for before any code runs that needs it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from weft.compiler.target import cpuid
from weft.compiler.target.arm import AARCH64
from weft.compiler.target.hwcap import HWCAPS, AuxiliaryEntry
from weft.compiler.target.riscv import RISCV64
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import FEATURE_LEVELS, X86_64

Word = cpuid.Register | AuxiliaryEntry
"""Where 32 bits are that say what a processor has."""

_LEVELS = {
    X86_64.arch: FEATURE_LEVELS,
    AARCH64.arch: (AARCH64.features,),
    RISCV64.arch: (RISCV64.features,),
}


def needed_bits(arch: str, features: Iterable[str]) -> dict[Word, int]:
    """The bits that have to be set in each word for all of the features."""
    if arch == X86_64.arch:
        return {**cpuid.needed_bits(features)}
    bits: dict[Word, int] = {}
    for name in features:
        entry, mask = HWCAPS[arch][name]
        bits[entry] = bits.get(entry, 0) | mask
    return bits


@lru_cache(maxsize=16)
def feature_groups(target: Target) -> tuple[tuple[str, ...], ...]:
    """The features of a target that its processor can be asked for: those of each level of its
    architecture, then the others; nothing where a processor cannot be asked.
    """
    known = cpuid.FEATURES if target.arch == X86_64.arch else HWCAPS.get(target.arch, {})
    have = [name[1:] for name in target.features if name[0] == "+" and name[1:] in known]
    levels = [
        tuple(name[1:] for name in level if name[1:] in have)
        for level in _LEVELS.get(target.arch, ())
    ]
    leveled = {name for level in levels for name in level}
    others = tuple(name for name in have if name not in leveled)
    return tuple(group for group in (*levels, others) if group)


def baseline(target: Target) -> Target:
    """What runs on every processor of the target's architecture, to ask which one it is."""
    for least in (X86_64, AARCH64, RISCV64):
        if target.arch == least.arch:
            return replace(least, triple=target.triple)
    return target
