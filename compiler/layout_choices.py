"""What the loop level says of layouts, as the program level asks for it; the pass over both."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from compiler.graph_to_loop import canonicalize_kernel, copy_kernel
from compiler.loop.layouts import blocked, conversion_traffic, traffic, with_layouts
from compiler.loop.schedules import GENERIC
from compiler.program.choose_layouts import Kinds, LayoutChoices, choose_layouts
from compiler.target.target import Target
from dialects.loop.program import KernelOp
from dialects.loop.types import BufferType


def layout_choices(target: Target) -> LayoutChoices:
    """The layouts that pay on a target."""

    def variant(kernel: KernelOp, kinds: Kinds) -> KernelOp:
        copy = with_layouts(kernel, kinds, target)
        stem, _, _ = kernel.sym_name.data.rpartition("_")
        copy.properties["sym_name"] = StringAttr(stem or kernel.sym_name.data)
        canonicalize_kernel(copy)
        return copy

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


@dataclass(frozen=True)
class ChooseLayoutsPass(ModulePass):
    """Gives the buffers between kernels the layouts in which these do best."""

    name = "weft-choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        choose_layouts(op, layout_choices(GENERIC))
