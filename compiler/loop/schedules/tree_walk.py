"""Walks down trees: lanes go down together, and each keeps the number of the node or leaf where it
is. Lanes become vectors, all of a block at once; blocks run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from xdsl.ir import Operation, SSAValue

from weft.compiler.loop.nest import accesses_in, loops_in
from weft.compiler.loop.primitives import parallelize, unroll, vectorize
from weft.compiler.loop.schedules.innermost_loops import lanes_for, nests_and_branches
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp
from weft.dialects.loop.program import KernelOp

NAME = "tree-walk"

LONGEST = 64
"""Lanes of a block, whose vectors are all in registers."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every walk that has no marks yet, those inside branches too."""
    for loop in nests_and_branches(kernel):
        if not any(_is_marked(each) for each in (loop, *loops_in(loop))) and matches(loop):
            apply(loop, target)
            yield NAME


def _is_marked(loop: ForOp) -> bool:
    return bool(loop.parallel or loop.vector or loop.unroll)


def matches(loop: ForOp) -> bool:
    """Lanes inside load from where a number says that they have kept."""
    return any(
        isinstance(each, LoadOp) and any(_was_kept(index, lanes) for index in each.operands_)
        for lanes in _lanes_in(loop)
        for each in accesses_in(lanes)
    )


def _lanes_in(loop: ForOp) -> Iterator[ForOp]:
    """Loops of which all iterations can go on together, in registers."""
    for inner in loops_in(loop):
        is_short = 1 < (inner.extent.constant or 0) <= LONGEST
        if is_short and not loops_in(inner) and inner.reduction is None:
            yield inner


def _was_kept(index: SSAValue, lanes: ForOp) -> bool:
    """Whether an index is from scratch memory of each lane's own, and only bounded and converted
    since: a load in between is from a table.
    """
    owner = index.owner
    if isinstance(owner, LoadOp):
        return isinstance(owner.buffer.owner, AllocOp) and stride(owner, lanes) == 1
    return isinstance(owner, Operation) and any(_was_kept(each, lanes) for each in owner.operands)


def apply(loop: ForOp, target: Target) -> None:
    """for io parallel: for t: for d: for l vector unroll"""
    for lanes in _lanes_in(loop):
        with suppress(IllegalSchedule):  # lanes that come one after the other
            unroll(vectorize(lanes, lanes_for(lanes, target)))
    with suppress(IllegalSchedule):
        parallelize(loop)
