"""Products with matrices that are repeated for neighbouring batches, as keys and values are that a
group of queries shares: the batches of a group become rows of one product, which reads them once.

    x[h * g, s, d] @ reshape(expand(y))[h * g, d, n]   ->   reshape(x)[h, g * s, d] @ y[h, d, n]
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, GraphOp, ReshapeOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.matmul import MatmulOp
from weft.dialects.graph.reindexing.movement import ExpandOp, TransposeOp


class Repeated(NamedTuple):
    """Where matrices are repeated: the operator, the dim of the batches, how often each is."""

    expand: ExpandOp
    dim: int
    times: Expr


def share_repeated(product: MatmulOp) -> None:
    """Has a product read matrices once that are repeated for its batches; else it stays."""
    moved = product.rhs.owner
    axes = moved.axes if isinstance(moved, TransposeOp) else None
    source = moved.operand if isinstance(moved, TransposeOp) else product.rhs
    found, lhs, rhs = _repeated(source), type_of(product.lhs), type_of(product.rhs)
    if found is None or lhs.rank != rhs.rank:
        return
    expand, dim, times = found
    keeps_batches = axes is None or axes[:-2] == tuple(range(rhs.rank - 2))
    if not keeps_batches or dim >= rhs.rank - 2 or lhs.shape[dim] != rhs.shape[dim]:
        return
    b = GraphBuilder(InsertPoint.before(product), OPS_BY_NAME, product.location)
    once = expand.result_type.shape[: dim + 1] + expand.result_type.shape[dim + 2 :]
    narrow = expand.operand.owner
    if isinstance(narrow, ReshapeOp) and type_of(narrow.operand).shape == once:
        matrices = Term(b, narrow.operand)
    else:
        matrices = Term(b, expand.operand).reshape(once)
    *batch, rows, depth = lhs.shape
    batch[dim] = once[dim]
    x = Term(b, product.lhs).reshape((*batch, rows * times, depth))
    shared = x.matmul(matrices if axes is None else matrices.transpose(axes))
    result = shared.reshape(product.result_type.shape).value
    result.name_hint = product.result.name_hint
    product.result.replace_all_uses_with(result)
    unused: list[Operation | Block] = [product, moved, source.owner, expand, narrow]
    for op in dict.fromkeys(unused):
        if isinstance(op, GraphOp) and not any(each.uses for each in op.results):
            op.detach()
            op.erase()


def _repeated(value: SSAValue) -> Repeated | None:
    """How a value repeats each index of a dim, one behind the other."""
    reshape = value.owner
    expand = reshape.operand.owner if isinstance(reshape, ReshapeOp) else None
    if not isinstance(expand, ExpandOp) or not type_of(expand.operand).has_rank:
        return None
    narrow, wide = type_of(expand.operand).shape, expand.result_type.shape
    merged = type_of(value).shape
    for dim, times in enumerate(wide[1:]):
        once = (*wide[: dim + 1], Expr.of(1), *wide[dim + 2 :])
        joined = (*wide[:dim], wide[dim] * times, *wide[dim + 2 :])
        if narrow == once and merged == joined:
            return Repeated(expand, dim, times)
    return None
