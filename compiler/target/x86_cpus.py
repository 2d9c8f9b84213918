"""x86-64 CPUs on Linux. A CPU is a table: its name is LLVM's, its features what LLVM takes it to
have of those that a processor can be asked for.

Where a comment names no other source, ports and latencies are those of uops.info, caches and TLBs
those of the vendor's optimisation manual (Intel's 248966, AMD's guides of families 17h, 19h and
1Ah), and sustained bandwidths of L2 and L3 Intel's own or what these guides give as the width of
the bus, less a fifth. The clock is that of all cores busy on servers. One core's bandwidth of
memory is an estimate where nothing else is said; all cores read four fifths of what the channels
carry.
"""

from __future__ import annotations

from msgspec.structs import replace

from weft.compiler.target.cost import CostModel
from weft.compiler.target.cpuid import FEATURES
from weft.compiler.target.target import Target
from weft.compiler.target.x86 import FEATURE_LEVELS, TRIPLE, WHOLE_VECTORS

_KB = 1024
_MB = 1024 * _KB

_V2, _V3, _V4 = FEATURE_LEVELS
_AVX2 = (*_V2, *_V3, "+pclmul")
_ZEN2 = (*_AVX2, "+adx", "+aes", "+sha", "+sse4a")
_ZEN3 = (*_ZEN2, "+vaes", "+vpclmulqdq")
_SKYLAKE = (*_AVX2, *_V4, "+adx", "+aes")
_AVX512 = (
    "+avx512bitalg", "+avx512ifma", "+avx512vbmi", "+avx512vbmi2", "+avx512vnni",
    "+avx512vpopcntdq", "+gfni",
)  # fmt: skip
_ICE_LAKE = (*_SKYLAKE, *_AVX512, "+sha", "+vaes", "+vpclmulqdq")
_ZEN4 = (*_ZEN3, *_V4, *_AVX512, "+avx512bf16")


def _exactly(*features: str) -> tuple[str, ...]:
    """These features and no other that a processor is asked for, so that code never needs what an
    artifact does not ask: LLVM may take the CPU to have more.
    """
    others = (f"-{name}" for name in FEATURES if f"+{name}" not in features)
    return (*others, *features)


HASWELL = Target(
    name="haswell",
    triple=TRIPLE,
    cpu="haswell",
    features=_exactly(*_AVX2),
    vector_bytes=32,
    vector_registers=16,
    has_fma=True,
    l1_bytes=32 * _KB,
    l2_bytes=256 * _KB,
    l3_bytes=25 * _MB,  # 2.5 MB a core: ten cores
    factor_registers=1,
    cost=CostModel(
        source="haswell",
        ghz=2.9,
        fma_latency=5,
        l2_bandwidth=25.0,
        l3_bandwidth=14.0,
        l3_associativity=20,
        l2_tlb=1024,
        memory_gbs=11.0,
        total_memory_gbs=55.0,  # 4 channels of DDR4-2133
    ),
)

SKYLAKE_X = Target(
    name="skylake-avx512",
    triple=TRIPLE,
    cpu="skylake-avx512",
    features=(*_exactly(*_SKYLAKE), WHOLE_VECTORS),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    l1_bytes=32 * _KB,
    l2_bytes=1 * _MB,
    l3_bytes=33 * _MB,  # 1.375 MB a core: 24 cores
    factor_registers=1,
    cost=CostModel(
        source="skylake-avx512",
        ghz=2.7,
        l2_associativity=16,
        l3_associativity=11,
        l2_bandwidth=52.0,
        l3_bandwidth=15.0,
        memory_gbs=12.0,
        total_memory_gbs=100.0,  # 6 channels of DDR4-2666
    ),
)

CASCADE_LAKE = replace(
    SKYLAKE_X,  # whose core it has
    name="cascadelake",
    cpu="cascadelake",
    features=(*_exactly(*_SKYLAKE, "+avx512vnni"), WHOLE_VECTORS),
    cost=replace(SKYLAKE_X.cost, source="cascadelake", total_memory_gbs=110.0),
)

ICE_LAKE = Target(
    name="icelake-server",
    triple=TRIPLE,
    cpu="icelake-server",
    features=(*_exactly(*_ICE_LAKE), WHOLE_VECTORS),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    l1_bytes=48 * _KB,
    l2_bytes=1280 * _KB,
    l3_bytes=48 * _MB,  # 1.5 MB a core: 32 cores
    factor_registers=1,
    cost=CostModel(
        source="icelake-server",
        ghz=2.8,
        l1_associativity=12,
        l2_associativity=20,
        l3_associativity=12,
        l2_bandwidth=48.0,
        l3_bandwidth=15.0,
        l2_tlb=2048,
        memory_gbs=13.0,
        total_memory_gbs=160.0,  # 8 channels of DDR4-3200
    ),
)

