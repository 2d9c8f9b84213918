"""Which dims of a tensor become which ones of a reshape of it."""

from __future__ import annotations

from collections.abc import Iterator

from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import Shape


def reshape_groups(source: Shape, result: Shape) -> Iterator[tuple[range, range]]:
    """The dims of both shapes in groups of equal sizes, as small as can be told: each is a reshape
    of its own. `[4, 4, n, 64]` and `[16, n, 64]` have `[4, 4]` and `[16]`, then `[n]`, then `[64]`.
    """
    shapes, starts, ends = (source, result), [0, 0], [0, 0]
    sizes = [Expr.of(1), Expr.of(1)]
    while any(ends[side] < len(shapes[side]) for side in (0, 1)):
        shorter = int(sizes[0] != sizes[1] and _is_part(sizes[1], sizes[0]))
        side = shorter if ends[shorter] < len(shapes[shorter]) else 1 - shorter
        sizes[side] = sizes[side] * shapes[side][ends[side]]
        ends[side] += 1
        if sizes[0] == sizes[1]:
            yield range(starts[0], ends[0]), range(starts[1], ends[1])
            starts, sizes = list(ends), [Expr.of(1), Expr.of(1)]
    if starts != ends:  # sizes that are equal in another form
        yield range(starts[0], ends[0]), range(starts[1], ends[1])


def _is_part(one: Expr, other: Expr) -> bool:
    """Whether a size divides another, or is certainly below it."""
    if one != 0 and other % one == 0:
        return True
    _, high = (one - other).range({})
    return high is not None and high < 0
