"""graph -> loop: a collective is started and waited for in the program, a message is sent or
received; the rank is in memory.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from weft.dialects.errors import UnsupportedError
from weft.dialects.graph.core.types import I64
from weft.dialects.graph.mesh.collectives import (
    AlongAxisCollectiveOp,
    CollectiveOp,
    RankIndexOp,
    ReducingOp,
)
from weft.dialects.graph.mesh.messages import MessageOp, SendOp
from weft.dialects.loop import communication as loop
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.communication import COLLECTIVES, RankOp, StartOp, WaitOp
from weft.dialects.loop.scalar import Scalar


def lower_collective(
    op: CollectiveOp, source: SSAValue | None, target: SSAValue, block: Block, number: int
) -> int:
    """Adds what a collective does to the program, as its next communication, and how many that
    are. Raises UnsupportedError for one that is not decomposed.
    """
    axes = axes_of(op)
    if source is None:
        assert isinstance(op, RankIndexOp), "what has no operand is the rank"
        rank = RankOp.of(axes)
        block.add_op(rank)
        builder = LoopBuilder(block)
        builder.store(target, [], Scalar(builder.builder, rank.result, I64))
        return 0
    operation = op.name.removeprefix("graph.")
    inner = isinstance(op, AlongAxisCollectiveOp) and op.position > 0
    if operation not in COLLECTIVES or inner:
        rule = "collectives along the first axis, as weft-decompose-collectives leaves them"
        raise UnsupportedError(f"weft-graph-to-loop requires {rule}, got {op.name}")
    reduction = op.reduction.data if isinstance(op, ReducingOp) else "sum"
    for each in (StartOp, WaitOp):
        added = each.of(operation, reduction, source, target, axes, number)
        added.location = op.location
        block.add_op(added)
    return 1


def message_of(op: MessageOp, buffer: SSAValue) -> loop.MessageOp:
    """The operation that sends or receives a buffer."""
    ends = loop.SendOp if isinstance(op, SendOp) else loop.RecvOp
    return ends.of(buffer, axes_of(op), op.peer.value.data, op.number.value.data)


def axes_of(op: CollectiveOp | MessageOp) -> list[tuple[int, int]]:
    """The size and the stride of each axis of the groups."""
    return [(op.mesh.sizes[name], op.mesh.strides[name]) for name in op.axis_names]
