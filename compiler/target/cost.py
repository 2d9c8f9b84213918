"""What a CPU takes to compute, to move bytes and to start work: the numbers that models of time
take from the target, so that a CPU that behaves otherwise is another table and no other code.
"""

from __future__ import annotations

from msgspec import Struct

GENERIC = "generic"
"""The source of costs that are those of no CPU in particular."""

CALIBRATED = "calibrated"
"""The source of costs that `weft calibrate` measured."""


class CostModel(Struct, frozen=True, kw_only=True):
    """The costs of one core, by default those of a generic level: about a server's of 2020. Sizes
    of caches are the Target's own, and so is the vector that ports count.

    source: the CPU whose table it is, GENERIC, or CALIBRATED.

    ghz: the clock under vector code, all cores busy, in cycles a nanosecond.

    fma_ports: multiply-adds of vectors that start in a cycle.

    fma_latency: cycles until the next multiply-add can use the sum of one.

    bf16_dots: dot products of two bf16 in each lane that start for each multiply-add of f32.

    load_ports, store_ports: vectors a cycle between L1 and registers; 0.5 is one in two cycles.

    line: bytes of a line of the caches.

    l1_associativity, l2_associativity, l3_associativity: lines of a set, for which addresses
    compete that are a multiple of bytes / associativity apart.

    l2_bandwidth, l3_bandwidth: bytes a cycle that a core reads from there when it reads on and on.

    l1_tlb, l2_tlb: pages whose addresses the TLBs of data have, pages of `page` bytes.

    memory_gbs, total_memory_gbs: GB/s that one core reads from memory, and that all cores of a
    socket do.

    call_ns: nanoseconds of a call of a kernel that does nothing.

    parallel_ns, parallel_each_ns: nanoseconds of a parallel section some microseconds behind the
    one before, and for each thread more.

    page_fault_ns: nanoseconds until a page that is touched for the first time is there.
    """

    source: str = GENERIC
    ghz: float = 3.0
    fma_ports: int = 2
    fma_latency: int = 4
    bf16_dots: float = 0.5
    load_ports: float = 2.0
    store_ports: float = 1.0
    line: int = 64
    l1_associativity: int = 8
    l2_associativity: int = 8
    l3_associativity: int = 16
    l2_bandwidth: float = 32.0
    l3_bandwidth: float = 8.0
    page: int = 4096
    l1_tlb: int = 64
    l2_tlb: int = 1536
    memory_gbs: float = 24.0
    total_memory_gbs: float = 100.0
    call_ns: float = 60.0
    parallel_ns: float = 1500.0
    parallel_each_ns: float = 100.0
    page_fault_ns: float = 250.0
