"""Fusion of loops and of whole nests, where it is legal."""

from __future__ import annotations

from collections.abc import Iterable

from weft.compiler.loop.primitives import fuse_loops
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.ops import ForOp


def try_fuse(first: ForOp, second: ForOp) -> ForOp | None:
    """Both loops as one; None, and both as they were, where that is not legal."""
    try:
        return fuse_loops(first, second)
    except IllegalSchedule:
        return None


def fuse_nests(nests: Iterable[Iterable[ForOp]]) -> list[ForOp]:
    """One nest of the loops that neighbouring nests share, around what is inside of each.

    Raises IllegalSchedule where a nest has to wait for another.
    """
    first, *others = nests
    shared = list(first)
    for nest in others:
        for level, loop in enumerate(nest):
            shared[level] = fuse_loops(shared[level], loop)
    return shared