SAPPHIRE_RAPIDS = Target(
    name="sapphirerapids",
    triple=TRIPLE,
    cpu="sapphirerapids",
    features=(
        *_exactly(
            *_ICE_LAKE,
            "+amx-bf16",
            "+amx-int8",
            "+amx-tile",
            "+avx512bf16",
            "+avx512fp16",
            "+avxvnni",
        ),
        WHOLE_VECTORS,
    ),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    l1_bytes=48 * _KB,
    l2_bytes=2 * _MB,
    l3_bytes=90 * _MB,  # 1.875 MB a core: 48 cores
    factor_registers=1,
    cost=CostModel(
        source="sapphirerapids",
        bf16_dots=0.25,
        ghz=2.8,
        l1_associativity=12,
        l2_associativity=16,
        l3_associativity=15,
        l2_bandwidth=48.0,
        l3_bandwidth=10.0,
        l1_tlb=96,
        l2_tlb=2048,
        memory_gbs=13.0,
        total_memory_gbs=245.0,  # 8 channels of DDR5-4800
    ),
)

ZEN_2 = Target(
    name="znver2",
    triple=TRIPLE,
    cpu="znver2",
    features=_exactly(*_ZEN2),
    vector_bytes=32,
    vector_registers=16,
    has_fma=True,
    l1_bytes=32 * _KB,
    l2_bytes=512 * _KB,
    l3_bytes=16 * _MB,  # of the four cores of a complex
    factor_registers=1,
    cost=CostModel(
        source="znver2",
        ghz=3.2,
        fma_latency=5,
        l2_bandwidth=26.0,
        l3_bandwidth=16.0,
        l2_tlb=2048,
        memory_gbs=20.0,
        total_memory_gbs=160.0,  # 8 channels of DDR4-3200
    ),
)

ZEN_3 = Target(
    name="znver3",
    triple=TRIPLE,
    cpu="znver3",
    features=_exactly(*_ZEN3),
    vector_bytes=32,
    vector_registers=16,
    has_fma=True,
    l1_bytes=32 * _KB,
    l2_bytes=512 * _KB,
    l3_bytes=32 * _MB,  # of the eight cores of a complex
    factor_registers=1,
    cost=CostModel(
        source="znver3",
        ghz=3.2,  # measured: 103 GFLOP/s
        l2_bandwidth=26.0,
        l3_bandwidth=20.0,
        l2_tlb=2048,
        memory_gbs=37.0,  # measured: a matrix times a vector
        total_memory_gbs=160.0,  # 8 channels of DDR4-3200
    ),
)

ZEN_4 = Target(
    name="znver4",
    triple=TRIPLE,
    cpu="znver4",
    features=(*_exactly(*_ZEN4), WHOLE_VECTORS),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    l1_bytes=32 * _KB,
    l2_bytes=1 * _MB,
    l3_bytes=32 * _MB,  # of the eight cores of a complex
    factor_registers=1,
    cost=CostModel(
        source="znver4",
        bf16_dots=1.0,
        # Units, loads and stores are 256 bits wide: half as many vectors of 512 a cycle. Measured
        # by `weft calibrate` on an EPYC 9004: all but the TLBs and the memory of all cores.
        ghz=3.7,
        fma_ports=1,
        load_ports=1.0,
        store_ports=0.5,
        l2_bandwidth=30.0,
        l3_bandwidth=21.0,
        l1_tlb=72,
        l2_tlb=3072,
        memory_gbs=29.0,
        total_memory_gbs=370.0,  # 12 channels of DDR5-4800
    ),
)

ZEN_5 = Target(
    name="znver5",
    triple=TRIPLE,
    cpu="znver5",
    features=(*_exactly(*_ZEN4, "+avx512vp2intersect", "+avxvnni"), WHOLE_VECTORS),
    vector_bytes=64,
    vector_registers=32,
    has_fma=True,
    l1_bytes=48 * _KB,
    l2_bytes=1 * _MB,
    l3_bytes=32 * _MB,  # of the eight cores of a complex
    factor_registers=1,
    cost=CostModel(
        source="znver5",
        bf16_dots=1.0,
        # Of servers and desktops; the units of cores for mobile computers are 256 bits wide.
        ghz=4.0,
        l1_associativity=12,
        l2_associativity=16,
        l2_bandwidth=52.0,
        l3_bandwidth=20.0,
        l1_tlb=96,
        l2_tlb=4096,
        memory_gbs=35.0,
        total_memory_gbs=460.0,  # 12 channels of DDR5-6000
    ),
)

X86_CPUS = (
    HASWELL, SKYLAKE_X, CASCADE_LAKE, ICE_LAKE, SAPPHIRE_RAPIDS, ZEN_2, ZEN_3, ZEN_4, ZEN_5,
)  # fmt: skip
