"""64-bit Arm CPUs on Linux; vectors are those of NEON, 128 bits wide. A CPU is a table: its name is
LLVM's, its features what LLVM takes it to have and may use in code like ours.

Where a comment names no other source, pipes and latencies are those of Arm's software optimisation
guide of the core, caches and TLBs those of its technical reference manual, and bandwidths of caches
and of memory for one core are estimates. All cores read four fifths of what the channels carry.
"""

from __future__ import annotations

from weft.compiler.target.cost import CostModel
from weft.compiler.target.target import Target

_TRIPLE = "aarch64-unknown-linux-gnu"

_V82 = ("+neon", "+crc", "+dotprod", "+fullfp16", "+lse", "+rcpc", "+rdm")

_V84 = (
    "+neon", "+bf16", "+complxnum", "+crc", "+dotprod", "+fp16fml", "+fullfp16", "+i8mm", "+jsconv",
    "+lse", "+rcpc", "+rcpc-immo", "+rdm", "+sve",
)  # fmt: skip

_M1 = (
    "+neon", "+altnzcv", "+complxnum", "+crc", "+dotprod", "+fp16fml", "+fptoint", "+fullfp16",
    "+jsconv", "+lse", "+rcpc", "+rcpc-immo", "+rdm", "+sha3",
)  # fmt: skip

AARCH64 = Target(
    name="aarch64",
    triple=_TRIPLE,
    cpu="generic",
    features=("+neon",),
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
)

CORTEX_A76 = Target(
    name="cortex-a76",
    triple=_TRIPLE,
    cpu="cortex-a76",
    features=_V82,
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
    l1_bytes=64 * 1024,
    l2_bytes=512 * 1024,
    l3_bytes=2 * 1024 * 1024,  # of four cores of a BCM2712
    cost=CostModel(
        source="cortex-a76",
        ghz=2.4,  # a BCM2712
        load_ports=2.0,
        store_ports=1.0,  # of 2 pipes that load or store; vectors leave through one
        l1_associativity=4,
        l2_associativity=8,
        l3_associativity=16,
        l2_bandwidth=16.0,
        l3_bandwidth=8.0,
        l1_tlb=48,
        l2_tlb=1280,
        memory_gbs=9.0,
        total_memory_gbs=13.0,  # 32 bits of LPDDR4X-4267
    ),
)

NEOVERSE_N1 = Target(
    name="neoverse-n1",
    triple=_TRIPLE,
    cpu="neoverse-n1",
    features=_V82,
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
    l1_bytes=64 * 1024,
    l2_bytes=1024 * 1024,
    l3_bytes=32 * 1024 * 1024,  # of the whole chip: a Graviton2
    cost=CostModel(
        source="neoverse-n1",
        ghz=2.5,  # a Graviton2
        load_ports=2.0,
        store_ports=1.0,
        l1_associativity=4,
        l2_associativity=8,
        l3_associativity=16,
        l2_bandwidth=24.0,
        l3_bandwidth=8.0,
        l1_tlb=48,
        l2_tlb=1280,
        memory_gbs=18.0,
        total_memory_gbs=160.0,  # 8 channels of DDR4-3200
    ),
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
    l3_bytes=32 * 1024 * 1024,  # of the whole chip: a Graviton3
    cost=CostModel(
        source="neoverse-v1",
        ghz=2.6,  # a Graviton3
        fma_ports=4,  # of NEON; two of SVE's 256 bits
        load_ports=3.0,
        store_ports=2.0,
        l1_associativity=4,
        l2_associativity=8,
        l3_associativity=16,
        l2_bandwidth=32.0,
        l3_bandwidth=10.0,
        l1_tlb=48,
        l2_tlb=2048,
        memory_gbs=25.0,
        total_memory_gbs=245.0,  # 8 channels of DDR5-4800
    ),
)

APPLE_M1 = Target(
    name="apple-m1",
    triple=_TRIPLE,
    cpu="apple-m1",
    features=_M1,
    vector_bytes=16,
    vector_registers=32,
    has_fma=True,
    # Of a fast core; it has a quarter of the 12 MB that four of them share, and the system's cache.
    l1_bytes=128 * 1024,
    l2_bytes=3 * 1024 * 1024,
    l3_bytes=8 * 1024 * 1024,
    cost=CostModel(
        source="apple-m1",
        # Apple says little: clock, pages and lines are what the system reports, the rest what
        # measurements of the Firestorm core found that are public.
        ghz=3.1,
        fma_ports=4,
        load_ports=3.0,
        store_ports=2.0,
        line=128,
        l1_associativity=8,
        l2_associativity=12,
        l3_associativity=16,
        l2_bandwidth=32.0,
        l3_bandwidth=16.0,
        page=16384,
        l1_tlb=160,
        l2_tlb=3072,
        memory_gbs=55.0,
        total_memory_gbs=58.0,  # 128 bits of LPDDR4X-4267
    ),
)

ARM_TARGETS = (AARCH64, CORTEX_A76, NEOVERSE_N1, NEOVERSE_V1, APPLE_M1)
