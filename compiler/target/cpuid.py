"""Where an x86-64 processor says what it has: the bit of CPUID for each feature, by the name that
LLVM has for it, and what the system has to save for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

EAX, EBX, ECX, EDX = range(4)


class Register(Struct, frozen=True, order=True):
    """A register after CPUID of a leaf and its subleaf."""

    leaf: int
    subleaf: int
    number: int


STATE: Final = Register(-1, 0, EAX)
"""The low half of XCR0: the registers that the system saves, read where it lets programs do so."""

XSAVE: Final = (Register(1, 0, ECX), 1 << 27)
"""Whether XCR0 can be read."""

_NAMES: Final = {
    Register(1, 0, ECX): {
        "sse3": 0, "pclmul": 1, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20,
        "movbe": 22, "popcnt": 23, "aes": 25, "xsave": 27, "avx": 28, "f16c": 29,
    },
    Register(7, 0, EBX): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19, "avx512ifma": 21,
        "avx512cd": 28, "sha": 29, "avx512bw": 30, "avx512vl": 31,
    },
    Register(7, 0, ECX): {
        "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512vnni": 11,
        "avx512bitalg": 12, "avx512vpopcntdq": 14,
    },
    Register(7, 0, EDX): {
        "avx512vp2intersect": 8, "amx-bf16": 22, "avx512fp16": 23, "amx-tile": 24, "amx-int8": 25,
    },
    Register(7, 1, EAX): {"sha512": 0, "avxvnni": 4, "avx512bf16": 5, "avxifma": 23},
    Register(7, 1, EDX): {"avxvnniint8": 4, "avxneconvert": 5, "avxvnniint16": 10},
    Register(0x80000001, 0, ECX): {
        "sahf": 0, "lzcnt": 5, "sse4a": 6, "xop": 11, "fma4": 16, "tbm": 21,
    },
}  # fmt: skip

_AVX_STATE: Final = 0x06
_AVX512_STATE: Final = 0xE6
TILE_STATE: Final = 0x60000
"""The bits of XCR0 for registers that hold tiles, which Linux lets a process use that asks."""

_IN_AVX_STATE: Final = ("f16c", "fma", "fma4", "vaes", "vpclmulqdq", "xop")

FEATURES: Final = {
    name: (register, 1 << bit) for register, bits in _NAMES.items() for name, bit in bits.items()
}
"""What code generators choose instructions by; others have to be asked for by name."""


def uses_tiles(feature: str) -> bool:
    """Whether a feature is of registers that hold tiles of matrices."""
    return feature.startswith("amx")


def needed_bits(features: Iterable[str]) -> dict[Register, int]:
    """The bits that have to be set in each register for all of the features."""
    bits: dict[Register, int] = {}
    for name in features:
        register, bit = FEATURES[name]
        bits[register] = bits.get(register, 0) | bit
        if state := _saved_state(name):
            bits[STATE] = bits.get(STATE, 0) | state
    return bits


def _saved_state(feature: str) -> int:
    if uses_tiles(feature):
        return TILE_STATE
    if feature.startswith("avx512"):
        return _AVX512_STATE
    return _AVX_STATE if feature.startswith("avx") or feature in _IN_AVX_STATE else 0
