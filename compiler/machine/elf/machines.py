"""The machines that weft links for."""

from __future__ import annotations

from typing import Final

from weft.compiler.machine.elf.relocation import AARCH64, X86_64
from weft.compiler.machine.elf.riscv import RISCV64

MACHINES: Final = {machine.number: machine for machine in (X86_64, AARCH64, RISCV64)}
"""By the number that ELF files have for them."""
