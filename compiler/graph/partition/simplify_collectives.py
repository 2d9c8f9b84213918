"""graph -> graph: collectives that others make smaller or needless.

all_gather(shard_slice(x))          ->  x           along one axis, if ranks hold the same
shard_slice(all_reduce(x))          ->  reduce_scatter(x)
all_reduce(x) + all_reduce(y)       ->  all_reduce(x + y)
all_reduce(all_reduce(x))           ->  all_reduce(x) over both axes
a collective of groups of one rank  ->  its operand
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.graph import OPS_BY_NAME, CollectiveOp, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.mesh.collectives import (
    AllGatherOp,
    AllReduceOp,
    RankIndexOp,
    ReduceScatterOp,
    ShardSliceOp,
    UnaryCollectiveOp,
)
from weft.dialects.graph.ops.arithmetic import AddOp


class SimplifyCollectivesPass(ModulePass):
    """Rewrites the collectives of every graph function until nothing changes."""

    name = "weft-simplify-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                simplify_collectives(function.body.block)


def simplify_collectives(block: Block) -> None:
    """Rewrites in place, the first operator first, and drops what nobody reads any more."""
    changed = True
    while changed:
        changed = False
        for op in list(block.ops):
            new = _rewritten(op) if op.parent is block else None
            if new is not None:
                changed = True
                op.results[0].replace_all_uses_with(new)
                _drop(op)


def _drop(op: Operation) -> None:
    """Removes an operator without uses, and what only it has read."""
    stack = [op]
    while stack:
        each = stack.pop()
        droppable = isinstance(each, CollectiveOp | GraphOp)
        if droppable and each.parent and not any(result.uses for result in each.results):
            owners = [value.owner for value in each.operands]
            each.detach()
            each.erase()
            stack += [owner for owner in owners if isinstance(owner, Operation)]


def _rewritten(op: Operation) -> SSAValue | None:
    """What takes the place of an operator's result."""
    for rewrite in _REWRITES:
        new = rewrite(op)
        if new is not None:
            if isinstance(new.owner, Operation) and new.name_hint is None:
                new.name_hint = op.results[0].name_hint
            return new
    return None


def _builder(op: Operation) -> GraphBuilder:
    b = GraphBuilder(InsertPoint.before(op), OPS_BY_NAME)
    b.location = op.location
    return b


def _alone(op: Operation) -> SSAValue | None:
    """A group of one rank."""
    if not isinstance(op, CollectiveOp) or op.parts != 1:
        return None
    if isinstance(op, RankIndexOp):
        return _builder(op).constant_of(0, type_of(op.result).element)
    assert isinstance(op, UnaryCollectiveOp), "what is no index has an operand"
    return op.operand


def _gathered_slice(op: Operation) -> SSAValue | None:
    if not isinstance(op, AllGatherOp) or not isinstance(op.operand.owner, ShardSliceOp):
        return None
    inner = op.operand.owner
    same = inner.axis_names == op.axis_names and inner.position == op.position
    return inner.operand if same and op.replicated is not None else None


def _sliced_reduction(op: Operation) -> SSAValue | None:
    """The slices of ranks of a group that have added up."""
    if not isinstance(op, ShardSliceOp) or not isinstance(op.operand.owner, AllReduceOp):
        return None
    inner = op.operand.owner
    rest = tuple(axis for axis in inner.axis_names if axis not in op.axis_names)
    if not set(op.axis_names) <= set(inner.axis_names) or len(list(inner.result.uses)) > 1:
        return None
    b, reduction = _builder(op), inner.reduction
    scattered = ReduceScatterOp.of(
        inner.operand, op.mesh, op.axis_names, op.location, axis=op.axis, reduction=reduction
    )
    value = b.builder.insert(scattered).result
    if not rest:
        return value
    others = AllReduceOp.of(value, op.mesh, rest, op.location, reduction=reduction, replicated=True)
    return b.builder.insert(others).result


def _sum_of_reductions(op: Operation) -> SSAValue | None:
    if not isinstance(op, AddOp):
        return None
    one, other = (value.owner for value in op.operands)
    if not (isinstance(one, AllReduceOp) and isinstance(other, AllReduceOp)) or one is other:
        return None
    alike = one.properties == other.properties and one.reduction.data == "sum"
    same = type_of(one.result) == type_of(other.result)
    if not alike or not same or any(len(list(each.result.uses)) > 1 for each in (one, other)):
        return None
    b = _builder(op)
    total = b.add(one.operand, other.operand)
    return b.builder.insert(_again(one, total, one.axis_names)).result


def _nested_reductions(op: Operation) -> SSAValue | None:
    if not isinstance(op, AllReduceOp) or not isinstance(op.operand.owner, AllReduceOp):
        return None
    inner = op.operand.owner
    apart = set(inner.axis_names).isdisjoint(op.axis_names)
    if not apart or inner.reduction != op.reduction or len(list(inner.result.uses)) > 1:
        return None
    axes = tuple(name for name, _ in op.mesh.data if name in (*inner.axis_names, *op.axis_names))
    return _builder(op).builder.insert(_again(op, inner.operand, axes)).result


def _again(op: AllReduceOp, operand: SSAValue, axes: tuple[str, ...]) -> AllReduceOp:
    replicated = op.replicated is not None
    return AllReduceOp.of(
        operand, op.mesh, axes, op.location, reduction=op.reduction, replicated=replicated
    )


_REWRITES: tuple[Callable[[Operation], SSAValue | None], ...] = (
    _alone, _gathered_slice, _sliced_reduction, _sum_of_reductions, _nested_reductions,
)  # fmt: skip
