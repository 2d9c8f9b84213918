"""What the loop level says of layouts, as the program level asks for it; the passes over both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from weft.compiler.graph_to_loop.naive_kernels import canonicalize_kernel, copy_kernel
from weft.compiler.loop.halos import Halo, border_kernel, halo_of, with_types, without_padding
from weft.compiler.loop.layouts import (
    Traffic,
    blocked,
    conversion_traffic,
    reads_windows,
    with_layouts,
)
from weft.compiler.loop.schedules.contraction import rows_of_versions
from weft.compiler.loop.schedules.gemm.problem import FEW_ROWS
from weft.compiler.program.layouts.assign_layouts import AssignLayouts
from weft.compiler.program.layouts.choose_layouts import BufferTypes, choose_layouts
from weft.compiler.program.layouts.kernel_table import name_variants
from weft.compiler.program.layouts.place_halos import place_halos
from weft.compiler.program.memory.update_in_place import drop_copies
from weft.compiler.program.split_versions import split_versions
from weft.compiler.target.module_target import target_of
from weft.compiler.target.target import Target
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import BufferType


class TargetLayouts(Struct):
    """The layouts that pay on a target, by the model of traffic of the loop level."""

    target: Target
    _traffic: dict[KernelOp, Traffic] = msgspec.field(default_factory=dict[KernelOp, Traffic])

    def candidate(self, buffer_type: BufferType) -> BufferType | None:
        return blocked(buffer_type, self.target)

    def wants(self, kernel: KernelOp) -> bool:
        return reads_windows(kernel)

    def cost(self, kernel: KernelOp, blocked: Sequence[bool]) -> float:
        if kernel not in self._traffic:
            self._traffic[kernel] = Traffic(kernel, self.target)
        return self._traffic[kernel].cost(blocked)

    def conversion(self, buffer_type: BufferType) -> float:
        return conversion_traffic(buffer_type)

    def variant(self, kernel: KernelOp, buffer_types: BufferTypes) -> KernelOp:
        return with_layouts(kernel, buffer_types, self.target)

    def copy(self, source: BufferType, target: BufferType) -> KernelOp:
        return copy_kernel(source, target)


class KernelHalos:
    """The borders that kernels put around their operands, as the loop level finds them."""

    def halo(self, kernel: KernelOp, position: int) -> Halo | None:
        return halo_of(kernel, position)

    def unpadded(self, kernel: KernelOp, position: int) -> KernelOp:
        return without_padding(kernel, position)

    def retyped(self, kernel: KernelOp, buffer_types: tuple[BufferType, ...]) -> KernelOp:
        return with_types(kernel, buffer_types)

    def border(self, buffer_type: BufferType, halo: Halo) -> KernelOp:
        return border_kernel(buffer_type, halo)


class SplitVersionsPass(ModulePass):
    """Splits products of a number of rows that only a call knows into versions for few and many."""

    name = "weft-split-versions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        split_versions(op, partial(rows_of_versions, target=target_of(op)), FEW_ROWS)


class DropCopiesPass(ModulePass):
    """Gives naive kernels that start by copying an operand one buffer for it and the result."""

    name = "weft-drop-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        drop_copies(op, canonicalize_kernel)


class AssignLayoutsPass(ModulePass):
    """Brings every argument of a call into the layout that its kernel reads it in."""

    name = "weft-assign-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        AssignLayouts(_conversion).run(op)


def _conversion(source: BufferType, target: BufferType) -> KernelOp:
    """The kernel that copies between two layouts while the program runs."""
    kernel = copy_kernel(source, target)
    canonicalize_kernel(kernel)
    return kernel


class PlaceHalosPass(ModulePass):
    """Lets buffers be within the border that a kernel would put around a copy."""

    name = "weft-place-halos"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        place_halos(op, KernelHalos())


class ChooseLayoutsPass(ModulePass):
    """Gives the buffers between kernels the layouts in which these do best."""

    name = "weft-choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        choose_layouts(op, TargetLayouts(target_of(op)))


class NameVariantsPass(ModulePass):
    """Names the variants of kernels that passes made after what they do; equal ones become one."""

    name = "weft-name-variants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        name_variants(op, canonicalize_kernel)
