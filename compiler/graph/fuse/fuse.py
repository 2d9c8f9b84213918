"""graph -> graph: groups operators that should be one kernel into `graph.fused`.

A group has at most one operator that is more than elementwise or a movement of elements.
Elementwise operators join the group of their operand where they are its only user and keep its
shape; cheap operators join the group of their only user where that reads each element about once,
so that neither costs a pass over memory of its own. What goes over the same elements then becomes
one group with several results (fuse_siblings).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph.fuse.fuse_siblings import Group, fuse_siblings, join, note_refusal
from weft.compiler.graph.match import is_row_of_slice
from weft.compiler.graph.widen_halves import extends_factor
from weft.compiler.target.target import PAGE
from weft.dialects.context import Refusals, WeftContext
from weft.dialects.graph import AfterOp, ConstantOp, ControlOp, FusedOp, GraphOp, ReshapeOp, YieldOp
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import BF16, F16, F32, I8, UI8, type_of
from weft.dialects.graph.ops.cast import CastOp
from weft.dialects.graph.ops.matmul import MatmulOp
from weft.dialects.graph.reindexing.movement import IndexMapOp, TransposeOp
from weft.dialects.graph.reindexing.pad import PadOp
from weft.dialects.graph.reindexing.scatter import ScatterOp
from weft.dialects.loop.scalar import width

LARGEST_GROUP = 32
"""Operators; keeps kernels at a size that every later stage handles quickly."""

LONG_COLUMNS = 256
"""Elements of a transposed matrix along a sum, from which on L1 does not keep a line that a tile of
rows reads a part of until the next tile reads the rest.
"""

MANY_COLUMNS = 128
"""Columns of a product whose panels read its rows so often that a copy of them in order pays."""


class FusePass(ModulePass):
    """Groups the operators of every graph function, and of each region in it."""

    name = "weft-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        refusals = ctx.refusals if isinstance(ctx, WeftContext) else None
        for function in op.ops:
            if isinstance(function, FuncOp):
                fuse(function.body.block, refusals)


def fuse(block: Block, refusals: Refusals | None = None) -> None:
    """Forms the groups in one walk from the first operator on, then builds them; regions of control
    flow come first, each by itself. Why operators stay apart is added to `refusals`, if asked for.
    """
    for op in block.ops:
        for region in op.regions if isinstance(op, ControlOp) else ():
            fuse(region.block, refusals)
    # What several products take in joins none of them: a copy for each joins its product.
    for op in list(block.ops):
        if isinstance(op, TransposeOp | CastOp) and is_taken_in(op):
            _copy_for_each_user(op, block)
    # Operators come in the order of their values, so the group of a producer is complete, but for
    # its consumers, when it is looked at; siblings are looked for when all of these are decided.
    groups: dict[Operation, Group] = {}
    position = {op: number for number, op in enumerate(block.ops)}
    for op in block.ops:
        if isinstance(op, GraphOp) and _is_computed(op):
            group = Group([op], None if _is_light(op) else op)
            groups[op] = group
            for operand, reason in _take_in(group, groups, position).items():
                if operand in op.operands:
                    note_refusal(refusals, operand, op, reason)
    fuse_siblings(block, groups, position, refusals)
    for group in dict.fromkeys(groups.values()):
        build_group(group.in_order(), block, group.members[-1])


def _take_in(
    group: Group, groups: dict[Operation, Group], position: Mapping[Operation, int]
) -> dict[SSAValue, str]:
    """Joins the groups that make what a group reads to it; gives why others stay apart. One that
    joins may have been the other reader of a value: of `x * sigmoid(x)` what makes x follows the
    sigmoid. So those that stay apart are asked again.
    """
    refused: dict[SSAValue, str] = {}
    pending = [operand for op in group.members for operand in op.operands]
    while pending:
        operand = pending.pop(0)
        producer = groups.get(operand.owner) if isinstance(operand.owner, GraphOp) else None
        if producer is None or producer is group:
            continue
        reason = _refusal(producer, group, operand, groups)
        if reason is not None:
            refused[operand] = reason
            continue
        pending += refused
        pending += [operand for op in producer.members for operand in op.operands]
        refused.clear()
        join(producer, group, groups, position)
    return refused


def is_taken_in(op: TransposeOp | CastOp) -> bool:
    """Whether a transposed matrix is only read by products, as rows, and none of them is quicker
    with a copy. What products of bf16 extend costs nothing.
    """
    if isinstance(op, CastOp):
        return extends_factor(op)
    return all(
        isinstance(use.operation, MatmulOp)
        and use.index == 0
        and not _copied_for(use.operation, op)
        for use in op.result.uses
    )


def _copy_for_each_user(op: TransposeOp | CastOp, block: Block) -> None:
    """Gives each product but the first a transpose or a conversion of its own."""
    for use in list(op.result.uses)[1:]:
        copy = op.clone()
        block.insert_op_before(copy, op)
        use.operation.operands[use.index] = copy.result


def _is_computed(op: GraphOp) -> bool:
    """Whether the operator may share a kernel; constants and reshapes become none by themselves,
    but for rows of slices, and what keeps an order stays alone.
    """
    if isinstance(op, ReshapeOp):
        return is_row_of_slice(op)
    return not isinstance(op, ConstantOp | AfterOp) and len(op.results) == 1


def _is_light(op: GraphOp) -> bool:
    return isinstance(op, (ElementwiseOp, IndexMapOp))


def _refusal(
    producer: Group, consumer: Group, value: SSAValue, groups: dict[Operation, Group]
) -> str | None:
    """Why the group that makes `value` stays apart from the group that uses it; None where it
    becomes part of it.
    """
    if len(producer.members) + len(consumer.members) > LARGEST_GROUP:
        return f"together they have more than {LARGEST_GROUP} operators"
    # Not all uses are looked at: a value that everything reads is asked about by each that does.
    if any(groups.get(use.operation) is not consumer for use in value.uses):
        return "the value has other readers"
    if all(map(extends_factor, consumer.members)) and not _only_moves(producer):
        return "a product reads elements of 16 bits"
    if producer.anchor is None:
        joins = consumer.anchor is None or _absorbs(consumer, producer, value)
        return None if joins else "the reader would compute the elements anew at each of its reads"
    if consumer.anchor is not None:
        return "both are more than elementwise operators and movements"
    if _continues(producer, consumer, value):
        return None
    return "what follows is not elementwise over elements of the value"


def _only_moves(group: Group) -> bool:
    return all(isinstance(op, IndexMapOp) for op in group.members)


def _absorbs(consumer: Group, producer: Group, value: SSAValue) -> bool:
    """Whether the anchor may compute the producer's elements anew at each of its reads."""
    anchor = consumer.anchor
    assert anchor is not None, "a group without an anchor absorbs anything"
    if isinstance(anchor, ScatterOp) and value == anchor.operand:
        # Which is changed where it is: together, what pads it would write a buffer to copy.
        return not any(isinstance(op, PadOp) for op in producer.members)
    if anchor.REUSES_OPERANDS:
        operand = anchor.PACKED_OPERAND
        packed = operand is not None and value == anchor.operands[operand]
        return all(
            (isinstance(op, IndexMapOp) and (packed or not _copied_for(anchor, op))) or widens(op)
            for op in producer.members
        )
    return True


