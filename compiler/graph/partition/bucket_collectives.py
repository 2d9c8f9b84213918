"""graph -> graph: small sums over the same ranks, such as gradients of biases, are one sum.

    all_reduce(x), ..., all_reduce(z)  ->  all_reduce(concat(x, z)), and slices of it

Ranks meet once for all of them, where the last stood, and what is computed of the others, such as
running statistics, moves behind it. A sum that more than small tensors follow from is not joined
with later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, GraphOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import ShapeAttr, type_of
from weft.dialects.graph.mesh.collectives import AllReduceOp

MOST_ELEMENTS = 1 << 18
"""Of a bucket, which is about what ranks exchange at a time."""

LARGE = 1 << 16
"""Elements of a sum that stays alone: to copy it costs more than to meet once more."""


class BucketCollectivesPass(ModulePass):
    """Joins sums of every graph function."""

    name = "weft-bucket-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                bucket_collectives(function.body.block)


def bucket_collectives(block: Block) -> None:
    """Fills buckets in the order of the block, and joins those of several sums."""
    positions = {op: number for number, op in enumerate(block.ops)}
    buckets: dict[tuple[Attribute, ...], list[list[AllReduceOp]]] = {}
    for op in positions:
        if isinstance(op, AllReduceOp) and 0 < _elements(op) < LARGE:
            alike = buckets.setdefault(_key(op), [[]])
            if not _takes(alike[-1], op, positions):
                alike.append([])
            alike[-1].append(op)
    for each in (bucket for alike in buckets.values() for bucket in alike):
        if len(each) > 1:
            _join(each)


def _elements(op: AllReduceOp) -> int:
    return type_of(op.operand).size.constant or 0


def _key(op: AllReduceOp) -> tuple[Attribute, ...]:
    properties = (op.properties[name] for name in sorted(op.properties))
    return (type_of(op.operand).element, *properties)


def _takes(
    bucket: Sequence[AllReduceOp], op: AllReduceOp, positions: Mapping[Operation, int]
) -> bool:
    """Whether a sum fits into a bucket, from whose other sums only what may move behind it follows
    in front of it.
    """
    if sum(map(_elements, bucket)) + _elements(op) > MOST_ELEMENTS:
        return False
    seen: set[Operation] = set()
    pending: list[Operation] = [*bucket]
    while pending:
        for result in pending.pop().results:
            for user in (_around(use.operation, positions) for use in result.uses):
                if positions[user] > positions[op] or user in seen:
                    continue
                if not _may_move(user):
                    return False
                seen.add(user)
                pending.append(user)
    return True


def _may_move(op: Operation) -> bool:
    """Whether an operator computes small tensors, and does nothing else."""
    sizes = [type_of(each).size.constant for each in op.results]
    small = all(size is not None and size < LARGE for size in sizes)
    return isinstance(op, GraphOp) and not op.regions and small


def _around(op: Operation, positions: Mapping[Operation, int]) -> Operation:
    """The operator of the block that an operator is, or is in."""
    while op not in positions:
        outer = op.parent_op()
        assert outer is not None, "what reads a value of a block is in it"
        op = outer
    return op


def _join(bucket: Sequence[AllReduceOp]) -> None:
    _move_followers(bucket)
    last = bucket[-1]
    b = GraphBuilder(InsertPoint.before(last), OPS_BY_NAME)
    b.location = last.location
    sizes = [_elements(each) for each in bucket]
    flat = [
        b.reshape(each.operand, shape=[Expr.of(size)])
        for each, size in zip(bucket, sizes, strict=True)
    ]
    whole = last.clone({last.operand: b.concat(*flat, axis=0)})
    whole.set_results()
    b.builder.insert(whole)
    for number, (each, size) in enumerate(zip(bucket, sizes, strict=True)):
        start, count = (ShapeAttr((Expr.of(n),)) for n in (sum(sizes[:number]), size))
        part = b.slice(whole.result, starts=start, sizes=count, steps=[1])
        shaped = b.reshape(part, shape=type_of(each.result).dims)
        shaped.name_hint = each.result.name_hint
        each.result.replace_all_uses_with(shaped)
    for each in bucket:
        each.detach()
        each.erase()


def _move_followers(bucket: Sequence[AllReduceOp]) -> None:
    """Moves what follows from the sums of a bucket behind the last of them."""
    last, op = bucket[-1], bucket[0].next_op
    block, place = last.parent, last
    assert block is not None, "operators of a function stand in its block"
    followers: set[Operation] = {*bucket}
    while op is not None and op is not last:
        following = op.next_op
        if any(value.owner in followers for value in op.operands):
            followers.add(op)
            op.detach()
            block.insert_op_after(op, place)
            place = op
        op = following
