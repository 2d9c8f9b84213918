"""graph -> graph: what every iteration of a loop would compute anew is computed once, in front.

    graph.for ... { %w = graph.mul %a, %b ... }      ->      %w = graph.mul %a, %b
                                                             graph.for ... { ... }

A loop may run no iteration at all, so what could fail is left in one that is not known to run.
"""

from __future__ import annotations

from collections.abc import Container

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.fuse.fuse import is_taken_in
from weft.compiler.graph.simplify.cse_dce import own_sizes
from weft.dialects.graph import ConstantOp, DimsOp, ExpandOp, ForOp, GraphOp, WhileOp
from weft.dialects.graph.core.types import FLOATS, type_of
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.graph.regions.repeat import RepeatOp
from weft.dialects.graph.reindexing.gather import IndexedOp
from weft.dialects.graph.reindexing.movement import TransposeOp

CHEAP = (DimsOp, ExpandOp)
"""Operators that are computed where they are read: outside they would only take memory."""


class HoistInvariantsPass(ModulePass):
    """Moves operators out of the loops of every graph function, inner loops first."""

    name = "weft-hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                hoist_invariants(function)


def hoist_invariants(function: FuncOp) -> None:
    """Moves what is the same in all iterations in front of each loop of the function."""
    found = {name for op in function.walk() for name in defined_sizes(op)}
    loops = [op for op in function.walk() if isinstance(op, RepeatOp)]
    for loop in reversed(loops):
        inner = loop.inner_sizes()
        if isinstance(loop, WhileOp):
            inner |= {loop.count.data}
        for region in loop.regions:
            for op in _invariants(region, inner, None if _runs(loop) else found):
                _move_before(op, loop)


def _invariants(region: Region, inner: set[str], found_sizes: set[str] | None) -> list[GraphOp]:
    """Operators that read nothing of the region but each other, in order, without transposes that
    products read where they are stored. With `found_sizes`, only operators that cannot fail.
    """
    found: dict[Operation, GraphOp] = {}
    for op in region.block.ops:
        if not isinstance(op, GraphOp) or isinstance(op, CHEAP):
            continue
        inside = (value for value in op.operands if _is_inside(value, region))
        moves = all(value.owner in found for value in inside) and inner.isdisjoint(own_sizes(op))
        if moves and (found_sizes is None or _cannot_fail(op, found_sizes)):
            found[op] = op
    return [op for op in found.values() if not _is_taken_in(op, found)]


def _is_taken_in(op: GraphOp, moving: Container[Operation]) -> bool:
    """Whether products that stay read a transposed matrix where it is stored."""
    stays = all(use.operation not in moving for result in op.results for use in result.uses)
    return stays and isinstance(op, TransposeOp) and is_taken_in(op)


def _is_inside(value: SSAValue, region: Region) -> bool:
    """Whether the region's block defines the value."""
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is region.block


def _runs(loop: RepeatOp) -> bool:
    """Whether it is known that there is an iteration."""
    least = loop.iterations.range({})[0] if isinstance(loop, ForOp) else None
    return least is not None and least >= 1


def _cannot_fail(op: GraphOp, found: set[str]) -> bool:
    """Whether the operator may be computed for nothing, whatever it reads: it neither divides
    integers, nor takes subscripts from data, nor relies on sizes that the program finds.
    """
    if isinstance(op, ConstantOp):
        return True
    is_float = all(type_of(result).element in FLOATS for result in op.results)
    return is_float and not isinstance(op, IndexedOp) and found.isdisjoint(own_sizes(op))


def _move_before(op: GraphOp, loop: RepeatOp) -> None:
    block = loop.parent
    assert block is not None, "a loop stands in a block"
    op.detach()
    block.insert_op_before(op, loop)
