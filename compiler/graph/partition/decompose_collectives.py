"""graph -> graph: collectives become those that programs have: along the first axis, of elements
that transports add up.

    shard_slice  ->  a reshape, and a gather at the rank's index; of a weight the rank's row of one
                     in which the parts of ranks follow each other, so that it reads its part alone
    all_gather   ->  an all_gather along the first axis, whose blocks a transpose puts in order
    all_reduce of f16  ->  one of f32
    all_reduce of einsum "nop,nctp->oct"  ->  one of "nop,nkp->ok"

The rest of the compiler sees the movements, and fuses them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.dialects.expr import Expr, product
from weft.dialects.graph import OPS_BY_NAME, ConstantOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import BF16, F16, F32, type_of
from weft.dialects.graph.mesh.collectives import (
    AllGatherOp,
    RankIndexOp,
    ReduceScatterOp,
    ReducingOp,
    ShardRowOp,
    ShardSliceOp,
    UnaryCollectiveOp,
)
from weft.dialects.graph.ops.einsum import EinsumOp


class DecomposeCollectivesPass(ModulePass):
    """Decomposes every collective of the module."""

    name = "weft-decompose-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for decompose in (_along_first_axis, _widened, _of_few_dims):
            for inner in [each for each in op.walk() if isinstance(each, UnaryCollectiveOp)]:
                b = GraphBuilder(InsertPoint.before(inner), OPS_BY_NAME)
                b.location = inner.location
                new = decompose(inner, b)
                if new is not None:
                    new.name_hint = inner.result.name_hint
                    inner.result.replace_all_uses_with(new)
                    inner.detach()
                    inner.erase()


def _along_first_axis(op: UnaryCollectiveOp, b: GraphBuilder) -> SSAValue | None:
    match op:
        case ShardSliceOp():
            return _row(op, b) or _slice(op, b)
        case AllGatherOp() if op.position > 0:
            return _gather(op, b)
        case ReduceScatterOp() if op.position > 0:
            return _scatter(op, b)
        case _:
            return None


def _widened(op: UnaryCollectiveOp, b: GraphBuilder) -> SSAValue | None:
    """What adds up floats of 16 bits does so in 32."""
    element = type_of(op.operand).element
    if not isinstance(op, ReducingOp) or element not in (F16, BF16):
        return None
    wide = op.clone({op.operand: b.cast(op.operand, to=F32)})
    wide.set_results()
    b.builder.insert(wide)
    return b.cast(wide.result, to=element)


def _of_few_dims(op: UnaryCollectiveOp, b: GraphBuilder) -> SSAValue | None:
    """What ranks exchange is stored as it lies, in no layout that suits an einsum: its dims that
    are side by side in one operand as well are computed as one.
    """
    einsum = op.operand.owner
    if not isinstance(einsum, EinsumOp) or len(list(einsum.result.uses)) > 1:
        return None
    terms, result = einsum.terms
    joined = {pair[1] for pair in pairwise(result) if _adjacent(pair, terms)}
    if not joined:
        return None
    b.location = einsum.location
    pairs = zip(terms, einsum.inputs, strict=True)
    inputs = [Term(b, each).reshape(_joined(letters, each, joined)) for letters, each in pairs]
    equation = "".join(c for c in einsum.equation.data if c not in joined)
    few = b.einsum(*(each.value for each in inputs), equation=equation, block=einsum.block)
    shaped = b.reshape(few, shape=type_of(einsum.result).dims)
    again = op.clone({op.operand: shaped})
    again.set_results()
    return b.builder.insert(again).result


def _adjacent(pair: tuple[str, str], terms: Sequence[str]) -> bool:
    """Whether one operand alone has these letters, each once, one behind the other."""
    holders = [letters for letters in terms if not set(pair).isdisjoint(letters)]
    if len(holders) > 1 or "".join(pair) not in holders[0]:
        return False
    return all(holders[0].count(letter) == 1 for letter in pair)


def _joined(letters: str, operand: SSAValue, joined: Set[str]) -> list[Expr]:
    """The dims of an operand whose letters in the set belong to those in front of them."""
    shape: list[Expr] = []
    for letter, dim in zip(letters, type_of(operand).shape, strict=True):
        if letter in joined:
            shape[-1] *= dim
        else:
            shape.append(dim)
    return shape


def _blocks(shape: Sequence[Expr], axis: int, parts: int) -> list[Expr]:
    """A shape whose axis is split into parts and a part's dim."""
    return [*shape[:axis], Expr.of(parts), shape[axis] // parts, *shape[axis + 1 :]]


def _slice(op: ShardSliceOp, b: GraphBuilder) -> SSAValue:
    shape, axis = type_of(op.operand).shape, op.position
    index = b.builder.insert(RankIndexOp.of(None, op.mesh, op.axis_names, op.location)).result
    blocks = b.reshape(op.operand, shape=_blocks(shape, axis, op.parts))
    return b.gather(blocks, index, axis=axis)


def _row(op: ShardSliceOp, b: GraphBuilder) -> SSAValue | None:
    """The part of a weight, which may be the part of one along other axes: of `[m, a, n * k, b]`
    the row of `[m, n, a, k, b]`, which is computed while compiling. None of another value.
    """
    source = op.operand.owner
    if isinstance(source, ShardRowOp):
        held, axes = source.operand, source.axis_names
    elif isinstance(source, ConstantOp) and source.key is not None:
        held, axes = op.operand, ()
        b.location = NameLoc(source.key, NoneAttr())  # by which what is computed of it is known
    else:
        return None
    shape, axis, before = type_of(op.operand).shape, op.position, op.mesh.parts(axes)
    rows = b.reshape(held, shape=[Expr.of(before), *_blocks(shape, axis, op.parts)])
    if axis > 0:
        others = [at for at in range(1, len(shape) + 2) if at != axis + 1]
        rows = b.transpose(rows, permutation=[0, axis + 1, *others])
    rows = b.reshape(rows, shape=[Expr.of(before * op.parts), *type_of(op.result).shape])
    row = ShardRowOp.of(rows, op.mesh, (*axes, *op.axis_names), op.location)
    return b.builder.insert(row).result


def _gather(op: AllGatherOp, b: GraphBuilder) -> SSAValue:
    """Parts `[a, k, b]` of all ranks: `[n, a, k, b]`, then `[a, n, k, b]`."""
    shape, axis = type_of(op.operand).shape, op.position
    outer = product(shape[:axis])
    inner = product(shape[axis:])
    flat = b.reshape(op.operand, shape=[outer, inner])
    gathered = b.builder.insert(
        AllGatherOp.of(flat, op.mesh, op.axis_names, op.location, axis=0, replicated=True)
    ).result
    ranks = b.reshape(gathered, shape=[Expr.of(op.parts), outer, inner])
    ordered = b.transpose(ranks, permutation=[1, 0, 2])
    return b.reshape(ordered, shape=type_of(op.result).dims)


def _scatter(op: ReduceScatterOp, b: GraphBuilder) -> SSAValue:
    """`[a, n, k, b]`, then `[n, a, k, b]`, of which each rank gets its row."""
    shape, axis = type_of(op.operand).shape, op.position
    outer, inner = product(shape[:axis]), product(shape[axis:]) // op.parts
    blocks = b.reshape(op.operand, shape=[outer, Expr.of(op.parts), inner])
    ranks = b.transpose(blocks, permutation=[1, 0, 2])
    flat = b.reshape(ranks, shape=[outer * op.parts, inner])
    scattered = ReduceScatterOp.of(
        flat, op.mesh, op.axis_names, op.location, axis=0, reduction=op.reduction
    )
    return b.reshape(b.builder.insert(scattered).result, shape=type_of(op.result).dims)
