"""problem, plan -> time: what a plan takes on one core, from the cycles of its register tiles and
the bytes that they move between the levels of memory.

The terms are those of a GEMM's analysis by Goto: the tile's multiply-adds and loads, the panel that
is read again for each tile of rows, the rows that are read again for each panel, packing, and what
is read and written once. Nothing is measured or tried; a plan costs some microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, gcd, prod

from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.loop.schedules.gemm.blocks import LEAST_BLOCKS, inside_loops
from weft.compiler.loop.schedules.gemm.caches import FULL, Caches, Moved, crossed, spread
from weft.compiler.loop.schedules.gemm.loop_order import SCATTERED, kept_bytes
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.problem import Operand, Problem
from weft.compiler.loop.schedules.gemm.remainders import expected_heights, tile_heights
from weft.compiler.loop.schedules.parallel_loops import ENOUGH_TASKS
from weft.compiler.target.target import LINE, PAGE, Target

HIDDEN = 0.9
"""The most of the cycles of computing that moving bytes hides."""

HIDDEN_L2 = 0.7
"""The share of the cycles in which bytes come from L2 that computing hides."""

HIDDEN_BEYOND = 0.4
"""The share of those in which they come from behind it, longer than the work in store takes."""

LOADED = 0.9
"""The share of the cycles in which there are loads that they are done in."""

EXPOSED_LOADS = 0.1
"""The share of the cycles of a tile's loads that its multiply-adds do not hide, or the reverse."""

EXTENDED = WIDENED = 2.0
"""Operations, on units of FMAs, that make a vector of wider floats, and cycles to store it too."""

TRANSPOSED = 3.0
"""Cycles of a vector that is transposed in registers on its way into a panel."""

LINE_STORED = 20.0
"""The same where a line of words is stored a word at a time."""

STRIDED_LOADS = 2.0
"""Loads, and shuffles, of a vector for each element that its lanes are apart."""

STORED = 2.0
"""Cycles of a vector of accumulators that is set to zero and stored."""

TILE_START = 20.0
"""Cycles of a tile before its first multiply-add and after its last one, beside its stores."""

CONFLICT = 0.3
"""How often a line of a row comes from L2 for each of its terms where sets of L1 are too small."""

TLB_MISS = 4.0
"""Cycles of a page whose address the first TLB does not have, with others under way."""

ROW_PAGE = 8.0
"""The same of the page of its own that a part of a row begins in, which nothing prefetches."""

PAGE_WALK = 20.0
"""Cycles of a page whose address no TLB has."""

PIECE = 40.0
"""Cycles of a piece of a row from memory that no prefetcher foresees, with others under way."""

REREAD_LINE = 2.0
"""Those of each of its lines that a tile of rows reads again, from L2."""

PIECE_WORK = 2.0
"""Those for each multiply-add of a tile in between, beside which fewer pieces are under way."""

PIECE_HIDDEN = 0.25
"""Cycles of a piece that is prefetched that each multiply-add of the tiles of rows hides."""

ROW_LINE = 40.0
"""Those of a line of tiles of rows, of which the next tiles read the rest."""

BLOCKS_WAIT = 0.5
"""The share of the bytes of a weight from memory that blocks wait for."""

STREAMS = 32
"""Rows at a time that a prefetcher follows."""

PACKED_ROWS = 8
"""Rows of which a panel gets pieces at a time where all is packed."""


class Cost(Struct, frozen=True, kw_only=True):
    """Nanoseconds on one core: `compute` of the tiles where L1 has what they read, `panel`
    and `rows` of bringing both factors there again and again, `packing`, and `once`, of what is
    read and written a single time; `beyond` is the part of these from behind L2.
    `total` is less than their sum, for they overlap.
    """

    compute: float
    panel: float
    rows: float
    packing: float
    once: float
    beyond: float

    @property
    def total(self) -> float:
        """The time of the plan."""
        moved = self.panel + self.rows + self.once
        hidden = HIDDEN_L2 * (moved - self.beyond) + HIDDEN_BEYOND * self.beyond
        return self.compute + moved - min(hidden, HIDDEN * self.compute) + self.packing


