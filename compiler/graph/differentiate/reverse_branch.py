"""Reverse mode of operators whose regions run once: branches, checkpoints, rules of one's own."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.differentiate.residuals import Residuals, extend_results
from weft.compiler.graph.differentiate.reverse_path import (
    Contribution,
    Reversal,
    captured,
    is_float,
)
from weft.compiler.graph.simplify.cse_dce import drop_unused
from weft.compiler.graph.simplify.inline_regions import copied_region
from weft.dialects.graph import OPS_BY_NAME, CaseOp, CheckpointOp, CustomVjpOp, IfOp, YieldOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.regions.branch import BranchOp
from weft.dialects.graph.regions.control import rename_sizes, yielded
from weft.dialects.graph.regions.effects import drop_effects

Arriving = Sequence[SSAValue | None]


def reverse_branch(
    reversal: Reversal,
    op: BranchOp,
    arriving: Arriving,
    reached: Container[SSAValue],
    b: GraphBuilder,
) -> list[Contribution]:
    """The branch on the same condition whose regions are the derivatives of the regions."""
    sources = [value for value in captured(op) if value in reached]
    blocks: list[Block] = []
    for region in op.regions:
        back = Block()
        inner = GraphBuilder(InsertPoint.at_end(back), b.ops, b.location)
        seeds = [
            (value, shaped(inner, each, value))
            for value, each in zip(yielded(region), arriving, strict=True)
            if each is not None and is_float(value)
        ]
        found = reversal.pull(inner, region.block, seeds, sources)
        end_block(inner, [found.get(each) or inner.filled(0.0, each) for each in sources])
        blocks.append(back)
    for number, back in enumerate(blocks):
        _BranchResiduals(reversal, op.regions[number].block, back, op, number).resolve()
    reverse = (
        IfOp.of(op.operands[0], blocks[0], blocks[1], location=b.location)
        if isinstance(op, IfOp)
        else CaseOp.of(op.operands[0], blocks, location=b.location)
    )
    return list(zip(sources, b.builder.insert(reverse).results, strict=True))


def shaped(b: GraphBuilder, cotangent: SSAValue, value: SSAValue) -> SSAValue:
    """A cotangent under the dims of what a region yields, which the branch may have named."""
    dims = type_of(value).dims
    return (
        cotangent if type_of(cotangent).dims == dims else b.dynamic_reshape(cotangent, shape=dims)
    )


def end_block(b: GraphBuilder, values: Sequence[SSAValue]) -> None:
    """Ends a block with what it yields; what that does not need goes."""
    b.builder.insert(YieldOp.create(operands=values))
    drop_unused(b.builder.insertion_point.block)


@dataclass
class _BranchResiduals(Residuals):
    """What one region computes is a result of the branch, zeros in its other regions."""

    op: BranchOp
    number: int

    def keep(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        for number, region in enumerate(self.op.regions):
            last = region.block.last_op
            assert last is not None, "a region ends in graph.yield"
            own: Sequence[SSAValue] = values
            if number != self.number:
                b = GraphBuilder(InsertPoint.before(last), OPS_BY_NAME, self.op.location)
                own = [b.filled(0, value) for value in values]
            last.operands = [*last.operands, *own]
        return extend_results(self.op)


def reverse_checkpoint(
    reversal: Reversal,
    op: CheckpointOp,
    arriving: Arriving,
    reached: Container[SSAValue],
    b: GraphBuilder,
) -> list[Contribution]:
    """A region that computes the values again, and what they hand on."""
    sources = [value for value in captured(op) if value in reached]
    copy = op.clone()
    drop_effects(copy)
    rename_sizes(copy, reversal.fresh_names([copy]))
    block = copy.body.block
    last = block.last_op
    assert last is not None, "a region ends in graph.yield"
    values = list(last.operands)
    last.detach()
    last.erase()
    copy.body.detach_block(block)
    inner = GraphBuilder(InsertPoint.at_end(block), b.ops, b.location)
    seeds = [
        (value, each) for value, each in zip(values, arriving, strict=True) if each is not None
    ]
    found = reversal.pull(inner, block, seeds, sources)
    end_block(inner, [found.get(each) or inner.filled(0.0, each) for each in sources])
    reverse = b.builder.insert(CheckpointOp.of(block, b.location))
    return list(zip(sources, reverse.results, strict=True))


def reverse_custom(
    reversal: Reversal, op: CustomVjpOp, arriving: Arriving, b: GraphBuilder
) -> list[Contribution]:
    """The operators of the rule. What the rule itself reads of the region has the region's own
    derivative.
    """
    visible = len(op.results) - op.saved
    contributions: list[Contribution] = []
    saved = [(n, each) for n, each in enumerate(arriving) if n >= visible and each is not None]
    if saved:
        source = op.clone()
        drop_effects(source)
        values = copied_region(source.body.block, op.operands, b.builder.insertion_point)
        source.erase()
        block = b.builder.insertion_point.block
        seeds = [(values[n], each) for n, each in saved]
        found = reversal.pull(b, block, seeds, list(op.operands))
        contributions += [(each, found.get(each)) for each in op.operands]
    whole = [
        b.filled(0.0, result) if each is None else each
        for result, each in zip(op.results[:visible], arriving, strict=False)
    ]
    found = copied_region(
        op.derivative.block, [*op.results[visible:], *whole], b.builder.insertion_point
    )
    return [*contributions, *zip(op.operands, found, strict=True)]
