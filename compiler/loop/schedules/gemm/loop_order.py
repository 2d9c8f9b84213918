"""The order of the loops around tiles, by the memory traffic between L2 and what is behind it.

    for jo:  for i:  for k:  S(x[i, k], w[jo])   ->   for k:  for jo:  for i:  S(x[i, k], w[jo])

where all of `x` does not stay in L2 from one panel of `w` to the next, but what an iteration of `k`
reads of it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.compiler.loop.nest import is_inside, loads_in, ranges_around, subscript_atoms, subscripts
from weft.compiler.loop.primitives import collapse, reorder, tile
from weft.compiler.target.target import Target
from weft.dialects.expr import Atom, Expr
from weft.dialects.interval import Range
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp
from weft.dialects.loop.scalar import width

ENOUGH_TASKS = 12
"""Iterations of a loop that threads share evenly enough."""

GAIN = 1.1
"""Times less memory traffic for which another order is worth it."""


def choose_parallel(loops: Sequence[ForOp]) -> ForOp:
    """Makes a loop with work for many threads outermost: the first long one, else the longest."""
    return reorder(*_parallel_first(loops))[0]


def choose_parallel_by_traffic(loops: Sequence[ForOp], target: Target) -> ForOp:
    """The same, but of loops with work for many threads the one, and within it the order of the
    others, that loads the least into L2, where sizes are constant.
    """
    best = _parallel_first(loops)
    reads = _Reads(loops)
    least = reads.traffic(best, target)
    for order in _orders(loops) if least is not None else ():
        bytes = reads.traffic(order, target)
        if least is not None and bytes is not None and bytes * GAIN < least:
            best, least = order, bytes
    return reorder(*best)[0]


def block_columns(loops: Sequence[ForOp], target: Target) -> ForOp | None:
    """Computes a tile of rows with a block of panels that stays in L2 meanwhile, one after the
    other: they are read in order, which processors prefetch, and so is what a tile writes. Blocks
    and rows become one loop, for threads to share. None, and nothing done, for other loops and
    where these are few or panels of unknown size.

        for jo < 64:  for io < 32:  ...  ->  for ji < 4 * 32:  for jo < 16:  ...
    """
    columns, *others, rows = loops
    counts = columns.extent.constant, rows.extent.constant
    panel = _Reads(loops).bytes_of_panel(columns)
    if others or None in counts or panel is None:
        return None
    panels, tiles = (count or 0 for count in counts)
    most = min(panels, target.l2_bytes // 2 // max(1, panel))
    fitting = (n for n in range(most, 0, -1) if panels % n == 0)
    block = next((n for n in fitting if panels // n * tiles >= ENOUGH_TASKS), None)
    if block is None:
        return None
    blocks = tile(columns, block)
    reorder(blocks.outer, rows, blocks.inner)
    return collapse(blocks.outer, rows)


def _parallel_first(loops: Sequence[ForOp]) -> list[ForOp]:
    outer = next((loop for loop in loops if _is_enough(loop)), None)
    outer = outer or max(loops, key=lambda loop: loop.extent.constant or 0)
    return [outer, *(loop for loop in loops if loop is not outer)]


def _is_enough(loop: ForOp) -> bool:
    return (loop.extent.constant or ENOUGH_TASKS) >= ENOUGH_TASKS


def _orders(loops: Sequence[ForOp]) -> Iterator[list[ForOp]]:
    """A loop with work for many threads, then the others, the columns anywhere among them."""
    columns = loops[0]
    for outer in filter(_is_enough, loops):
        rest = [loop for loop in loops if loop is not outer and loop is not columns]
        if outer is columns:
            yield [outer, *rest]
            continue
        for position in range(len(rest) + 1):
            yield [outer, *rest[:position], columns, *rest[position:]]


class _Reads:
    """What tiles inside some loops read of memory."""

    def __init__(self, loops: Sequence[ForOp]):
        found = {
            (load.buffer, subscripts(load)): load
            for load in loads_in(loops[-1])
            if not _is_inside(load, loops[0])
        }
        self._loads = list(found.values())
        self._ranges = [dict(ranges_around(load)) for load in self._loads]

    def traffic(self, order: Sequence[ForOp], target: Target) -> float | None:
        """The bytes that are loaded into L2, None where they are not constant: what the inner loops
        read that fits L2 together, as often as the loops around them evict it.
        """
        for depth in range(len(order) + 1):
            sizes = [self._bytes(n, order[:depth]) for n in range(len(self._loads))]
            constants = [size for size in sizes if size is not None]
            if len(constants) < len(sizes):
                return None
            if sum(constants) <= target.l2_bytes // 2 or depth == len(order):
                times = [_times(load, order[:depth]) for load in self._loads]
                return sum(size * n for size, n in zip(constants, times, strict=True))
        return None

    def bytes_of_panel(self, columns: ForOp) -> int | None:
        """The bytes of what an iteration of the columns reads that these index."""
        own = [n for n, each in enumerate(self._loads) if columns.index in subscript_atoms(each)]
        sizes = [self._bytes(n, (columns,)) for n in own]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _bytes(self, position: int, fixed: Sequence[ForOp]) -> int | None:
        """The bytes of the box around all that a load reads in one iteration of the fixed loops."""
        load, ranges = self._loads[position], self._ranges[position]
        pinned: dict[Atom, Range] = {loop.index: (0, 0) for loop in fixed}
        total = width(load.buffer_type.element) // 8
        for expr in subscripts(load):
            extent = _extent(expr, ranges | pinned)
            if extent is None:
                return None
            total *= extent
        return total


def _is_inside(load: LoadOp, loop: ForOp) -> bool:
    owner = load.buffer.owner
    return isinstance(owner, AllocOp) and is_inside(owner, loop)


def _extent(expr: Expr, ranges: Mapping[Atom, Range]) -> int | None:
    low, high = expr.range(ranges)
    return None if low is None or high is None else high - low + 1


def _times(load: LoadOp, around: Sequence[ForOp]) -> int:
    """How often loops bring what a load reads into L2: one that does not index it does so again
    where one inside of it does.
    """
    times, indexed = 1, False
    atoms = subscript_atoms(load)
    for loop in reversed(around):
        indexed = indexed or loop.index in atoms
        times *= (loop.extent.constant or 1) if indexed else 1
    return times
