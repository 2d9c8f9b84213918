"""program -> program: what a kernel in a loop reads in every turn, and reads again for several of
its results, as the weight of a recurrent layer, is taken for a weight of the kernel.

Its schedule may then want it in panels; `weft-assign-layouts` copies it once, in front of the loop.
"""

from __future__ import annotations

from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from weft.compiler.program.layouts.kernel_table import KernelTable
from weft.compiler.program.parallelize_calls import writes_of
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp, enclosing_loops
from weft.dialects.loop.program import WEIGHTS, CallOp, KernelOp, ProgramOp

TURNS: Final = 16
"""Of loops, from which on a copy in front of them costs little beside what is read in all turns."""


class KeepFactorsPass(ModulePass):
    """Marks factors that loops of a program only read as weights of the kernels that read them."""

    name = "weft-keep-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        table = KernelTable(op)
        programs = [each for each in op.ops if isinstance(each, ProgramOp)]
        for call in [each for program in programs for each in program.walk()]:
            if isinstance(call, CallOp):
                _keep_factors(call, table)
        table.drop_unused()


def _keep_factors(call: CallOp, table: KernelTable) -> None:
    if not isinstance(call.parent_op(), ForOp):
        return
    kernel = table[call.kernel]
    kept = tuple(
        position
        for position, value in enumerate(call.arguments)
        if _is_factor(kernel, position) and loop_around(call, value, table.kernels) is not None
    )
    if kept:
        name = table.variant((call.kernel, kept), lambda: _with_weights(kernel, kept))
        call.properties["callee"] = SymbolRefAttr(name)


def _with_weights(kernel: KernelOp, positions: tuple[int, ...]) -> KernelOp:
    made = kernel.clone()
    marked = made.attributes.get(WEIGHTS)
    own = {each.data for each in marked} if isa(marked, ArrayAttr[IntAttr]) else set[int]()
    made.attributes[WEIGHTS] = ArrayAttr(map(IntAttr, sorted(own.union(positions))))
    return made


def _is_factor(kernel: KernelOp, position: int) -> bool:
    """Whether a kernel reads an argument along a sum, and all of that for each turn of another
    loop.
    """
    for use in kernel.body.block.args[position].uses:
        if isinstance(use.operation, LoadOp):
            loops = enclosing_loops(use.operation)
            here = set(use.operation.operands_)
            summed = [each for each in loops if each.reduction is not None and each.index in here]
            others = [each for each in loops if each.reduction is None and each.index not in here]
            if summed and others:
                return True
    return False


def loop_around(call: CallOp, value: SSAValue, kernels: dict[str, KernelOp]) -> ForOp | None:
    """The outermost of the loops around a call that a buffer comes from outside of, where these
    have enough turns, and nothing in them does more than read it.
    """
    if not isinstance(value, BlockArgument) and not isinstance(value.owner, AllocOp):
        return None
    found, turns = None, 1
    around = call.parent_op()
    while isinstance(around, ForOp) and not _is_within(value, around):
        found, turns = around, turns * (around.extent.constant or 1)
        around = around.parent_op()
    if found is None or turns < TURNS or not _is_only_read(value, found, kernels):
        return None
    return found


def _is_within(value: SSAValue, loop: ForOp) -> bool:
    owner = value.owner
    op = owner if isinstance(owner, Operation) else owner.parent_op()
    return op is not None and loop.is_ancestor(op)


def _is_only_read(value: SSAValue, loop: ForOp, kernels: dict[str, KernelOp]) -> bool:
    """Whether all that a program does with a buffer are calls, which do not write it in a loop."""
    for use in value.uses:
        user = use.operation
        if not isinstance(user, CallOp):
            return False
        if loop.is_ancestor(user) and use.index in writes_of(kernels[user.kernel]):
            return False
    return True
