"""graph -> graph: regions that run once, and were there for derivatives, join the graph.

    %y = graph.checkpoint { A, graph.yield %a }      ->      A, %a for %y

After that nothing may merge equal operators: what is computed again would be computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.graph import InlinedOp


class InlineRegionsPass(ModulePass):
    """Inlines the checkpoints of a module, and functions with a derivative of their own."""

    name = "weft-inline-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in reversed(list(op.walk())):  # inner ones first
            if isinstance(inner, InlinedOp):
                inline_region(inner)


def inline_region(op: InlinedOp) -> None:
    """Puts the region that an operator runs in its place."""
    values = copied_region(op.regions[0].block, op.operands_, InsertPoint.before(op))
    for result, value in zip(op.results, values, strict=True):
        value.name_hint = value.name_hint or result.name_hint
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def copied_region(region: Block, arguments: Sequence[SSAValue], at: InsertPoint) -> list[SSAValue]:
    """Copies the operators of a region to a place; returns what it yields for these arguments."""
    values: dict[SSAValue, SSAValue] = dict(zip(region.args, arguments, strict=True))
    last = region.last_op
    assert last is not None, "a region ends in graph.yield"
    builder = Builder(at)
    for inner in region.ops:
        if inner is not last:
            builder.insert(inner.clone(values))
    return [values.get(value, value) for value in last.operands]
