"""graph -> graph: movements go behind elementwise operators where that lets them go altogether.

    transpose(f(transpose(x)))    ->  f(x), the orders being inverse to each other
    f(reshape(g(x)), bias)        ->  reshape(f(g(x), bias)), which lets f join g in one kernel

Other operands of `f` are constants, which are brought into the other order; they go along below a
reshape where they broadcast over dims alone that it keeps, or are whole values that others read as
well, of which a view is reshaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.match import erase_unused, is_row_of_slice, only_user
from weft.compiler.graph.simplify.evaluate_constants import constant_of, evaluate_constants
from weft.compiler.graph.widen_halves import extends_factor
from weft.dialects.context import weights_of
from weft.dialects.graph import OPS_BY_NAME, ConstantOp, GraphOp, ReshapeOp, TransposeOp
from weft.dialects.graph.core.algebra import Term
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.op import SEGMENTS
from weft.dialects.graph.core.types import Shape, type_of
from weft.dialects.weights import WeightStore

LONGEST_CHAIN = 16
"""Elementwise operators between two transposes."""

ReshapeUsers = dict[ReshapeOp, Sequence[Operation]]
"""What `_users_of_kinds` has found so far."""


class SinkReindexingPass(ModulePass):
    """Rewrites the movements of the module."""

    name = "weft-sink-reindexing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sink_reindexing(op, weights_of(ctx))


def sink_reindexing(module: ModuleOp, weights: WeightStore) -> None:
    """Rewrites in place, each operator once."""
    for op in list(module.walk()):
        if isinstance(op, TransposeOp) and op.parent is not None:
            _cancel(op, weights)
    reshape_users: ReshapeUsers = {}
    for op in list(module.walk()):
        if not isinstance(op, ElementwiseOp) or op.parent is None or len(op.results) != 1:
            continue
        if not extends_factor(op):  # a product takes that in
            _sink_reshapes(op, reshape_users)


def _cancel(transpose: TransposeOp, weights: WeightStore) -> None:
    """Removes a transpose and its inverse around elementwise operators."""
    if not type_of(transpose.operand).has_rank:
        return
    path: list[ElementwiseOp] = []
    value = transpose.result
    while len(path) < LONGEST_CHAIN:
        user = only_user(value)
        if isinstance(user, TransposeOp):
            if path and [transpose.axes[axis] for axis in user.axes] == sorted(transpose.axes):
                _without(transpose, path, user, weights)
            return
        if not isinstance(user, ElementwiseOp) or len(user.results) != 1:
            return
        if not _moves_with(user, value, transpose, weights):
            return
        path.append(user)
        value = user.results[0]


def _moves_with(
    op: ElementwiseOp, value: SSAValue, transpose: TransposeOp, weights: WeightStore
) -> bool:
    """Whether the operator may be computed in the order before the transpose."""
    if type_of(op.results[0]).dims != type_of(value).dims:
        return False
    others = [operand for operand in op.operands if operand is not value]
    return all(constant_of(each, weights) or _is_same(each, transpose) for each in others)


def _is_same(value: SSAValue, transpose: TransposeOp) -> bool:
    """Whether a value comes out of a transpose in the same order."""
    owner = value.owner
    if not isinstance(owner, TransposeOp) or owner.axes != transpose.axes:
        return False
    return type_of(owner.operand).dims == type_of(transpose.operand).dims


def _without(
    transpose: TransposeOp, path: Sequence[ElementwiseOp], last: TransposeOp, weights: WeightStore
) -> None:
    moved: dict[SSAValue, SSAValue] = {transpose.result: transpose.operand}
    for op in path:
        operands: list[SSAValue | None] = []
        for operand in op.slots():
            if operand is not None and operand not in moved:
                moved[operand] = _before(operand, op, transpose, weights)
            operands.append(None if operand is None else moved[operand])
        moved[op.results[0]] = _rebuilt(op, operands).results[0]
    result = moved[path[-1].results[0]]
    result.name_hint = last.result.name_hint
    last.result.replace_all_uses_with(result)
    erase_unused(last)


def _before(
    value: SSAValue, user: ElementwiseOp, transpose: TransposeOp, weights: WeightStore
) -> SSAValue:
    """Another operand in the order before the transpose."""
    owner = value.owner
    if isinstance(owner, TransposeOp):
        return owner.operand
    assert isinstance(owner, ConstantOp), "what moves along is a constant or transposed as well"
    axes, dims = transpose.axes, owner.result_type.shape
    if owner.result_type.size == 1:
        return value
    b = GraphBuilder(InsertPoint.before(user), OPS_BY_NAME, owner.location)
    padded = Term(b, value).reshape((1,) * (len(axes) - len(dims)) + dims)
    turned = padded.transpose([axes.index(axis) for axis in range(len(axes))])
    name = owner.key.data if owner.key is not None else "constant"
    (constant,) = evaluate_constants([turned.value], [name], weights)
    return constant


def _rebuilt(op: ElementwiseOp, operands: Sequence[SSAValue | None]) -> GraphOp:
    """The operator on other operands, in front of itself."""
    properties = {name: value for name, value in op.properties.items() if name != SEGMENTS}
    made = type(op).from_properties(operands, properties, op.location)
    made.results[0].name_hint = op.results[0].name_hint
    _insert_before(made, op)
    return made


def _insert_before(op: GraphOp, anchor: GraphOp) -> None:
    block = anchor.parent
    assert block is not None, "an operator stands in a block"
    block.insert_op_before(op, anchor)


def _sink_reshapes(op: ElementwiseOp, reshape_users: ReshapeUsers) -> None:
    """Computes an operator on what its reshaped operands were before."""
    reshapes = [each.owner for each in op.operands if isinstance(each.owner, ReshapeOp)]
    inner = [each for each in reshapes if _is_worth_it(each, op, reshape_users)]
    if not inner or not all(type_of(each.operand).has_rank for each in inner):
        return
    source = type_of(inner[0].operand).shape
    kept = _common_end(source, op.result_type.shape)
    moved: dict[SSAValue, SSAValue] = {}
    others: list[SSAValue] = []
    for operand in dict.fromkeys(op.operands):
        owner = operand.owner
        if isinstance(owner, ReshapeOp) and owner in inner:
            if type_of(owner.operand).shape != source:
                return
            moved[operand] = owner.operand
        elif type_of(operand).has_rank and type_of(operand).rank <= kept:
            moved[operand] = operand
        elif kept and _is_elsewhere(operand, op):
            others.append(operand)
        else:
            return
    for operand in others:
        view = ReshapeOp.of(operand, shape=type_of(inner[0].operand).dims, location=op.location)
        _insert_before(view, op)
        moved[operand] = view.result
    operands = [None if operand is None else moved[operand] for operand in op.slots()]
    made = _rebuilt(op, operands)
    if type_of(made.results[0]).dims != type_of(inner[0].operand).dims:
        erase_unused(made)
        return
    behind = ReshapeOp.of(made.results[0], shape=op.result_type.dims, location=op.location)
    _insert_before(behind, op)
    behind.result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(behind.result)
    erase_unused(op)


def _is_worth_it(reshape: ReshapeOp, user: ElementwiseOp, reshape_users: ReshapeUsers) -> bool:
    """Whether the reshape is of something computed and of the operator's shape, as it is of that of
    all its users. One row of a slice is read where it lies.
    """
    owner = reshape.operand.owner
    computed = isinstance(owner, GraphOp) and not isinstance(owner, ConstantOp)
    if not computed or is_row_of_slice(reshape):
        return False
    if reshape.result_type.dims != user.result_type.dims:
        return False
    known = reshape_users.get(reshape, ())
    if not known or (len(known) > 1 and any(each.parent is None for each in known)):
        known = reshape_users[reshape] = _distinct_users(reshape)
    return len(known) == 1 and isinstance(known[0], ElementwiseOp)


def _distinct_users(reshape: ReshapeOp) -> Sequence[Operation]:
    """A user of a reshape; and one that is another than an elementwise operator of the first one's
    type, if there is any. While a module is rewritten no new ones come to those of one kind.
    """
    users = (use.operation for use in reshape.result.uses)
    first = next(users)
    value_type = first.results[0].type if isinstance(first, ElementwiseOp) else None
    for user in users:
        if not isinstance(user, ElementwiseOp) or user.results[0].type != value_type:
            return [first, user]
    return [first]


def _is_elsewhere(value: SSAValue, user: ElementwiseOp) -> bool:
    """Whether a value of the operator's shape is there for others as well, such as what a residual
    connection goes around: then no kernel that makes it could take the operator in.
    """
    shaped = type_of(value).dims == user.result_type.dims
    return shaped and only_user(value) is None


def _common_end(one: Shape, other: Shape) -> int:
    """How many of the last dims are the same."""
    count = 0
    for first, second in zip(reversed(one), reversed(other), strict=False):
        if first != second:
            break
        count += 1
    return count
