"""One pass for each schedule primitive, for golden tests and for trying things out.

    weft-opt -p 'weft-tile{kernel=mm loop=i size=6},weft-reorder{kernel=mm loops=io,k,ii}' mm.mlir

Loops and buffers are found by the names of their values; of several, the first in program order.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from compiler.loop.nest import accesses_in, find_buffer, find_loop
from compiler.loop.primitives import (
    collapse,
    distribute,
    forward,
    fuse,
    fuse_at,
    hoist,
    inline,
    normalize,
    pack,
    panels,
    parallelize,
    reorder,
    split_at,
    split_reduction,
    stage,
    tile,
    unroll,
    vectorize,
)
from dialects.errors import IllegalSchedule
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp
from dialects.loop.types import buffer_type


@dataclass(frozen=True)
class PrimitivePass(ModulePass):
    """Applies a primitive to the kernel of that name."""

    kernel: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Finds the kernel and schedules it."""
        for function in op.ops:
            if isinstance(function, KernelOp) and function.sym_name.data == self.kernel:
                self.schedule(function)
                return
        raise IllegalSchedule(f"{self.name} requires a kernel of the module, got @{self.kernel}")

    @abstractmethod
    def schedule(self, kernel: KernelOp) -> None:
        """Applies the primitive."""


@dataclass(frozen=True)
class TilePass(PrimitivePass):
    """`tile` of a loop."""

    name = "weft-tile"
    loop: str
    size: int

    def schedule(self, kernel: KernelOp) -> None:
        tile(find_loop(kernel, self.loop), self.size)


@dataclass(frozen=True)
class SplitAtPass(PrimitivePass):
    """`split_at` of a loop at a constant point."""

    name = "weft-split-at"
    loop: str
    point: int

    def schedule(self, kernel: KernelOp) -> None:
        split_at(find_loop(kernel, self.loop), self.point)


@dataclass(frozen=True)
class NormalizePass(PrimitivePass):
    """`normalize` of a loop."""

    name = "weft-normalize"
    loop: str

    def schedule(self, kernel: KernelOp) -> None:
        normalize(find_loop(kernel, self.loop))


@dataclass(frozen=True)
class CollapsePass(PrimitivePass):
    """`collapse` of two loops."""

    name = "weft-collapse"
    outer: str
    inner: str

    def schedule(self, kernel: KernelOp) -> None:
        collapse(find_loop(kernel, self.outer), find_loop(kernel, self.inner))


@dataclass(frozen=True)
class ReorderPass(PrimitivePass):
    """`reorder` of perfectly nested loops, given from the outside in."""

    name = "weft-reorder"
    loops: tuple[str, ...]

    def schedule(self, kernel: KernelOp) -> None:
        reorder(*(find_loop(kernel, name) for name in self.loops))


@dataclass(frozen=True)
class DistributePass(PrimitivePass):
    """`distribute` of a loop in front of the operation at that position of its body."""

    name = "weft-distribute"
    loop: str
    position: int

    def schedule(self, kernel: KernelOp) -> None:
        loop = find_loop(kernel, self.loop)
        distribute(loop, _operation(self.name, loop, self.position))


@dataclass(frozen=True)
class HoistPass(PrimitivePass):
    """`hoist` of the operation at that position of a loop's body."""

    name = "weft-hoist"
    loop: str
    position: int

    def schedule(self, kernel: KernelOp) -> None:
        hoist(_operation(self.name, find_loop(kernel, self.loop), self.position))


@dataclass(frozen=True)
class FusePass(PrimitivePass):
    """`fuse` of two neighbouring loops."""

    name = "weft-fuse-loops"
    first: str
    second: str

    def schedule(self, kernel: KernelOp) -> None:
        fuse(find_loop(kernel, self.first), find_loop(kernel, self.second))


