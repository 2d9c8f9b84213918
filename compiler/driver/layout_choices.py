"""What the loop level says of layouts, as the program level asks for it; the pass over both."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from compiler.graph_to_loop.lower_graph import canonicalize_kernel, copy_kernel
from compiler.loop.halos import Halo, border_kernel, halo_of, with_types, without_padding
from compiler.loop.layouts import (
    Traffic,
    blocked,
    conversion_traffic,
    reads_windows,
    with_layouts,
)
from compiler.loop.schedules import GENERIC
from compiler.program.layouts.assign_layouts import AssignLayouts
from compiler.program.layouts.choose_layouts import Kinds, LayoutChoices, choose_layouts
from compiler.program.layouts.kernel_table import name_variants
from compiler.program.layouts.place_halos import HaloChoices, place_halos
from compiler.program.memory.update_in_place import drop_copies
from compiler.target.target import Target
from dialects.loop.program import KernelOp
from dialects.loop.types import BufferType


def layout_choices(target: Target) -> LayoutChoices:
    """The layouts that pay on a target."""

    known: dict[KernelOp, Traffic] = {}

    def cost(kernel: KernelOp, kinds: Kinds) -> float:
        if kernel not in known:
            known[kernel] = Traffic(kernel, target)
        return known[kernel].cost(kinds)

    return LayoutChoices(
        lambda kind: blocked(kind, target),
        reads_windows,
        cost,
        conversion_traffic,
        lambda kernel, kinds: with_layouts(kernel, kinds, target),
        copy_kernel,
    )


def halo_choices() -> HaloChoices[Halo]:
    """The borders that kernels put around their operands."""

    return HaloChoices(
        halo_of,
        Halo.around,
        Halo.within,
        without_padding,
        with_types,
        border_kernel,
    )


def place_buffers(module: ModuleOp, target: Target) -> None:
    """Chooses layouts and borders, then gives variants of kernels their names."""
    choose_layouts(module, layout_choices(target))
    place_halos(module, halo_choices())
    name_variants(module, canonicalize_kernel)


@dataclass(frozen=True)
class DropCopiesPass(ModulePass):
    """Gives naive kernels that start by copying an operand one buffer for it and the result."""

    name = "weft-drop-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        drop_copies(op, canonicalize_kernel)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class PlaceHalosPass(ModulePass):
    """Lets buffers lie within the border that a kernel would put around a copy."""

    name = "weft-place-halos"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        place_halos(op, halo_choices())
        name_variants(op, canonicalize_kernel)


@dataclass(frozen=True)
class ChooseLayoutsPass(ModulePass):
    """Gives the buffers between kernels the layouts in which these do best."""

    name = "weft-choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        choose_layouts(op, layout_choices(GENERIC))
        name_variants(op, canonicalize_kernel)
