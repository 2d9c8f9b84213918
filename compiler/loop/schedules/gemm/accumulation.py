"""The nests of one reduction as its schedule sees them: which loops are the columns (nr) and rows
(mr) of the register tile, which are batch dims, and which nests initialise and read the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.compiler.loop.nest import accesses_to, loops_in, perfect_nest, subscripts
from weft.compiler.loop.primitives import tile
from weft.dialects.expr import Expr
from weft.dialects.loop.ops import AccessOp, ForOp, StoreOp


def aligned(loop: ForOp, outer: Sequence[ForOp]) -> list[ForOp]:
    """The nest's loops, where one counts through two of the outer loops it is tiled into two."""
    found: list[ForOp] = []
    remaining = list(perfect_nest(loop))
    for position, wanted in enumerate(outer):
        if not remaining:
            break
        following = outer[position + 1].extent if position + 1 < len(outer) else Expr.of(1)
        size = following.constant
        here = remaining[0].extent
        if here != wanted.extent and size and size > 1 and here == wanted.extent * size:
            tiles = tile(remaining.pop(0), size)
            remaining = [tiles.outer, tiles.inner, *remaining]
        found.append(remaining.pop(0))
    return found


def overlap(access: AccessOp, rows: ForOp, reductions: Sequence[ForOp]) -> bool:
    """Whether neighbouring rows load some of the same elements, as overlapping windows do."""
    taps = {loop.index for loop in reductions}
    within = (set(expr.atoms()) for expr in subscripts(access))
    return any(rows.index in atoms and atoms & taps for atoms in within)


class AlignedNests(NamedTuple):
    """The outer loops of a reduction and of its neighbours, in program order; `own` says which are
    those of the reduction.
    """

    nests: list[list[ForOp]]
    own: int


def aligned_nests(loop: ForOp, store: StoreOp, outer: Sequence[ForOp]) -> AlignedNests | None:
    """The outer loops of a reduction's nest, of the nest in front that initialises what it stores,
    and of the one behind that reads that; None where their extents differ.
    """
    before, after = loop.prev_op, loop.next_op
    loops = [loop]
    if isinstance(before, ForOp) and accesses_to(store.buffer, before):
        loops.insert(0, before)
    own = len(loops) - 1
    if isinstance(after, ForOp) and accesses_to(store.buffer, after) and _is_pointwise(after):
        loops.append(after)
    nests = [aligned(each, outer) for each in loops]
    extents = [level.extent for level in outer]
    alike = all([level.extent for level in nest] == extents for nest in nests)
    return AlignedNests(nests, own) if alike else None


def _is_pointwise(loop: ForOp) -> bool:
    return all(level.reduction is None for level in (loop, *loops_in(loop)))
