"""problem -> plans: the register tile, what is packed and where, and the loops around it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from weft.compiler.loop.layouts import LONGEST_STRIDE
from weft.compiler.loop.primitives.matrix import TILE_WORDS
from weft.compiler.loop.schedules.gemm.blocks import LARGEST_PANEL
from weft.compiler.loop.schedules.gemm.caches import (
    conflict_in_l1,
    has_page_stride,
    set_conflicts,
)
from weft.compiler.loop.schedules.gemm.gemv import ROWS as STREAMS
from weft.compiler.loop.schedules.gemm.plan import Packing, Plan
from weft.compiler.loop.schedules.gemm.problem import Along, Operand, Problem
from weft.compiler.loop.schedules.gemm.register_tile import LEAST_MATRIX_ROWS
from weft.compiler.loop.schedules.gemm.tile_params import (
    LONGEST_UNROLL,
    Params,
    default_params,
    matrix_params,
    narrow_params,
    tiles,
    unrolls_terms,
    wide_params,
)
from weft.compiler.loop.schedules.gemm.views import View
from weft.compiler.loop.schedules.parallel_loops import ENOUGH_TASKS
from weft.compiler.target.target import LINE, PAGE, Target

WIDENED_USES = 64
"""Uses of each element that pay for a copy of an operand in a wider type."""

LEAST_MATRIX_WORDS = 4
"""Words below which registers that hold tiles are filled too little to be quicker than lanes."""

LEAST_PANELS = 8
"""Fewer are too few for threads to share."""

FEWEST_ROWS = 16
"""Rows of two tiles, below which no panel is read twice."""

LEAST_HIDING, MOST_TILES = 6, 64
"""Rows over a panel that take longer than its lines, one behind the other; and tiles of rows."""


def tile_plans(problem: Problem, view: View, target: Target) -> Iterator[Plan]:
    """The plans of every tile that fits the registers and keeps the units busy, by how the columns'
    operand is packed.
    """
    assert view.row is not None, "a tile has rows"
    rows, columns = (problem.extents[n].constant for n in (view.row, view.column))
    unrolled = unrolls_terms(problem, target)
    for tile in tiles(target, rows, columns, problem.lanes, unrolled=unrolled):
        choice = _Choice(problem, view, target, tile)
        yield from map(choice.packed, choice.packings())


def first_plan(
    problem: Problem,
    view: View,
    target: Target,
    params: Params | None = None,
    *,
    matrix: bool = True,
) -> Plan:
    """The plan that is taken where no other one is clearly better, in registers that hold tiles of
    matrices where `matrix` allows it; or that of a tile.
    """
    return _Choice(problem, view, target, params, matrix=matrix and params is None).plan()


def packed_plans(problem: Problem, view: View, target: Target) -> Iterator[Plan]:
    """The first plan, and those with its tile and another packing."""
    choice = _Choice(problem, view, target, None)
    yield choice.plan()
    yield from map(choice.packed, choice.packings())


def plan_with(
    problem: Problem, view: View, target: Target, rows: int, vectors: int, packing: Packing
) -> Plan | None:
    """The plan of this tile and this packing; None where that is not possible."""
    choice = _Choice(problem, view, target, Params(rows, vectors))
    return choice.packed(packing) if packing in choice.packings() else None


class _Choice:
    """A problem, its loops and its tile, and what follows from them."""

    def __init__(
        self,
        problem: Problem,
        view: View,
        target: Target,
        params: Params | None,
        *,
        matrix: bool = False,
    ):
        self.problem = problem
        self.view = view
        self.target = target
        self.panel = None if view.panel is None else problem.factors[view.panel]
        self.columns = problem.extents[view.column].constant
        self.rows = 1 if view.row is None else problem.extents[view.row].constant
        self.matrix = self._matrix_words() if matrix else None
        self.unrolled = unrolls_terms(problem, target)
        self.sizes = target, self.rows, self.columns, problem.lanes
        wide = params or wide_params(*self.sizes, unrolled=self.unrolled)
        self.per_tile = self._pays_per_tile(wide)
        self.params = wide if self.per_tile else params or self._default()
        self.width = self.params.vectors * problem.lanes

    def packings(self) -> list[Packing]:
        """What may become of the operand that the columns index."""
        panel, view = self.panel, self.view
        if panel is None or not view.packable:
            return ["none"]
        along = panel.along[view.column]
        if (whole_tiles := self._starts_panels(along)) and panel.is_weight:
            return ["stored"]
        if self.problem.terms > 1:
            return ["tile" if self._packs_words_per_tile() else "whole"]
        found: list[Packing] = [self._packing_of_strided(along)]
        sums = list(self.problem.reductions)
        others = [n for n in range(len(self.problem.extents)) if panel.indexed_by(n)]
        long = (self.problem.depth or LONGEST_UNROLL) > LONGEST_UNROLL
        plain = len(sums) == 1 and others == sorted({*view.batch, view.column, *sums}) and long
        contiguous = along.step == 1 and panel.computed_bits == panel.bits
        held = (self.problem.depth or LARGEST_PANEL) * self.width * panel.bits // 8 <= LARGEST_PANEL
        if (
            view.row is not None
            and not view.narrow
            and plain
            and contiguous
            and held
            and self._tasks() >= LEAST_PANELS
        ):
            found.append("flat" if panel.is_flat(view.column) else "tile")
        if whole_tiles and view.row is not None and self.columns is not None:
            found.append("whole")
        return list(dict.fromkeys(found))

    def _tasks(self) -> int:
        """How many panels there are in all for threads to share."""
        extents = [self.problem.extents[n].constant or LEAST_PANELS for n in self.view.batch]
        return prod(extents) * ((self.columns or 0) // self.width)

    def packed(self, packing: Packing) -> Plan:
        """The plan with one of the packings."""
        self.per_tile = packing in ("flat", "tile")
        return self.plan(packing)

    def plan(self, packing: Packing | None = None) -> Plan:
        """All that the plan says, by default with the packing that the thresholds choose."""
        view, problem = self.view, self.problem
        packing = self._packing() if packing is None else packing
        widened_rows = self._widens_rows()
        packed_rows = not widened_rows and self._packs_rows(packing)
        return Plan(
            column=view.column,
            row=view.row,
            batch=view.batch,
            panel=view.panel,
            rows=self.params.rows,
            vectors=self.params.vectors,
            lanes=problem.lanes,
            narrow=view.narrow,
            packing=packing,
            per_tile=self.per_tile,
            k_block=self._k_block(packing),
            sum_block=self.params.sum_block,
            widened_panel=self._widens_panel(packing),
            widened_rows=widened_rows,
            packed_rows=packed_rows,
            streamed=self._streams(),
            prefetched=not packed_rows and self._prefetches(packing),
            shared=self._shares(packing),
            terms=problem.terms,
            matrix=self.matrix,
            group=self._group(packing),
        )

    def _default(self) -> Params:
        if self.matrix is not None:
            return matrix_params(self.rows, self.columns, self.problem.lanes)
        if self.view.narrow and self.rows != 1:
            return narrow_params(*self.sizes)
        return default_params(*self.sizes, unrolled=self.unrolled)

    def _matrix_words(self) -> int | None:
        """The words along a sum that registers for tiles of matrices hold, where the target has
        such, a weight is packed for them, and enough rows and words fill them.
        """
        problem, view = self.problem, self.view
        has_tiles = problem.terms > 1 and self.target.has_matrix_products(problem.terms)
        if not has_tiles or problem.lanes != TILE_WORDS:
            return None
        if view.row is None or view.narrow or self.columns is None or not view.packable:
            return None
        if (self.rows or LEAST_MATRIX_ROWS) < LEAST_MATRIX_ROWS:
            return None
        rows, sums = self._other.along[view.row], problem.result.along
        stored = 1 in (sums[view.column].lanes, sums[view.row].lanes)
        if rows.step is None or sums[view.row].step is None or not stored:
            return None
        counts = [
            problem.extents[n].constant
            for n in problem.reductions
            if 1 in (self._other.along[n].step, self._other.along[n].lanes)
        ]
        fitting = [
            words
            for count in counts
            for words in range(LEAST_MATRIX_WORDS, TILE_WORDS + 1)
            if count is not None and count % words == 0
        ]
        return max(fitting, default=None)

    def _packing(self) -> Packing:
        if self.panel is None or not self.view.packable:
            return "none"
        along = self.panel.along[self.view.column]
        if (whole_tiles := self._starts_panels(along)) and self.panel.is_weight:
            return "stored"
        if self.problem.terms > 1:
            return "tile" if self._packs_words_per_tile() else "whole"
        if whole_tiles and not self.per_tile and (self._pays_to_copy() or self._gathers(along)):
            return "whole"
        if self.per_tile and not self.panel.is_weight:
            return "flat" if self.panel.is_flat(self.view.column) else "tile"
        return self._packing_of_strided(along)

    def _packing_of_strided(self, along: Along) -> Packing:
        """How columns are packed that are strided: where panels are too few for threads to share
        and rows are not, all panels are packed in front of the rows, which threads then share.
        """
        if not self._packs_strided(along):
            return "none"
        rows = (self.rows or 0) // self.params.rows if self.columns is not None else 0
        few = self._starts_panels(along) and self._tasks() < LEAST_PANELS
        return "whole" if few and rows >= ENOUGH_TASKS else "strided"

    def _starts_panels(self, along: Along) -> bool:
        """Whether panels of the width start where tiles of columns do: in all of a dim, or in each
        group of columns.
        """
        return len(along.dims) == 1 and (
            along.multiple % self.width == 0 or along.multiple == self.columns
        )

    def _group(self, packing: Packing) -> int | None:
        """The columns of a group, where panels of all of the dim would cross into the next."""
        if packing not in ("stored", "whole"):
            return None
        multiple = self._panel.along[self.view.column].multiple
        return multiple if multiple % self.width else None

    def _pays_per_tile(self, params: Params) -> bool:
        """Whether an operand is better packed a panel at a time, by the thread that computes with
        it: it is no smaller than L2, its columns are contiguous, a panel takes half of L2 at most,
        there are panels for many threads, and enough rows read it. A panel is not written to memory
        nor read from there again, so fewer rows pay for it than for packing all of the operand, and
        the fewer the more set conflicts the elements along K have; a weight is packed already.
        """
        panel, view, problem = self.panel, self.view, self.problem
        if panel is None or not view.packable or view.row is None or view.narrow:
            return False
        sums, depth = list(problem.reductions), problem.depth
        others = [n for n in range(len(problem.extents)) if panel.indexed_by(n)]
        plain = len(sums) == 1 and others == sorted({view.column, *sums}) and problem.terms == 1
        as_it_is = panel.is_weight or panel.computed_bits == panel.bits
        contiguous = panel.along[view.column].step == 1 and as_it_is
        rows, bytes = problem.rows_of(panel), problem.bytes_of(panel)
        if not plain or not contiguous or depth is None or rows is None or bytes is None:
            return False
        # Elements along K that fall into the same sets evict each other before the next tile of
        # rows reads them again, so packing pays for fewer rows.
        conflicts = max(1, set_conflicts(problem, panel, self.target))
        few = max(FEWEST_ROWS, params.panel_rows / conflicts)
        if rows < (params.copy_rows if panel.is_weight else few):
            return False
        size = params.vectors * problem.lanes
        if bytes < self.target.l2_bytes and not conflict_in_l1(problem, panel, size, self.target):
            return False
        return self._is_held(depth, size) and (self.columns or 0) >= LEAST_PANELS * size

    def _packs_words_per_tile(self) -> bool:
        """Whether words are better packed a panel at a time by the thread that multiplies them,
        which writes no memory: L2 keeps that panel, and all rows, which are read again with each.
        """
        depth, rows = self.problem.depth, self.problem.bytes_of(self._other)
        if self.view.row is None or self.view.narrow or self.view.batch or not depth or not rows:
            return False
        held = self._is_held(depth, self.width) and rows <= self.target.l2_bytes // 2
        return held and (self.columns or 0) >= LEAST_PANELS * self.width

    def _pays_to_copy(self) -> bool:
        """Whether to pack the whole operand in front of the contraction: where it is no smaller
        than L2, or its columns are strided, and so many rows read it that this is cheap. Half as
        many do where the stride along K is of whole pages, so that K falls in few sets of the
        caches.
        """
        panel, params = self._panel, self.params
        rows, bytes = self.problem.rows_of(panel), self.problem.bytes_of(panel)
        least = params.copy_rows // 2 if has_page_stride(self.problem, panel) else params.copy_rows
        if rows is None or bytes is None or rows < least:
            return False
        strided = panel.along[self.view.column].step != 1
        return bytes >= self.target.l2_bytes or (strided and bytes > params.stack_bytes)

    def _packs_strided(self, along: Along) -> bool:
        """Whether a panel of strided columns fits the stack of the thread that packs it."""
        depth, one_dim = self.problem.depth, len(along.dims) == 1
        if along.step in (0, 1) or not one_dim or depth is None:
            return False
        return self._is_held(depth, min(self.width, self.columns or self.width))

    def _is_held(self, depth: int, columns: int) -> bool:
        """Whether a stack has room for a panel, and L2 beside the tiles that pass through it."""
        held = min(self.target.l2_bytes // 2, LARGEST_PANEL)
        return depth * columns * self._panel.bits // 8 <= held

    def _gathers(self, along: Along) -> bool:
        """Whether lanes of columns would be gathered, for no stack has room for a panel of them, by
        more rows than packing all of the operand takes.
        """
        step = 0 if along.step is None else along.step.constant
        rows = self.problem.rows_of(self._panel)
        apart = step is None or step > LONGEST_STRIDE
        return apart and not self._packs_strided(along) and (rows is None or rows >= FEWEST_ROWS)

    def _widens_panel(self, packing: Packing) -> bool:
        whole = packing == "whole" and self.view.row is not None and self.problem.terms == 1
        return whole and self._panel.is_extended and self._panel.along[self.view.column].step == 1

    def _widens_rows(self) -> bool:
        """Whether so many columns read each element of the rows that it would be extended over and
        over; not of a weight, which would be copied as a whole in each call.
        """
        if self.view.row is None or self.view.panel is None or self.problem.terms > 1:
            return False
        uses = 0 if self._other.is_weight else self.problem.rows_of(self._other) or 0
        return self._other.is_extended and uses >= WIDENED_USES

    def _packs_rows(self, packing: Packing) -> bool:
        """Whether the operand of the rows is transposed and so large that it is better read once, a
        tile of rows at a time, while L2 keeps all panels of the other: they are not packed inside.
        """
        inside = packing in ("tile", "strided")
        if inside or self.view.row is None or self.view.batch or not self.view.packable:
            return False
        large, small = self._other.bytes, self._bytes_of_panels(packing)
        along = (n for n, each in enumerate(self._other.along) if each.step == 1)
        row = next(along, None)
        fits = 0 < 2 * small <= self.target.l2_bytes < large
        return fits and row is not None and row < self.problem.outer

    def _bytes_of_panels(self, packing: Packing) -> int:
        """What the panel's operand takes as it is read, of which the last panel is filled up."""
        panel, columns = self._panel, self.columns
        bits = panel.computed_bits if self._widens_panel(packing) else panel.bits
        elements = panel.size or 0
        if packing in ("stored", "whole", "flat") and columns:
            elements = elements // columns * (-(-columns // self.width) * self.width)
        return elements * bits // 8

    def _k_block(self, packing: Packing) -> int | None:
        """How many terms of a panel are packed at a time, where several tiles of rows read one that
        L2 does not hold.
        """
        problem, depth = self.problem, self.problem.depth
        if self.view.row is None or not self.view.packable or len(problem.reductions) != 1:
            return None
        if problem.terms > 1:
            return None
        inside = [n for n in range(problem.outer) if n not in (self.view.column, *self.view.batch)]
        outer, *_ = [*(n for n in inside if n != self.view.row), self.view.row]
        bits = self._panel.computed_bits if self._widens_panel(packing) else self._panel.bits
        several = (problem.extents[outer].constant or 0) > self.params.rows
        if depth is None or not several or depth * self.width * bits // 8 <= self.target.l2_bytes:
            return None
        most = self.params.stack_bytes // (self.width * bits // 8)
        return -(-depth // -(-depth // most))

    def _streams(self) -> bool:
        """Whether one row is multiplied with a matrix that is stored by rows, which are many and
        too long to be read a tile at a time: rows less than a page apart are one stream.
        """
        problem, panel = self.problem, self.panel
        if panel is None or not self.view.packable or self.view.row is not None or panel.is_weight:
            return False
        if len(problem.reductions) != 1 or panel.along[self.view.column].step != 1:
            return False
        depth, step = problem.depth, panel.along[problem.outer].step
        if step is None or (depth is not None and depth < 2 * STREAMS):
            return False
        return step.constant is None or step.constant * panel.bits // 8 >= PAGE

    def _prefetches(self, packing: Packing) -> bool:
        """Whether the panel of the next tile of columns, or what it is packed of by the thread that
        reads it, is better prefetched into L2 while the tiles of rows over this one are computed:
        both take half of L2 at most, all panels are no small part of it, and the time to load a
        panel is not divided among many tiles, nor that of few rows.
        """
        panels = (self.columns or 0) // self.width
        by_thread = packing == "tile" and self.per_tile and self.rows is not None
        plain = by_thread or self._is_plain_weight()
        if self.problem.terms > 1 or not plain or panels < ENOUGH_TASKS or self.problem.outer != 2:
            return False
        in_panels = by_thread or packing == "stored" or not self._panel.is_row_major
        if not in_panels:
            return False
        fewest = LEAST_HIDING if self.target.vector_bytes == LINE else 2 * self.params.rows
        if self.rows and not fewest <= self.rows <= MOST_TILES * self.params.rows:
            return False
        bytes = self._bytes_of_panels(packing)
        return 4 * bytes // panels <= self.target.l2_bytes <= 4 * bytes

    def _is_plain_weight(self) -> bool:
        view, panel = self.view, self.panel
        weight = panel is not None and view.packable and panel.is_weight
        return weight and view.row is not None and not view.narrow and not self.per_tile

    def _shares(self, packing: Packing) -> bool:
        """Whether there are tiles of rows of several sizes for each of many tiles of columns, which
        then are read from memory once: those of a dynamic number of rows, or a remainder of rows,
        which L2 holds, beside what it does not hold.
        """
        panels = (self.columns or 0) // self.width
        if self.view.row is None or self.panel is None or panels < ENOUGH_TASKS:
            return False
        if self.rows is None:
            return not self.view.batch
        left = self.rows > self.params.rows and self.rows % self.params.rows != 0
        held = self._other.bytes <= self.target.l2_bytes // 2
        return left and held and self._bytes_of_panels(packing) >= self.target.l2_bytes

    @property
    def _panel(self) -> Operand:
        assert self.panel is not None, "a window has no panel"
        return self.panel

    @property
    def _other(self) -> Operand:
        assert self.view.panel is not None, "a window has no other factor"
        return self.problem.factors[1 - self.view.panel]
