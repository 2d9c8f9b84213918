"""64-bit RISC-V CPUs on Linux: the general-purpose extensions, without and with vectors."""

from __future__ import annotations

from weft.compiler.target.cost import CostModel
from weft.compiler.target.target import Target

_TRIPLE = "riscv64-unknown-linux-gnu"
_GENERAL = ("+m", "+a", "+f", "+d", "+c")

RISCV64 = Target(
    name="riscv64",
    triple=_TRIPLE,
    cpu="generic-rv64",
    features=_GENERAL,
    vector_bytes=4,
    vector_registers=32,
    has_fma=True,
    cost=CostModel(fma_ports=1, load_ports=1.0),
)

RISCV64_V = Target(
    name="riscv64-v",
    triple=_TRIPLE,
    cpu="generic-rv64",
    features=(*_GENERAL, "+v", "+zvl128b"),
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
    cost=CostModel(fma_ports=1, load_ports=1.0),
)
"""Vectors as long as every processor with the extension has them, 128 bits."""

RISCV_TARGETS = (RISCV64, RISCV64_V)
