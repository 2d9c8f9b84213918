"""What the nests of a reduction are to its schedule: which loops are columns of a tile and which
are rows, and the neighbouring nests that start the sums and read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from compiler.loop.nest import accesses_in, loops_in, perfect_nest, subscripts
from compiler.loop.primitives import tile
from compiler.target.target import Target
from dialects.expr import Expr
from dialects.loop.ops import AccessOp, ForOp, LoadOp, StoreOp


@dataclass
class Accumulation:
    """The nests of one reduction: the outer loops of each, in the order of the result's dims.

    `columns` and `rows` are positions among those loops, `both` those of the loops that move both
    operands, as a batch or the groups of a convolution do. `panel` is the load of the operand that
    the columns move, where that may be packed, `beside` that of the other; `result` the buffer of
    the sums. In a `narrow` one rows share nothing that wider columns would use again.
    """

    nests: list[list[ForOp]]
    reductions: list[ForOp]
    columns: int
    rows: int | None
    both: list[int]
    panel: LoadOp | None
    result: SSAValue
    narrow: bool = False
    beside: LoadOp | None = None


def aligned(loop: ForOp, outer: Sequence[ForOp]) -> list[ForOp]:
    """The nest's loops, one that runs over two of the others' together cut in two like them."""
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


def is_short(columns: ForOp, lanes: int, target: Target) -> bool:
    """Whether vectors of one row of sums are too few to keep the units busy."""
    known = columns.extent.constant
    return known is not None and known // lanes < target.fma_latency


def overlap(access: AccessOp, rows: ForOp, reductions: Sequence[ForOp]) -> bool:
    """Whether neighbouring rows have some of the elements that they add up in common."""
    taps = {loop.index for loop in reductions}
    within = (set(expr.atoms()) for expr in subscripts(access))
    return any(rows.index in atoms and atoms & taps for atoms in within)


def neighbours(loop: ForOp, store: StoreOp) -> tuple[list[ForOp], list[ForOp]]:
    """The nest before that initialises the sum, and the one behind that reads it."""
    before = loop.prev_op
    after = loop.next_op
    first = isinstance(before, ForOp) and _touches(before, store.buffer)
    last = isinstance(after, ForOp) and _touches(after, store.buffer) and _is_pointwise(after)
    return [before] if first and isinstance(before, ForOp) else [], [after] if last and isinstance(
        after, ForOp
    ) else []


def _touches(loop: ForOp, buffer: SSAValue) -> bool:
    return any(access.buffer is buffer for access in accesses_in(loop))


def _is_pointwise(loop: ForOp) -> bool:
    return all(level.reduction is None for level in (loop, *loops_in(loop)))