def cost(
    problem: Problem, plan: Plan, target: Target, *, cold: bool = False, rows_vary: bool = False
) -> Cost:
    """The time of a contraction whose extents are constant by a plan, or one of many samples of it:
    the factors come from the last cache where that has room for them, or, where they are `cold`,
    from memory.
    """
    return ProductCost(problem, plan, target, cold=cold, rows_vary=rows_vary).cost()


class ProductCost:
    """What the terms have in common: the sizes by the parts that loops play in the plan, in
    elements, and the bytes of both factors.
    """

    def __init__(
        self, problem: Problem, plan: Plan, target: Target, *, cold: bool, rows_vary: bool
    ):
        sizes = [extent.constant or 0 for extent in problem.extents]
        if plan.row_block is not None and sizes[inside_loops(problem, plan)[0]] < plan.row_block:
            plan = replace(plan, k_block=None, column_block=None, row_block=None)
        self.plan = plan
        self.cold = cold
        self.target = target
        self.columns = sizes[plan.column]
        self.rows = 1 if plan.row is None else sizes[plan.row]
        self.depth = prod(sizes[n] for n in problem.reductions)
        long = sizes[problem.reductions[0]]
        self.parts = ceil(long / (plan.k_block or long))
        others = [n for n in range(problem.outer) if n not in (plan.column, plan.row)]
        self.others = prod(sizes[n] for n in others)
        self.panels = ceil(self.columns / plan.width)
        self.rows_vary = rows_vary
        self.heights = (expected_heights if rows_vary else tile_heights)(self.rows, plan.rows)
        self.tiles = sum(count for count, _ in self.heights)
        assert plan.panel is not None, "a product has two factors"
        self.panel = problem.factors[plan.panel]
        self.other = problem.factors[1 - plan.panel]
        self.own_panels = prod(sizes[n] for n in others if self.panel.indexed_by(n))
        self.panel_bits = self.panel.computed_bits if plan.widened_panel else self.panel.bits
        self.extended = self.panel.is_extended and not plan.widened_panel
        self.extended_rows = self.other.is_extended and not plan.widened_rows
        self.result_bytes = self.rows * self.columns * self.others * problem.result.bits // 8
        self.panel_bytes, self.panel_reads = self._read(self.panel, sizes)
        self.other_bytes, self.other_reads = self._read(self.other, sizes)
        self.result_bits = problem.result.bits
        self.is_plain = len(problem.reductions) == 1
        self.step = self.panel.bytes_apart(problem.reductions[-1]) if plan.packing == "none" else 0
        crossing = crossed(self.step) * plan.lanes * self.panel.bits / 8 / LINE
        loads = self._loads(self.panel) if plan.packing == "none" else 1.0
        self.loads = loads if loads > 1 else 1.0 + crossing
        self.read = sum(self._loads(each) for each in problem.read)
        self.transposed = problem.stored.along[plan.column].lanes != 1
        self.stored_rows = None if plan.row is None else problem.stored.along[plan.row]
        row = plan.row
        self.result_row = problem.result.bytes_apart(row)
        self.row_step = 0 if plan.packed_rows else self.other.bytes_apart(row)
        self.pieces = problem.pieces_of(self.other, row)
        self.caches = Caches(target, plan.width * self.panel_bits // 8, self.step)

    def _read(self, operand: Operand, sizes: Sequence[int]) -> tuple[float, float]:
        """The bytes of all that is read of an operand, and how many of the loops' elements each
        of its own is: neighbouring windows share theirs.
        """
        elements = prod(size for n, size in enumerate(sizes) if operand.indexed_by(n))
        distinct = min(elements, operand.size or elements)
        return distinct * operand.bits / 8, distinct / elements

    def _are_transposed(self, rows: int) -> bool:
        """Whether so many rows are transposed in registers: those next to each other where they are
        stored, in a box and not through two dims; in blocks of channels whole blocks, or halves.
        """
        stored, lanes = self.stored_rows, self.plan.lanes
        if stored is None or len(stored.dims) > 1:
            return False
        if stored.step == 1:
            return rows % lanes == 0 or (rows >= lanes // 2 and self.target.has_masks)
        return stored.lanes == 1 and (rows % lanes == 0 or rows * 2 == lanes)

    def _loads(self, operand: Operand) -> float:
        """Loads of a vector along the columns: one, or one for each lane that is gathered."""
        lanes = operand.along[self.plan.column].lanes
        if lanes is not None and lanes.constant in (0, 1):
            return 1.0
        apart = self.plan.lanes if lanes is None else lanes.constant or self.plan.lanes
        return min(float(self.plan.lanes), STRIDED_LOADS * apart)

    def cost(self) -> Cost:
        """All terms, the loops in the order of those possible that moves the fewest bytes."""
        cycles = 1 / self.target.cost.ghz
        orders = [
            (self._panel(first), self._rows(first), self._once(first))
            for first in self._panels_first()
        ]
        panel, rows, once = min(orders, key=lambda terms: sum(each.cycles for each in terms))
        return Cost(
            compute=self._compute() * cycles,
            panel=panel.cycles * cycles,
            rows=rows.cycles * cycles,
            packing=self._packing() * cycles,
            once=once.cycles * cycles,
            beyond=(panel + rows + once).beyond * cycles,
        )

    def _compute(self) -> float:
        """The cycles of all tiles where L1 has all that they read."""
        plan, lanes = self.plan, self.plan.lanes
        vectors = ceil(self.columns / lanes)
        whole, left = divmod(vectors, plan.vectors)
        total = 0.0
        for count, height in self.heights:
            total += count * whole * self._tile(height, plan.vectors)
            total += count * self._tile(height, left) if left else 0.0
        return total * self.others

    def _tile(self, rows: int, vectors: int) -> float:
        """One tile: until the units are through with the multiply-adds, the loads are done, or the
        accumulators of the term before are there; then its blocks' sums and its stores.
        """
        target, plan = self.target, self.plan
        made = EXTENDED * (self.extended * vectors + self.extended_rows * rows)
        work = (rows * vectors + made) / target.fma_ports
        ports = target.cost.load_ports
        loads = (rows / max(2.0, ports) + vectors * self.loads / ports) / LOADED
        if self._conflicts(rows):
            loads += CONFLICT * rows * LINE / target.cost.l2_bandwidth
        term = max(work, loads, target.fma_latency + 1) + EXPOSED_LOADS * min(work, loads)
        blocks = max(1, self.depth // plan.sum_block)
        if plan.column_block is not None:
            stored = self.parts * TILE_START + rows * vectors * STORED * self.parts
            copied = STORED + TRANSPOSED if self.transposed else 0.0
            return self.depth * term + stored + rows * vectors * (copied + self.read)
        stored = self._stored(rows) + self.read + 2.0 * (blocks - 1)
        return self.depth * term + TILE_START + rows * vectors * stored

    def _stored(self, rows: int) -> float:
        """The cycles in which a vector of a tile goes to memory: as it is, transposed in registers
        where the rows are contiguous there, or a lane at a time.
        """
        if not self.transposed:
            return STORED
        if self._are_transposed(rows):
            return STORED + TRANSPOSED
        return STORED * min(self.plan.lanes, self.columns)

    def _conflicts(self, rows: int) -> bool:
        """Whether so many rows of a tile, which are a line each, fall in sets of L1 that have fewer
        lines, so that each load of a row comes from L2.
        """
        target, step = self.target, self.row_step
        ways = target.cost.l1_associativity
        apart = gcd(step, target.l1_bytes // ways)
        return apart >= LINE and rows * apart > FULL * target.l1_bytes

    def _panels_first(self) -> list[bool]:
        """Whether the loop over panels may be around that over tiles of rows, and the reverse, as
        loops are ordered for threads to share: where both together are too short, the longer one is
        outermost, and where they do not become one, as of dynamic rows, one that is long enough.
        """
        plan = self.plan
        fixed = plan.packing in ("tile", "strided") or plan.shared or plan.prefetched
        if fixed or plan.packed_rows or plan.column_block is not None:
            return [True]
        if plan.batch:
            return [True, False]
        if self.others > 1:
            return [True]
        if self.panels * self.tiles < ENOUGH_TASKS:
            return [self.panels >= self.tiles]
        return [False] if self.rows_vary and self.panels < ENOUGH_TASKS else [True, False]

    def _panel(self, panels_first: bool) -> Moved:
        """The cycles in which panels come to L1 again for each tile of rows behind the first: one
        of them, or all where these are the loop inside; what L2 has lost also comes for each row
        of an image.
        """
        row = self.plan.width * self.panel_bits / 8 + crossed(self.step) * LINE
        bytes = self.depth * row * self.panel_reads
        beside = self.plan.rows * self.depth * self.other.bits / 8 * self.other_reads
        again = self.panels * self.others * (self.tiles - 1)
        if self.plan.column_block is not None:
            return self.caches.moved(again * bytes, (bytes + beside) / self.parts)
        kept = bytes if panels_first else self.panel_bytes
        pieces = bytes / LINE * REREAD_LINE if self._is_read_in_pieces(bytes + beside) else 0.0
        others = Moved(again * (self._translation() + pieces))
        lost = self.caches.moved(self.panels * (self.others - self.own_panels) * bytes, kept).beyond
        return self.caches.moved(again * bytes, kept + beside) + others + Moved(0.0, lost)

    def _is_read_in_pieces(self, bytes: float) -> bool:
        """Whether rows of a panel, which L1 does not keep beside those of a tile, are apart."""
        plain = self.plan.packing == "none" and self.plan.terms == 1 and self.panels > 1
        own = self._in_pieces(self.panel, self.plan.column)
        return plain and own and bytes > FULL * self.target.l1_bytes

    def _translation(self) -> float:
        """The cycles of a panel's pages in whose addresses the first TLB has no room."""
        cost, pages = self.target.cost, self.depth * min(1.0, self.step / PAGE)
        if pages <= cost.l1_tlb:
            return 0.0
        return pages * (TLB_MISS if pages <= cost.l2_tlb else PAGE_WALK)

    def _rows(self, panels_first: bool) -> Moved:
        """The cycles in which rows come to L1 again for each panel behind the first: all of them,
        or a tile of them where panels are the loop inside; or are copied once, a tile of rows at a
        time; and those of their pages and of lines that are read in part.
        """
        if self.plan.column_block is not None:
            return self._moved_by_blocks()
        own = self.other_bytes / self.others if self.other_reads else 0.0
        panel = self.depth * self.plan.width * self.panel_bits / 8
        times = 1 if self.plan.packed_rows else self.panels
        rows = self.rows * self.depth * self.other.bits / 8 * self.other_reads
        again, pieces = rows * (times - 1), self.pieces
        line = self.plan.rows * self.other.bits / 8
        lines = pieces.apart >= LINE and pieces.number * LINE > FULL * self.target.l1_bytes
        if lines and (line < LINE or pieces.of_windows):
            again += self.tiles * pieces.number * LINE * times
        pages = self._pages(times, 1)
        kept = min(own, rows) if panels_first else rows / self.tiles
        return (self.caches.moved(again, kept + panel) + Moved(pages)) * self.others

    def _moved_by_blocks(self) -> Moved:
        """The same where blocks of rows and panels go through K together: rows come from L2 for
        each panel of a block but the first, and all of them for each block of panels but the first,
        as all panels do for each block of rows; so do the sums of each part of K but the first.
        """
        plan, parts, moved = self.plan, self.parts, self.caches.moved
        pixels = self.rows * self.others
        height = min(pixels, (plan.row_block or pixels) * (self.rows if self.others > 1 else 1))
        width = min(self.columns, (plan.column_block or 1) * plan.width)
        down, across = ceil(pixels / height), ceil(self.columns / width)
        rows = pixels * self.depth * self.other.bits / 8 * self.other_reads
        panels = self.columns * self.depth * self.panel_bits / 8
        sums = height * width * self.result_bits / 8
        row, panel = rows / down, panels / across
        own = self.depth // parts * self.other.bits // 8
        part = row / parts * spread(self.row_step, own, self.target)
        apart = 0 if self.transposed else self.result_row
        part += panel / parts + sums * spread(apart, width * self.result_bits // 8, self.target)
        # Threads share blocks of panels where these are enough, and go through those of rows.
        by_columns = across >= LEAST_BLOCKS
        total = moved(rows * (self.panels - across), part)
        total += moved(rows * (across - 1), panel + sums + (rows if by_columns else row))
        total += moved(panels * (down - 1), row + sums + (panel if by_columns else panels))
        total += moved(2 * sums * down * across * (parts - 1), part)
        pages = self._pages(self.panels, parts) * self.others
        if self.row_step >= PAGE and height > self.target.cost.l1_tlb:
            pages += ROW_PAGE * pixels * self.panels * parts
        return total + Moved(pages)

    def _pages(self, times: int, parts: int) -> float:
        """The cycles of pages whose addresses the first TLB does not have, where a tile of rows
        reads K in so many parts.
        """
        pages = self.pieces.terms * min(1.0, self.pieces.apart / PAGE)
        missed = pages / parts > self.target.cost.l1_tlb
        return self.tiles * times * pages * TLB_MISS if missed else 0.0

    def _packing(self) -> float:
        """The cycles of packing panels in a call."""
        packing = self.plan.packing
        vectors = self.panel_bytes * 8 / self.panel.bits / self.plan.lanes
        if packing in ("none", "stored"):
            return WIDENED * vectors if packing == "stored" and self.plan.widened_panel else 0.0
        strided = packing == "strided" or packing == "whole"
        moved = self.panel_bytes / self.target.cost.l2_bandwidth
        if packing in ("whole", "flat"):
            moved += self.caches.moved(2 * self.panel_bytes, 2 * self.panel_bytes).cycles
        if packing == "whole" and self._is_cold(self.panel_bytes):
            # Lines of panels are read before they are written, and again by the first tiles.
            moved += self.caches.moved(2 * self.panel_bytes, 2 * self.panel_bytes).cycles
            moved += 2 * PIECE * vectors / PACKED_ROWS
        return moved + vectors * (
            LINE_STORED if self.plan.terms > 1 else TRANSPOSED if strided else 1.0
        )

    def _once(self, panels_first: bool) -> Moved:
        """The cycles in which all operands come from where they are, and the result goes there, a
        piece of a page after another where L2 does not keep it and panels are the loop outside.
        """
        all_bytes = self.panel_bytes + self.other_bytes + self.result_bytes
        far = self.result_bytes / self.others > kept_bytes(self.result_row, self.target)
        apart = self.result_row * self.plan.rows >= PAGE and min(self.panels, self.tiles) > 1
        written = 2 * self.result_bytes * (SCATTERED if far and apart and panels_first else 1)
        whole = Caches(self.target, LINE, 0)  # of all rows, which fall in other sets than a panel's
        moved = whole.moved(self.panel_bytes + self.other_bytes + written, all_bytes)
        return moved + Moved(self._pieces(), self._waits())

    def _waits(self) -> float:
        """The cycles in which the first of several tiles of rows wait for panels of a weight from
        memory, less where these are blocks, unless the panel before prefetches them.
        """
        blocks = self.plan.column_block is not None
        cold = self.cold or self.panel_bytes > FULL * self.target.l3_bytes
        ahead = self.tiles == 1 or (self.plan.prefetched and not blocks)
        if ahead or not (cold and self.panel.is_weight):
            return 0.0
        bytes = self.panel_bytes * (BLOCKS_WAIT if blocks else 1.0)
        return bytes * self.target.cost.ghz / self.target.cost.memory_gbs

    def _pieces(self) -> float:
        """The cycles of rows from memory that each come from a place of their own: those of
        panels, of which a few lines are read before those of the next, and lines of tiles of rows.
        """
        plan, cycles = self.plan, 0.0
        if plan.terms > 1 or self.depth <= STREAMS:
            return cycles
        as_it_is = plan.packing in ("none", "tile") and self.panels > 1
        in_pieces = self._in_pieces(self.panel, plan.column) and self._is_cold(self.panel_bytes)
        if as_it_is and in_pieces:
            pieces = self.panel_bytes * 8 / self.panel.bits / plan.width
            work = plan.rows * plan.vectors
            hidden = self.tiles * PIECE_HIDDEN if plan.prefetched else -PIECE_WORK
            cycles += pieces * max(0.0, PIECE - hidden * work)
        if self._in_pieces(self.other, plan.row) and self._is_cold(self.other_bytes):
            cycles += self.other_bytes / LINE * ROW_LINE
        return cycles

    def _in_pieces(self, operand: Operand, loop: int | None) -> bool:
        """Whether elements along a loop are neighbours, and those along K are apart; windows, which
        share theirs, do not count.
        """
        return self.is_plain and loop is not None and operand.along[loop].step == 1

    def _is_cold(self, bytes: float) -> bool:
        """Whether that is more than L2 keeps, and comes from memory."""
        return self.cold and bytes > FULL * self.target.l2_bytes
