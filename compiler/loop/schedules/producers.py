"""What fills a buffer that a reduction reads, done where it is read: a channel's padded plane is
written right before the windows over it, and stays in a near cache.

    for j:  p[j] = pad(x[j])        ->   for j:  p[j] = pad(x[j]);  y[j] = windows(p[j])
    for j:  y[j] = windows(p[j])
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.loop.nest import accesses_in, loops_in
from compiler.loop.primitives import fuse
from compiler.loop.schedules.leaves import privatize, vectorize_leaves
from compiler.target.target import Target
from dialects.errors import IllegalSchedule
from dialects.loop.ops import AllocOp, ForOp, LoadOp, StoreOp

LARGEST_PLANE = 64 * 1024
"""Bytes of an operand of one iteration that a thread has on its stack."""


def join_producers(consumers: list[ForOp], target: Target) -> list[ForOp]:
    """Fuses neighbouring nests with the first, and that with the nests in front that fill its
    operands, as long as the outer loops agree; returns the outer loops that are left.

    What is fused has no marks yet on its outer loop; the leaves of producers become vectors.
    """
    first, *rest = consumers
    left: list[ForOp] = []
    for consumer in rest:
        fused = None if left else _try_fuse(first, consumer)
        first = fused or first
        left += [] if fused else [consumer]
    for producer in list(_producers(first)):
        if producer.extent != first.extent or not loops_in(producer):
            break
        leaves = [op for op in producer.body.block.ops if isinstance(op, ForOp)]
        fused = _try_fuse(producer, first)
        if fused is None:
            break
        for leaf in leaves:
            vectorize_leaves(leaf, target)
        first = fused
    privatize(first, LARGEST_PLANE)
    return [first, *left]


def _producers(consumer: ForOp) -> Iterator[ForOp]:
    """The nests right in front, from the last on, that store to a local buffer which is read."""
    read = {
        access.buffer
        for access in accesses_in(consumer)
        if isinstance(access, LoadOp) and isinstance(access.buffer.owner, AllocOp)
    }
    before = consumer.prev_op
    while before is not None:
        following = before.prev_op
        if isinstance(before, ForOp):
            stored = {a.buffer for a in accesses_in(before) if isinstance(a, StoreOp)}
            if not stored <= read or before.parallel is not None:
                return
            yield before
        before = following


def _try_fuse(first: ForOp, second: ForOp) -> ForOp | None:
    try:
        return fuse(first, second)
    except IllegalSchedule:
        return None
