"""graph -> graph: groups the two matrix products of an attention, and all between them, into one
`graph.fused`.

    %s = graph.matmul %q, %k
    ...                          elementwise operators: a scale, a mask
    %p = graph.softmax %t
    ...                          elementwise operators: rows without any score set to zero
    %y = graph.matmul %p, %v

Scalar factors of the operands become one of the scores, zeros that are added to them go; transposes
and expansions that nobody else uses join the group as well. Its kernel keeps a block of rows of the
scores at a time, which never goes to main memory.

Attentions of fewer rows stay products and a softmax; the products of a group of queries share keys
and values, which are read once.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.fuse.fuse import build_group
from weft.compiler.graph.fuse.share_repeated import share_repeated
from weft.compiler.graph.match import only_user
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, GraphOp, ReshapeOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp, is_splat
from weft.dialects.graph.core.types import type_of
from weft.dialects.graph.ops.arithmetic import AddOp, MulOp
from weft.dialects.graph.ops.matmul import MatmulOp
from weft.dialects.graph.ops.softmax import SoftmaxOp
from weft.dialects.graph.reindexing.movement import IndexMapOp
from weft.dialects.loop.scalar import is_float, width

FEWEST_ROWS = 16
"""Rows of scores below which a block of them fills no vector."""

LONGEST_ROW = 2048
"""Scores of a row: a block of rows has to stay in the second cache."""


class FuseAttentionPass(ModulePass):
    """Groups every attention whose scores have rows enough for a block, or a number of them that
    only a call knows.
    """

    name = "weft-fuse-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                fuse_attention(function.body.block)


def fuse_attention(block: Block) -> None:
    """Groups the attentions of a block."""
    for product in [op for op in block.ops if isinstance(op, MatmulOp)]:
        if _row_count(product.lhs) < FEWEST_ROWS:
            share_repeated(product)
    for softmax in [op for op in block.ops if isinstance(op, SoftmaxOp)]:
        _drop_zeros(softmax)
        path = _back_to_scores(softmax)
        if path is None or _on_to_result(softmax) is None:
            continue
        _sink_scales(path[0])
        members = _attention_around(softmax)
        if members is not None and _fits_blocks(softmax):
            position = {op: number for number, op in enumerate(block.ops)}
            build_group(sorted(members, key=lambda op: position[op]), block)


def _attention_around(softmax: SoftmaxOp) -> list[GraphOp] | None:
    """The operators of the attention that a softmax is the middle of, or None."""
    before, behind = _back_to_scores(softmax), _on_to_result(softmax)
    if before is None or behind is None:
        return None
    scores, result = before[0], behind[-1]
    moves = [
        move for operand in (*scores.operands, result.operands[1]) for move in _moves_of(operand)
    ]
    return list(dict.fromkeys([*moves, *before, softmax, *behind]))


def _fits_blocks(softmax: SoftmaxOp) -> bool:
    """Whether there are rows enough for a block, of which the second cache holds the scores."""
    columns = type_of(softmax.operand).shape[-1].constant
    return _row_count(softmax.operand) >= FEWEST_ROWS and (columns or 0) <= LONGEST_ROW


def _row_count(value: SSAValue) -> int:
    """The rows of each matrix of a value; as many as a block takes where only a call knows."""
    shape = type_of(value).shape
    return (shape[-2].constant if len(shape) > 1 else 1) or FEWEST_ROWS


def _on_to_result(softmax: SoftmaxOp) -> list[GraphOp] | None:
    """The elementwise operators on the way from the softmax to the product that takes it."""
    path: list[GraphOp] = []
    value = softmax.result
    while users := _next_users(value):
        path += users
        user = users[-1]
        if isinstance(user, MatmulOp):
            fits = user.lhs is value and user.rhs is not value and type_of(user.rhs).rank > 1
            return path if fits else None
        if not isinstance(user, ElementwiseOp) or len(user.results) != 1:
            return None
        if user.result_type.dims != type_of(value).dims:
            return None
        value = user.results[0]
    return None


def _next_users(value: SSAValue) -> list[GraphOp]:
    """The only user of a value, or the only other one and before it one that computes for it, as in
    `where(is_nan(p), 0, p)`; nothing where others use it too.
    """
    user = _only_user(value)
    if user is not None:
        return [user]
    users = list(dict.fromkeys(use.operation for use in value.uses))
    for first, second in (users, reversed(users)) if len(users) == 2 else ():
        if isinstance(first, ElementwiseOp) and isinstance(second, ElementwiseOp):
            between = [_only_user(result) for result in first.results]
            if between == [second] and first.result_type.shape == type_of(value).shape:
                return [first, second]
    return []


def _drop_zeros(softmax: SoftmaxOp) -> None:
    """Takes away zeros that are added to scores: a mask that forbids nothing.

    softmax(s + 0)   ->   softmax(s)        the powers of 0 and -0 are the same
    """
    added = softmax.operand.owner
    if not isinstance(added, AddOp):
        return
    for source, zeros in (added.operands, reversed(added.operands)):
        if is_splat(zeros, 0.0) and source.type == softmax.operand.type:
            softmax.operands[0] = source
            if not added.result.uses:
                added.detach()
                added.erase()
            return


def _sink_scales(scores: GraphOp) -> None:
    """Multiplies the product instead of its operands, as far as those are scaled by numbers.

    (a * s) @ (b * t)   ->   (a @ b) * (s * t)
    """
    operands, factor = list(scores.operands), 1.0
    for position, operand in enumerate(operands):
        scaled = _scale_of(operand)
        if scaled is not None:
            operands[position], factor = scaled[0], factor * scaled[1]
    if operands == list(scores.operands):
        return
    b = GraphBuilder(InsertPoint.before(scores), OPS_BY_NAME, scores.location)
    product = b.matmul(*operands)
    result = b.mul(product, b.constant_of(factor, type_of(product).element))
    result.name_hint = scores.results[0].name_hint
    scores.results[0].replace_all_uses_with(result)
    pending = [operand.owner for operand in scores.operands]
    for op in (scores, *pending):
        if isinstance(op, GraphOp) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _scale_of(value: SSAValue) -> tuple[SSAValue, float] | None:
    """What a value that nobody else uses is multiplied with a number from, and that number."""
    owner = value.owner
    if not isinstance(owner, MulOp) or _only_user(value) is None:
        return None
    for source, factor in (owner.operands, reversed(owner.operands)):
        constant = factor.owner
        if (
            isinstance(constant, ConstantOp)
            and constant.literal is not None
            and len(constant.literal.data) == 1
            and type_of(source).dims == type_of(value).dims
        ):
            return source, float(constant.literal.data[0])
    return None


def _back_to_scores(softmax: SoftmaxOp) -> list[GraphOp] | None:
    """The product whose result reaches the softmax, and the elementwise operators on its way."""
    tensor_type = type_of(softmax.operand)
    if not tensor_type.has_rank or tensor_type.rank < 3 or softmax.position != tensor_type.rank - 1:
        return None
    if not is_float(tensor_type.element) or width(tensor_type.element) < 32:
        return None
    path: list[GraphOp] = []
    value = softmax.operand
    while _only_user(value) is not None:
        owner = value.owner
        if isinstance(owner, MatmulOp):
            ranks = [type_of(operand).rank for operand in owner.operands]
            return [owner, *reversed(path)] if min(ranks) > 1 else None
        if not isinstance(owner, ElementwiseOp):
            return None
        path.append(owner)
        alike = [each for each in owner.operands if _is_computed_like(each, tensor_type.dims)]
        if len(alike) != 1 or len(owner.results) != 1:
            return None
        value = alike[0]
    return None


def _is_computed_like(value: SSAValue, dims: object) -> bool:
    """Whether a value is made of as many elements as the scores by a product or elementwise."""
    return type_of(value).dims == dims and isinstance(value.owner, (MatmulOp, ElementwiseOp))


def _moves_of(value: SSAValue) -> list[GraphOp]:
    """The movements of elements that end in a value which nobody else uses; reshapes at their
    beginning stay outside, where they cost nothing.
    """
    moves: list[GraphOp] = []
    while isinstance(value.owner, IndexMapOp) and _only_user(value) is not None:
        moves.append(value.owner)
        value = value.owner.operand
    while moves and isinstance(moves[-1], ReshapeOp):
        moves.pop()
    return moves[::-1]


def _only_user(value: SSAValue) -> GraphOp | None:
    """The one operator that uses a value, and uses it once."""
    user = only_user(value)
    return user if isinstance(user, GraphOp) else None
