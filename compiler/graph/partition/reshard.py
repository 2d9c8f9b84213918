"""A value that is cut one way becomes one that is cut another way.

What is no longer cut is gathered, what is to be cut is sliced; slices come first where they can, so
that less is gathered.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.mesh.attributes import Axes, Dims, MeshAttr
from weft.dialects.graph.mesh.collectives import AllGatherOp, ShardSliceOp


def reshard(
    b: GraphBuilder, value: SSAValue, given: Dims, wanted: Dims, mesh: MeshAttr
) -> SSAValue:
    """The part of a rank under another sharding."""
    rank = max(len(given), len(wanted))
    current = list(given or ((),) * rank)
    target = wanted or ((),) * rank
    value = _slice(b, value, current, target, mesh)
    for at in range(rank):
        kept = _common(current[at], target[at])
        if kept != current[at]:
            axes = current[at][len(kept) :]
            op = AllGatherOp.of(value, mesh, axes, b.location, axis=at, replicated=True)
            value = b.builder.insert(op).result
            current[at] = kept
    return _slice(b, value, current, target, mesh)


def _slice(
    b: GraphBuilder, value: SSAValue, current: list[Axes], target: Dims, mesh: MeshAttr
) -> SSAValue:
    """Cuts dims further along axes that cut no other; notes that in `current`."""
    for at, axes in enumerate(target):
        kept = _common(current[at], axes)
        used = {axis for each in current for axis in each}
        further = axes[len(kept) :]
        if further and kept == current[at] and used.isdisjoint(further):
            op = ShardSliceOp.of(value, mesh, further, b.location, axis=at)
            value = b.builder.insert(op).result
            current[at] = axes
    return value


def _common(one: Axes, other: Axes) -> Axes:
    """The axes with which both start."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]
