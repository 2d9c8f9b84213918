"""64-bit Arm CPUs on Linux; vectors are those of NEON, 128 bits wide."""

from __future__ import annotations

from weft.compiler.target.target import Target

_TRIPLE = "aarch64-unknown-linux-gnu"

_V84 = (
    "+neon", "+bf16", "+complxnum", "+crc", "+dotprod", "+fp16fml", "+fullfp16", "+i8mm", "+jsconv",
    "+lse", "+rcpc", "+rcpc-immo", "+rdm", "+sve",
)  # fmt: skip
"""What LLVM takes a Neoverse V1 to have and may use in code like ours."""

AARCH64 = Target(
    name="aarch64",
    triple=_TRIPLE,
    cpu="generic",
    features=("+neon",),
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
)

NEOVERSE_V1 = Target(
    name="neoverse-v1",
    triple=_TRIPLE,
    cpu="neoverse-v1",
    features=_V84,
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
    l1_bytes=64 * 1024,
    l2_bytes=1024 * 1024,
    l3_bytes=32 * 1024 * 1024,
    fma_ports=4,
)

ARM_TARGETS = (AARCH64, NEOVERSE_V1)