def widens(op: GraphOp) -> bool:
    """Whether an operator makes floats of 32 bits of those of 16, or of the bytes of a weight. A
    product does that again for each tile of rows, which takes less than to read more bytes.
    """
    if not isinstance(op, CastOp) or op.to != F32:
        return False
    source = op.operand
    if type_of(source).element not in (I8, UI8):
        return type_of(source).element in (F16, BF16)
    while isinstance(source.owner, IndexMapOp | ReshapeOp):
        source = source.owner.operands[0]
    return isinstance(source.owner, ConstantOp)


def has_set_conflicts(op: IndexMapOp) -> bool:
    """Whether reading along the rows of a transposed matrix goes down columns whose elements share
    a few sets of a cache and evict each other: rows are longer than a page, and a multiple of half
    a page apart. As the left operand of a product it is read again and again, and a copy costs
    less: of 512 x 3072 floats, times 512 x 768, half. The right one is packed a panel at a time,
    which reads each element once: a copy costs more, times 128 rows of 3072 a third.
    """
    if not isinstance(op, TransposeOp) or op.axes[-1:] == (len(op.axes) - 1,):
        return False
    source = type_of(op.operand)
    pitch = source.shape[-1].constant if source.rank > 1 else None
    if pitch is None:
        return False
    distance = pitch * width(source.element) // 8
    return distance > PAGE and distance % (PAGE // 2) == 0


def _copied_for(anchor: GraphOp, op: IndexMapOp) -> bool:
    """Whether a product better reads a copy of its transposed left operand than the matrix as it
    is: columns collide in a cache, or they and the product's rows are long. A panel of columns then
    reads the lines of each tile of rows from L2: of 1024 x 512 floats, transposed, times 1024 x
    2048, 25 ms, with a copy 15.
    """
    if has_set_conflicts(op):
        return True
    if not isinstance(op, TransposeOp) or not isinstance(anchor, MatmulOp):
        return False
    source, columns = type_of(op.operand), anchor.result_type.shape[-1].constant
    depth = source.shape[op.axes[-1]].constant
    turned = source.rank > 1 and op.axes[-1] != source.rank - 1
    return turned and (depth or 0) >= LONG_COLUMNS and (columns or 0) >= MANY_COLUMNS


def _continues(producer: Group, consumer: Group, value: SSAValue) -> bool:
    """Whether elementwise operators continue from an anchor's result,
    each at the index of that result.
    """
    return all(isinstance(op, ElementwiseOp) for op in consumer.members) and all(
        op.result_type.dims == type_of(value).dims for op in consumer.members
    )


def build_group(operators: Sequence[GraphOp], block: Block, anchor: GraphOp | None = None) -> None:
    """Moves operators, in their order, into a `graph.fused` in place of one of them, by default the
    last; small constants are copied in.
    """
    last = anchor or operators[-1]
    yielded = Group(list(operators)).results() or last.results
    members = _with_constants(operators)
    inside = {result for op in members for result in op.results}
    if len(operators) == 1 and len(members) == 1:
        return
    operands = list(
        dict.fromkeys(operand for op in members for operand in op.operands if operand not in inside)
    )
    body = Block(arg_types=[operand.type for operand in operands])
    values: dict[SSAValue, SSAValue] = dict(zip(operands, body.args, strict=True))
    for argument, operand in zip(body.args, operands, strict=True):
        argument.name_hint = operand.name_hint
    for op in members:
        body.add_op(op.clone(values))
    body.add_op(YieldOp.create(operands=[values[each] for each in yielded]))
    fused = FusedOp.of(operands, body)
    fused.location = last.location
    block.insert_op_before(fused, last)
    for old, new in zip(yielded, fused.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in reversed(operators):
        op.detach()
        op.erase()


def _with_constants(members: Sequence[GraphOp]) -> list[GraphOp]:
    """The members with the inline constants that they read in front."""
    owners = dict.fromkeys(operand.owner for op in members for operand in op.operands)
    constants = [
        owner for owner in owners if isinstance(owner, ConstantOp) and owner.literal is not None
    ]
    return [*constants, *members]
