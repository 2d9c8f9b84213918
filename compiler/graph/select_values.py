"""graph -> graph: a branch between a few numbers computes those of both sides and chooses.

%y = graph.if %c { graph.yield %a } else { %b = add %a, %a, graph.yield %b }
->  %b = add %a, %a;  %y = graph.where %c, %a, %b
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.simplify.inline_regions import copied_region
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, IfOp, YieldOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.reindexing.movement import AssumeOp, IndexMapOp


@dataclass(frozen=True)
class SelectValuesPass(ModulePass):
    """Replaces branches that compute at most so many `operators` on single elements, which take no
    longer than a jump that the processor has not foreseen. Such operators have a value for any
    operands. A tensor's element is left in its branch, whose condition may say that there is one.
    """

    name = "weft-select-values"
    operators: int = 8

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for branch in reversed([inner for inner in op.walk() if isinstance(inner, IfOp)]):
            if self._is_cheap(branch):
                _select(branch)

    def _is_cheap(self, branch: IfOp) -> bool:
        inside = [op for region in branch.regions for op in region.block.ops]
        computing = [op for op in inside if not isinstance(op, (ConstantOp, YieldOp))]
        return len(computing) <= self.operators and all(map(_is_of_elements, inside))


def _is_of_elements(op: Operation) -> bool:
    """Whether an operator reads and computes single elements, which it always can."""
    known = isinstance(op, (ElementwiseOp, IndexMapOp, YieldOp)) and not isinstance(op, AssumeOp)
    literal = isinstance(op, ConstantOp) and op.literal is not None
    values = (*op.operands, *op.results)
    return (known or literal) and all(type_of(value).size == 1 for value in values)


def _select(branch: IfOp) -> None:
    at = InsertPoint.before(branch)
    sides = [copied_region(region.block, [], at) for region in branch.regions]
    b = GraphBuilder(at, OPS_BY_NAME, branch.location)
    chosen: list[SSAValue] = []
    for result, then, otherwise in zip(branch.results, *sides, strict=True):
        value = b.where(branch.operands_[0], then, otherwise)
        value.name_hint = result.name_hint
        chosen.append(value)
    for result, value in zip(branch.results, chosen, strict=True):
        result.replace_all_uses_with(value)
    branch.detach()
    branch.erase()
