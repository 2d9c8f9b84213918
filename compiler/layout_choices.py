"""What the loop level says of layouts, as the program level asks for it; the pass over both."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from compiler.graph_to_loop import canonicalize_kernel, copy_kernel
from compiler.loop.halos import Halo, border_kernel, halo_of, with_types, without_padding
from compiler.loop.layouts import blocked, conversion_traffic, traffic, with_layouts
from compiler.loop.schedules import GENERIC
from compiler.program.choose_layouts import Kinds, LayoutChoices, choose_layouts
from compiler.program.place_halos import HaloChoices, place_halos
from compiler.target.target import Target
from dialects.loop.program import KernelOp
from dialects.loop.types import BufferType


def layout_choices(target: Target) -> LayoutChoices:
    """The layouts that pay on a target."""

    def variant(kernel: KernelOp, kinds: Kinds) -> KernelOp:
        return _renamed(with_layouts(kernel, kinds, target))

    def convert(source: BufferType, result: BufferType) -> KernelOp:
        kernel = copy_kernel(source, result)
        canonicalize_kernel(kernel)
        return kernel

    return LayoutChoices(
        lambda kind: blocked(kind, target),
        lambda kernel, kinds: traffic(kernel, kinds, target),
        conversion_traffic,
        variant,
        convert,
    )


def halo_choices() -> HaloChoices[Halo]:
    """The borders that kernels put around their operands."""

    def border(kind: BufferType, halo: Halo) -> KernelOp:
        kernel = border_kernel(kind, halo)
        canonicalize_kernel(kernel)
        return kernel

    return HaloChoices(
        halo_of,
        Halo.around,
        Halo.within,
        lambda kernel, position: _renamed(without_padding(kernel, position)),
        lambda kernel, kinds: _renamed(with_types(kernel, kinds)),
        border,
    )


def _renamed(variant: KernelOp) -> KernelOp:
    """A variant of a kernel under the name that its own text gives it."""
    stem, _, _ = variant.sym_name.data.rpartition("_")
    variant.properties["sym_name"] = StringAttr(stem or variant.sym_name.data)
    canonicalize_kernel(variant)
    return variant


@dataclass(frozen=True)
class PlaceHalosPass(ModulePass):
    """Lets buffers lie within the border that a kernel would put around a copy."""

    name = "weft-place-halos"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        place_halos(op, halo_choices())


@dataclass(frozen=True)
class ChooseLayoutsPass(ModulePass):
    """Gives the buffers between kernels the layouts in which these do best."""

    name = "weft-choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        choose_layouts(op, layout_choices(GENERIC))
