"""kernel -> what the passes over programs have to know of it, without its body: they need kernels
that others have scheduled and compiled meanwhile.
"""

from __future__ import annotations

from msgspec.structs import astuple
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from weft.compiler.program.memory.hoist_workspace import hoist_kernel
from weft.compiler.program.memory.in_place import in_place_arguments
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.program.parallelize_calls import written_arguments
from weft.dialects.loop.iteration_cost import shares_of
from weft.dialects.loop.program import (
    AWAITS_LAYOUT,
    IN_PLACE,
    SHARES,
    TEMPORARIES,
    WRITES,
    KernelOp,
)
from weft.dialects.loop.types import buffer_type_of


class SummarizeKernelsPass(ModulePass):
    """Notes on each kernel what passes over programs have to know of it. A kernel with a summary is
    scheduled.
    """

    name = "weft-summarize-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_of(op).values():
            if not is_scheduled(kernel) and AWAITS_LAYOUT not in kernel.attributes:
                summarize_body(kernel)


def is_scheduled(kernel: KernelOp) -> bool:
    """Whether a kernel has a summary."""
    return WRITES in kernel.attributes


def summarize_body(kernel: KernelOp) -> None:
    """Turns the workspace of a scheduled kernel into arguments, and notes how many these are and
    which arguments it writes and which may share their storage, and what threads share.
    """
    if (shares := shares_of(kernel.body.block)) is not None:
        numbers = [shares.serial, *(number for each in shares.sections for number in astuple(each))]
        kernel.attributes[SHARES] = DenseArrayBase.from_list(i64, numbers)
    kernel.attributes[TEMPORARIES] = IntAttr(len(hoist_kernel(kernel)))
    pairs = [
        position for pair in in_place_arguments(kernel) for position in (pair.operand, pair.result)
    ]
    written = set[int]() if kernel.body.block.is_empty else written_arguments(kernel)
    kernel.attributes[WRITES] = ArrayAttr(map(IntAttr, sorted(written)))
    kernel.attributes[IN_PLACE] = DenseArrayBase.from_list(i64, pairs)


def kernel_summary(kernel: KernelOp) -> KernelOp:
    """The kernel with an empty body.

    loop.kernel @k(%x: T, %y: T) attributes {temporaries = ..} { ... }
        ->  loop.kernel @k(%x: T, %y: T) attributes {temporaries = ..} {}
    """
    arguments = kernel.body.block.args
    declared = KernelOp.of(
        kernel.sym_name.data, kernel.symbol_names, [buffer_type_of(each) for each in arguments]
    )
    declared.attributes |= kernel.attributes
    for argument, like in zip(declared.body.block.args, arguments, strict=True):
        argument.name_hint = like.name_hint
    return declared
