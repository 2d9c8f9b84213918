"""Evaluates a graph of one rank for all ranks of a mesh, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block
from xdsl.traits import IsTerminator

from weft.dialects.graph.core.evaluate import Evaluator
from weft.dialects.graph.mesh.attributes import MeshAttr
from weft.dialects.graph.mesh.collectives import CollectiveOp
from weft.dialects.weights import Array, WeightStore


def evaluate_ranks(
    block: Block, arguments: Sequence[Sequence[Array]], weights: WeightStore | None = None
) -> list[list[Array]]:
    """What the block returns on each rank, from the arguments of each."""
    ranks = [Evaluator.of(block, each, weights) for each in arguments]
    for op in block.ops:
        if op.has_trait(IsTerminator):
            break
        if isinstance(op, CollectiveOp):
            _run(op, ranks)
        else:
            for each in ranks:
                each.operation(op)
    terminator = block.last_op
    assert terminator is not None, "a block of a graph ends in a terminator"
    return [[each.arrays[value] for value in terminator.operands] for each in ranks]


def _run(op: CollectiveOp, ranks: Sequence[Evaluator]) -> None:
    mesh: MeshAttr = op.mesh
    for rank in range(len(ranks)):
        group = mesh.group(rank, op.axis_names)
        if group[0] != rank:
            continue
        operands = [ranks[each].arrays[value] for each in group for value in op.operands]
        for each, result in zip(group, op.group_reference(*operands), strict=True):
            ranks[each].arrays[op.result] = result
