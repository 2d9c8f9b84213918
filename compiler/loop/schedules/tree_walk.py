"""Walks down trees: loops of as many levels as a loaded number says, around lanes that go down
together. Lanes become vectors, all of a block at once; blocks run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from weft.compiler.loop.nest import loops_in
from weft.compiler.loop.primitives import parallelize, unroll, vectorize
from weft.compiler.loop.schedules.innermost_loops import lanes_for, nests_and_branches
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import ForOp, LoadOp
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
    """A loop inside runs as often as a loaded number says."""
    return any(_is_loaded(inner) for inner in loops_in(loop))


def _is_loaded(loop: ForOp) -> bool:
    """Whether how often it runs was loaded."""
    casts = (each.owner for each in loop.operands_ if isinstance(each.owner, arith.IndexCastOp))
    return any(isinstance(_uncast(cast.input), LoadOp) for cast in casts)


def _uncast(value: SSAValue) -> Operation | Block:
    """What gave a value before it was extended."""
    owner = value.owner
    return owner.input.owner if isinstance(owner, arith.ExtSIOp) else owner


def apply(loop: ForOp, target: Target) -> None:
    """for io parallel: for t: for d: for l vector unroll"""
    for lanes in loops_in(loop):
        extent = lanes.extent.constant or 0
        if not loops_in(lanes) and 1 < extent <= LONGEST and lanes.reduction is None:
            with suppress(IllegalSchedule):  # lanes that come one after the other
                unroll(vectorize(lanes, lanes_for(lanes, target)))
    with suppress(IllegalSchedule):
        parallelize(loop)
