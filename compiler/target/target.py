"""What the code is generated for: one frozen value that schedules and the
emitter take their numbers from.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.target.cost import CostModel

LINE = 64
"""Bytes of a line of the caches."""

PAGE = 4096
"""Bytes of a page of memory, and of what one way of a first cache holds: lines so far apart are in
each other's way there.
"""


class Target(Struct, frozen=True):
    """A CPU as the compiler sees it: what there is of it, and in `cost` what takes how long. Sizes
    are bytes; that of the last cache is the share of a complex of cores. `cores` is what schedules
    plan for, not what a call uses. `factor_registers` are what factors on their way into
    multiply-adds take up: few where these read a factor from memory.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l3_bytes: int = 8 * 1024 * 1024
    cores: int = 1
    factor_registers: int = 3
    cost: CostModel = CostModel()

    @property
    def fma_latency(self) -> int:
        """Cycles until the next multiply-add can use the sum of one."""
        return self.cost.fma_latency

    @property
    def fma_ports(self) -> int:
        """Multiply-adds of vectors that start in a cycle."""
        return self.cost.fma_ports

    @property
    def arch(self) -> str:
        """The architecture of the triple, as in `x86_64`."""
        return self.triple.split("-", 1)[0]

    @property
    def feature_string(self) -> str:
        """The features in LLVM's `+a,-b` notation."""
        return ",".join(self.features)

    @property
    def has_f16(self) -> bool:
        """Whether one instruction converts between f16 and f32."""
        return self.arch == "aarch64" or "+f16c" in self.features

    @property
    def has_scale(self) -> bool:
        """Whether vectors of 512 bits are scaled by powers of two, clamped and permuted in one
        instruction each, which are those of AVX-512.
        """
        return "+avx512f" in self.features and "+avx512dq" in self.features

    @property
    def has_masks(self) -> bool:
        """Whether to store some lanes of a vector takes no longer than to store all."""
        return "+avx512f" in self.features

    def exact(self) -> Target:
        """The target without products of bf16, which take what is too small for a normal number for
        zero.
        """
        left_out = ("+avx512bf16", "+amx-bf16")
        return replace(self, features=tuple(n for n in self.features if n not in left_out))

    def has_dot_products(self, terms: int) -> bool:
        """Whether the products of words, which are of so many terms, are added in less time than
        one by one: those of two bf16 by an instruction for that, where it is quick or registers
        hold tiles of large products; those of four bytes by those of two 16 bits each, which any
        x86 has, where there is no other.
        """
        if terms != 2:
            return self.arch == "x86_64"
        is_quick = terms * self.cost.bf16_dots > 1 or self.has_matrix_products(terms)
        return is_quick and {"+avx512bf16", "+avx512vl"} <= set(self.features)

    def has_bf16_conversions(self, lanes: int) -> bool:
        """Whether one instruction rounds to bf16, or multiplies these, in so many lanes."""
        return "+avx512bf16" in self.features and (lanes == 16 or "+avx512vl" in self.features)

    def has_dot_instruction(self, lanes: int) -> bool:
        """Whether one instruction does that with bytes in so many lanes."""
        if 32 * lanes == 512 or "+avxvnni" not in self.features:
            return "+avx512vnni" in self.features and (lanes == 16 or "+avx512vl" in self.features)
        return lanes in (4, 8)

    def has_matrix_products(self, terms: int) -> bool:
        """Whether one instruction multiplies matrices that registers hold tiles of, whose words are
        of two bf16 or four bytes.
        """
        tiles = "+amx-bf16" if terms == 2 else "+amx-int8"
        return tiles in self.features and "+amx-tile" in self.features

    @property
    def has_few_registers(self) -> bool:
        """Whether tiles do few multiply-adds for each term, and constants have no room beside them:
        16 vector registers or fewer.
        """
        return self.vector_registers <= 16

    def lanes(self, element_bytes: int) -> int:
        """How many elements of the given size one vector register holds, at least one."""
        return max(1, self.vector_bytes // element_bytes)
