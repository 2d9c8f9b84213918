"""graph -> graph: several iterations of a loop of elementwise operators become one, of which a
kernel keeps in registers what lies between them.

    40 iterations of x = x * x + c   ->   2 of x = x * x + c; x = x * x + c; ..., twenty times
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.simplify.fold_control import copied_iteration
from weft.dialects.expr import Expr
from weft.dialects.graph import ConstantOp, DimsOp, ForOp
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import ShapeAttr, type_of
from weft.dialects.graph.reindexing.movement import IndexMapOp


@dataclass(frozen=True)
class UnrollElementwisePass(ModulePass):
    """Makes the body of a loop as many iterations as have `operators`, constants aside. Carried
    values have one shape, and nothing but what stays the same is moved. The first iterations run in
    front of the loop where that number does not divide their count.
    """

    name = "weft-unroll-elementwise"
    operators: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in [inner for inner in op.walk() if isinstance(inner, ForOp)]:
            count, size = loop.iterations.constant, _operators(loop)
            if count and size and (times := min(self.operators // size, count)) > 1:
                _unroll(loop, count, times)


def _operators(loop: ForOp) -> int:
    """The operators of a body that is elementwise in what it carries; 0 for others."""
    arguments = loop.body.block.args
    shapes = {type_of(each).shape for each in arguments}
    if loop.size_names or len(loop.results) > len(arguments) or len(shapes) != 1 or () in shapes:
        return 0
    carried: set[SSAValue] = set(arguments)
    count = 0
    for op in list(loop.body.block.ops)[:-1]:
        moves = not carried.isdisjoint(op.operands)
        if not isinstance(op, (ConstantOp, DimsOp)):
            if not isinstance(op, ElementwiseOp) and (moves or not isinstance(op, IndexMapOp)):
                return 0
            count += 1
        if moves:
            carried.update(op.results)
    return count


def _unroll(loop: ForOp, count: int, times: int) -> None:
    """So many iterations as one, whose number of several is the index times that."""
    state, ahead = list(loop.operands), count % times
    for number in range(ahead):
        state = copied_iteration(loop, state, number, loop)
    loop.operands = state
    once, (*body, last) = loop.clone(), loop.body.block.ops
    handed: list[SSAValue] = list(loop.body.block.args)
    for number in range(times):
        at = Expr.of(loop.index.data) * times + (ahead + number)
        handed = copied_iteration(once, handed, at, last)
    last.operands = handed
    for op in reversed(body):
        op.detach()
        op.erase()
    once.erase()
    loop.count = ShapeAttr((Expr.of(count // times),))
