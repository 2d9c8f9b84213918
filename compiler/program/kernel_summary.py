"""kernel -> what the passes over programs have to know of it, without its body: they need kernels
that others have scheduled and compiled meanwhile.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, i64

from weft.compiler.program.memory.hoist_workspace import hoist_kernel
from weft.compiler.program.memory.in_place import in_place_arguments
from weft.compiler.program.parallelize_calls import written_arguments
from weft.dialects.loop.program import IN_PLACE, TEMPORARIES, WRITES, KernelOp
from weft.dialects.loop.types import buffer_type


def summarize_body(kernel: KernelOp) -> None:
    """Turns the workspace of a scheduled kernel into arguments, and notes how many these are and
    which arguments it writes and which may share their storage.
    """
    kernel.attributes[TEMPORARIES] = IntAttr(len(hoist_kernel(kernel)))
    pairs = [place for pair in in_place_arguments(kernel) for place in (pair.operand, pair.result)]
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
        kernel.sym_name.data, kernel.symbol_names, [buffer_type(each) for each in arguments]
    )
    declared.attributes |= kernel.attributes
    for argument, like in zip(declared.body.block.args, arguments, strict=True):
        argument.name_hint = like.name_hint
    return declared