@dataclass(frozen=True)
class FuseAtPass(PrimitivePass):
    """`fuse_at` of a producer's nest into a loop of its consumer."""

    name = "weft-fuse-at"
    producer: str
    consumer: str

    def schedule(self, kernel: KernelOp) -> None:
        fuse_at(find_loop(kernel, self.producer), find_loop(kernel, self.consumer))


@dataclass(frozen=True)
class InlinePass(PrimitivePass):
    """`inline` of the first store to a temporary."""

    name = "weft-inline-nest"
    buffer: str

    def schedule(self, kernel: KernelOp) -> None:
        for access in accesses_in(kernel):
            if isinstance(access, StoreOp) and access.buffer is find_buffer(kernel, self.buffer):
                inline(access)
                return
        raise IllegalSchedule(f"{self.name} requires a store to it, got %{self.buffer}")


@dataclass(frozen=True)
class ForwardPass(PrimitivePass):
    """`forward` of the first load of a buffer."""

    name = "weft-forward"
    buffer: str

    def schedule(self, kernel: KernelOp) -> None:
        for access in accesses_in(kernel):
            if isinstance(access, LoadOp) and access.buffer is find_buffer(kernel, self.buffer):
                forward(access)
                return
        raise IllegalSchedule(f"{self.name} requires a load of it, got %{self.buffer}")


@dataclass(frozen=True)
class StagePass(PrimitivePass):
    """`stage` of a buffer at a loop, or for the whole kernel where no loop is named."""

    name = "weft-stage"
    buffer: str
    at: str = ""
    scope: str = "registers"

    def schedule(self, kernel: KernelOp) -> None:
        place = find_loop(kernel, self.at) if self.at else kernel
        stage(find_buffer(kernel, self.buffer), place, self.scope)


@dataclass(frozen=True)
class SplitReductionPass(PrimitivePass):
    """`split_reduction` of a loop."""

    name = "weft-split-reduction"
    loop: str
    parts: int

    def schedule(self, kernel: KernelOp) -> None:
        split_reduction(find_loop(kernel, self.loop), self.parts)


@dataclass(frozen=True)
class PackPass(PrimitivePass):
    """`pack` of a buffer in panels along an axis."""

    name = "weft-pack"
    buffer: str
    axis: int
    width: int

    def schedule(self, kernel: KernelOp) -> None:
        buffer = find_buffer(kernel, self.buffer)
        pack(buffer, panels(buffer_type(buffer), self.axis, self.width))


@dataclass(frozen=True)
class VectorizePass(PrimitivePass):
    """`vectorize` of a loop."""

    name = "weft-vectorize"
    loop: str
    lanes: int

    def schedule(self, kernel: KernelOp) -> None:
        vectorize(find_loop(kernel, self.loop), self.lanes)


@dataclass(frozen=True)
class UnrollPass(PrimitivePass):
    """`unroll` of a loop."""

    name = "weft-unroll"
    loop: str

    def schedule(self, kernel: KernelOp) -> None:
        unroll(find_loop(kernel, self.loop))


@dataclass(frozen=True)
class ParallelizePass(PrimitivePass):
    """`parallelize` of a loop."""

    name = "weft-parallelize"
    loop: str

    def schedule(self, kernel: KernelOp) -> None:
        parallelize(find_loop(kernel, self.loop))


def _operation(who: str, loop: ForOp, position: int) -> Operation:
    ops = list(loop.body.block.ops)
    if not 0 <= position < len(ops):
        raise IllegalSchedule(f"{who} requires a position below {len(ops)}, got {position}")
    return ops[position]


PRIMITIVE_PASSES: tuple[type[PrimitivePass], ...] = (
    TilePass,
    SplitAtPass,
    NormalizePass,
    CollapsePass,
    ReorderPass,
    DistributePass,
    HoistPass,
    FusePass,
    FuseAtPass,
    InlinePass,
    ForwardPass,
    StagePass,
    SplitReductionPass,
    PackPass,
    VectorizePass,
    UnrollPass,
    ParallelizePass,
)
