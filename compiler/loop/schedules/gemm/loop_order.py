"""The order of the loops around tiles, by the memory traffic between L2 and what is behind it.

    for jo:  for i:  for k:  S(x[i, k], w[jo])   ->   for k:  for jo:  for i:  S(x[i, k], w[jo])

where all of `x` does not stay in L2 from one panel of `w` to the next, but what an iteration of `k`
reads of it does. A result that L2 does not keep is written row by row, where that brings no more:

    for jo:  for i:  S(y[i, jo])   ->   for i:  for jo:  S(y[i, jo])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import NoneAttr

from weft.compiler.loop.nest import (
    accesses_in,
    bounds_of,
    is_inside,
    loops_in,
    ranges_of,
    subscript_atoms,
    subscripts,
)
from weft.compiler.loop.primitives import collapse, reorder, tile
from weft.compiler.loop.schedules.gemm.caches import KEPT_BY_L2
from weft.compiler.loop.schedules.parallel_loops import ENOUGH_TASKS, least_tasks
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import LINE, PAGE, Target
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.interval import UNBOUNDED, Range
from weft.dialects.loop.ops import (
    AccessOp,
    AllocOp,
    ForOp,
    LoadOp,
    StoreOp,
    enclosing_loops,
)
from weft.dialects.loop.program import size_ranges
from weft.dialects.loop.scalar import width

TYPICAL, BATCH = 512, 4
"""What a dynamic size is taken to be, and one of a batch: the order that is best for one image may
take a larger batch several times as long as another.
"""

SCATTERED = 3
"""Times the bytes of a result that count where it is written a piece of a page after another."""

READ_TWICE, WRITTEN_ELSEWHERE = 0.25, 0.5
"""How much of an operand counts that both of two threads read, of a weight, and of what other
kernels write or read, of which half is in the other core's caches, if they share that loop too.
Measured on chains of convolutions: lines that another core has written take twice as long.
"""

GAIN = 1.1
"""Times less memory traffic for which another order is worth it."""


def choose_parallel(loops: Sequence[ForOp]) -> ForOp:
    """Makes a loop with work for many threads outermost: the first long one, else the longest."""
    return reorder(*_parallel_first(loops))[0]


def choose_parallel_by_traffic(loops: Sequence[ForOp], target: Target) -> ForOp:
    """The same, but of loops with work for many threads the one, and within it the order of the
    others, that moves the least between L2 and what is behind it, and of those that move as much
    the one that moves the least between cores. Two loops that only have enough work together
    become one.
    """
    default = best = _parallel_first(loops)
    traffic = _Traffic(loops, target)
    moved = [(traffic.bytes(order), order) for order in (default, *_orders(loops))]
    least = min((bytes for bytes, _ in moved if bytes is not None), default=None)
    if least is not None and moved[0][0] is not None:
        near = [order for bytes, order in moved if bytes is not None and bytes <= least * GAIN]
        best = min(near, key=lambda order: (*traffic.crossing(order), order is not default))
    outer, *inner = reorder(*best)
    return outer if best is default or _is_enough(outer) else collapse(outer, inner[0])


def order_by_traffic(loops: Sequence[ForOp], target: Target) -> None:
    """Reorders the columns and what is inside of them so that they move the least."""
    columns, *rest = loops
    traffic = _Traffic(loops, target)
    before, after = traffic.bytes(loops), traffic.bytes([*rest, columns])
    if before is not None and after is not None and after * GAIN < before:
        reorder(*rest, columns)


def keep_panels(loops: Sequence[ForOp], target: Target) -> ForOp | None:
    """Computes a tile of rows with a block of panels that stays in L2 meanwhile, one after the
    other: they are read in order, which processors prefetch, and so is what a tile writes. Blocks
    and rows become one loop, for threads to share. None, and nothing done, for other loops and
    where these are few or panels of unknown size.

        for jo < 64:  for io < 32:  ...  ->  for ji < 4 * 32:  for jo < 16:  ...
    """
    columns, *others, rows = loops
    counts = columns.extent.constant, rows.extent.constant
    panel = _Traffic(loops, target).bytes_of_panel(columns)
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


def _is_enough(*loops: ForOp) -> bool:
    return prod(loop.extent.constant or ENOUGH_TASKS for loop in loops) >= ENOUGH_TASKS


def _orders(loops: Sequence[ForOp]) -> Iterator[list[ForOp]]:
    """A loop with work for many threads, or two that have it together, then the others, the columns
    anywhere among them.
    """
    columns = loops[0]
    for outer in loops:
        rest = [loop for loop in loops if loop is not outer and loop is not columns]
        places = range(len(rest) + 1) if outer is not columns else [0]
        for place in places:
            order = [*rest[:place], columns, *rest[place:]] if outer is not columns else rest
            # Of a dynamic number of tiles, which may be none, no index of two loops is found.
            inner = [loop for loop in order[:1] if loop.extent.constant is not None]
            if _is_enough(outer, *inner):
                yield [outer, *order]


def kept_bytes(row: int | None, target: Target) -> int:
    """How much of a result whose rows have so many bytes L2 keeps between neighbouring panels: less
    where lines belong to two of them, and are stored to twice.
    """
    return target.l2_bytes // (2 if row is not None and row % LINE == 0 else 4)


def _row_bytes(store: StoreOp) -> int | None:
    """The bytes of the last dim of what is stored to, where that is constant."""
    shape = store.buffer_type.shape
    columns = shape[-1].constant if shape else 1
    return None if columns is None else columns * _bytes(store)


def _bytes(access: AccessOp) -> int:
    return width(access.buffer_type.element) // 8


class _Traffic:
    """What tiles inside some loops read of memory and write to it; dynamic sizes are taken to be
    typical ones.
    """

    def __init__(self, loops: Sequence[ForOp], target: Target):
        outside = [each for each in accesses_in(loops[-1]) if not is_local(each, loops[0])]
        found: dict[object, AccessOp] = {}
        for access in outside:
            found[access.buffer, subscripts(access), type(access)] = access
        self._target = target
        self._columns = loops[0]
        self._loads = [each for each in found.values() if isinstance(each, LoadOp)]
        self._stores = [each for each in found.values() if isinstance(each, StoreOp)]
        self._around = enclosing_loops(loops[0])
        every = [*self._around, *loops_in(loops[0]), loops[0]]
        single = {
            atom for each in every if self._may_be_single(each) for atom in each.extent.atoms()
        }
        self._sizes = _typical_sizes(every, single)
        self._ranges = {
            each: ranges_of(bounds_of(enclosing_loops(each)), self._sizes)
            for each in found.values()
        }

    def bytes(self, order: Sequence[ForOp]) -> float | None:
        """The bytes that are loaded into L2 and written, None where they are not known: what the
        inner loops read that fits L2 together, as often as the loops around them evict it.
        """
        written = self._written(order)
        for depth in range(len(order) + 1) if written is not None else ():
            fixed = [*self._around, *order[:depth]]
            sizes = [self._box(load, fixed) for load in self._loads]
            constants = [size for size in sizes if size is not None]
            if len(constants) < len(sizes):
                return None
            kept = sum(constants) <= KEPT_BY_L2 * self._target.l2_bytes
            if kept or depth == len(order):
                times = [self._times(load, order[:depth]) for load in self._loads]
                read = sum(size * n for size, n in zip(constants, times, strict=True))
                return read + (written or 0.0)
        return None

    def crossing(self, order: Sequence[ForOp]) -> tuple[float, int]:
        """The bytes that each of two threads reads and the other has written, or reads too, where
        they share the first loop that has iterations for both: an operand that this loop does not
        index is read as a whole, and where it is that of the columns, the result is by the next
        kernel. What is not known counts for nothing. And how many loops a batch's is inside of.
        """
        columns = self._columns.index
        shared = next((loop for loop in order if not self._may_be_single(loop)), order[0]).index
        total = 0.0
        for access in (*self._loads, *self._stores):
            atoms = subscript_atoms(access)
            is_panel = isinstance(access, LoadOp) and columns in atoms
            if shared is columns if not is_panel else shared not in atoms:
                size = self._box(access, self._around) or 0
                total += size * (READ_TWICE if is_panel else WRITTEN_ELSEWHERE)
        batch = [
            n for n, loop in enumerate(order) if loop.extent != 1 and self._may_be_single(loop)
        ]
        return total, sum(batch)

    def _may_be_single(self, loop: ForOp) -> bool:
        """Whether a loop has one iteration, or counts a batch, which may have one."""
        tasks = least_tasks(loop.extent)
        batch = any(store.index[0] == Expr.atom(loop.index) for store in self._stores)
        return loop.extent == 1 or (tasks == 1 and batch)

    def bytes_of_panel(self, columns: ForOp) -> int | None:
        """The bytes of what an iteration of the columns reads that these index."""
        own = [load for load in self._loads if columns.index in subscript_atoms(load)]
        sizes = [self._box(load, [*self._around, columns]) for load in own]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _written(self, order: Sequence[ForOp]) -> float | None:
        """The bytes of the results, more where L2 does not keep them and neighbouring tiles are in
        pages of their own: no prefetcher follows these.
        """
        inner = next((loop for loop in reversed(order) if loop.extent != 1), order[-1])
        total = 0.0
        for store in self._stores:
            box = self._box(store, self._around)
            if box is None:
                return None
            far = box > kept_bytes(_row_bytes(store), self._target)
            total += box * (SCATTERED if far and _is_scattered(store, inner) else 1)
        return total

    def _box(self, access: AccessOp, fixed: Sequence[ForOp]) -> int | None:
        """The bytes of the box around all that is accessed in one iteration of the fixed loops, but
        for what lies between the taps of a window, as far as that is whole lines.
        """
        pinned: dict[Atom, Range] = {loop.index: (0, 0) for loop in fixed}
        ranges, total, bytes = self._ranges[access] | pinned, 1, _bytes(access)
        index = subscripts(access)
        row_major = isinstance(access.buffer_type.layout, NoneAttr)
        apart = LINE // max(1, bytes) if row_major else 1  # of 4 bits there are no bytes
        for dim, expr in enumerate(index, 1):
            extent = _extent(expr, ranges, apart if dim == len(index) else 1)
            if extent is None:
                return None
            total *= extent
        return total * bytes

    def _times(self, load: LoadOp, around: Sequence[ForOp]) -> int:
        """How often loops bring what a load reads into L2: one that does not index it does so again
        where one inside of it does.
        """
        times, indexed = 1, False
        atoms = subscript_atoms(load)
        for loop in reversed(around):
            indexed = indexed or loop.index in atoms
            times *= (loop.extent.range(self._sizes)[1] or 1) if indexed else 1
        return times


def _is_scattered(store: StoreOp, inner: ForOp) -> bool:
    """Whether consecutive iterations store to different pages, or may do so."""
    step = stride(store, inner)
    if step is None or step.constant is None:
        return True
    return abs(step.constant) * _bytes(store) >= PAGE


def is_local(access: AccessOp, loop: ForOp) -> bool:
    """Whether each iteration of the loop has its own copy of the buffer that is accessed."""
    owner = access.buffer.owner
    return isinstance(owner, AllocOp) and is_inside(owner, loop)


def _typical_sizes(loops: Iterable[ForOp], single: Collection[Atom]) -> dict[Atom, Range]:
    """The dynamic sizes of loops, each a typical one within its bounds, a batch's a few."""
    sizes: dict[Atom, Range] = {}
    for loop in loops:
        known = size_ranges(loop)
        for atom in loop.extent.atoms():
            if isinstance(atom, Symbol):
                least, most = known.get(atom, (None, None))
                typical = BATCH if atom in single else TYPICAL
                size = max(least or 1, typical if most is None else min(typical, most))
                sizes[atom] = size, size
    return sizes


def _extent(expr: Expr, ranges: Mapping[Atom, Range], apart: int) -> int | None:
    """How many values an expression has at most: between taps that are far apart there are gaps,
    with so many values for each that it has.
    """
    whole = _count(expr.range(ranges))
    parts = [_count(ranges.get(atom, UNBOUNDED)) for atom in {*expr.atoms()}]
    known = [each for each in parts if each is not None]
    return whole if whole is None or len(known) < len(parts) else min(whole, prod(known) * apart)


def _count(bounds: Range) -> int | None:
    low, high = bounds
    return None if low is None or high is None else max(0, high - low + 1)
