"""Where Linux says what an aarch64 or riscv64 processor has, and the system lets programs use: the
bits of the auxiliary vector for each feature, by the name that LLVM has for it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class AuxiliaryEntry(Struct, frozen=True, order=True):
    """An entry of the auxiliary vector, of which the low half is read."""

    type: int


HWCAP: Final = AuxiliaryEntry(16)
HWCAP2: Final = AuxiliaryEntry(26)

_AARCH64: Final = {
    HWCAP: {
        "fp-armv8": (0,), "neon": (1,), "aes": (3, 4), "sha2": (5, 6), "crc": (7,), "lse": (8,),
        "fullfp16": (9, 10), "rdm": (12,), "jsconv": (13,), "complxnum": (14,), "rcpc": (15,),
        "ccpp": (16,), "sha3": (17, 21), "sm4": (18, 19), "dotprod": (20,), "sve": (22,),
        "fp16fml": (23,), "dit": (24,), "rcpc-immo": (26,), "flagm": (27,), "ssbs": (28,),
        "sb": (29,),
    },
    HWCAP2: {
        "sve2": (1,), "altnzcv": (7,), "fptoint": (8,), "i8mm": (13,), "bf16": (14,),
        "rand": (16,), "bti": (17,),
    },
}  # fmt: skip

_RISCV64: Final = {HWCAP: {letter: (ord(letter) - ord("a"),) for letter in "acdfmv"}}

HWCAPS: Final = {
    arch: {
        name: (entry, sum(1 << bit for bit in bits))
        for entry, names in entries.items()
        for name, bits in names.items()
    }
    for arch, entries in (("aarch64", _AARCH64), ("riscv64", _RISCV64))
}
"""What code generators choose instructions by; others have to be asked for by name."""
