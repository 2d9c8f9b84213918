"""problem, plan -> time: what a plan takes whose products are those of registers that hold tiles of
matrices, with the loops around tiles as they are for these.
"""

from __future__ import annotations

from math import ceil

from weft.compiler.loop.primitives.matrix import TILE_ROWS
from weft.compiler.loop.schedules.gemm.caches import Moved
from weft.compiler.loop.schedules.gemm.cost import (
    STORED,
    TILE_START,
    TRANSPOSED,
    Cost,
    ProductCost,
)
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.problem import Problem
from weft.compiler.target.target import LINE, Target

LINE_PACKED = 4.0
"""Cycles of a line of rows that is packed, each from a place of its own."""


def matrix_cost(
    problem: Problem, plan: Plan, target: Target, *, cold: bool = False, rows_vary: bool = False
) -> Cost:
    """The time of a plan with such registers, as `cost` has that of others."""
    return _MatrixCost(problem, plan, target, cold=cold, rows_vary=rows_vary).cost()


class _MatrixCost(ProductCost):
    """Tiles by these registers. Where rows are packed, a part of a panel stays in L1 while all
    tiles of a block of rows pass."""

    def _tile(self, rows: int, vectors: int) -> float:
        """One tile: until registers are multiplied or loaded, a row of one after the other; then
        its stores, and loads of what was stored.
        """
        words = self.plan.matrix or 1
        registers = ceil(rows / TILE_ROWS)
        work = float(rows * vectors)
        loads = (rows + registers * vectors * words) / self.target.cost.load_ports
        read = STORED + (TRANSPOSED if self.transposed else 0.0)
        return self.depth / words * max(work, loads) + TILE_START + rows * vectors * (STORED + read)

    def _panels_first(self) -> list[bool]:
        return [True] if self.plan.row_block is not None else super()._panels_first()

    def _panel(self, panels_first: bool) -> Moved:
        """Panels come from behind L2 for each block of packed rows behind the first, and their
        parts from L2 for each."""
        if self.plan.row_block is None:
            return super()._panel(panels_first)
        blocks = ceil(self.rows / self.plan.row_block)
        block = self.plan.row_block * self.depth * self.other.bits / 8
        every = self.caches.moved((blocks - 1) * self.panel_bytes, self.panel_bytes + block)
        return every + self.caches.moved(blocks * self.panel_bytes, block)

    def _rows(self, panels_first: bool) -> Moved:
        """Packed rows come from L2 for each panel, and so do sums for each part of K but the
        first.
        """
        if self.plan.row_block is None:
            return super()._rows(panels_first)
        rows = self.rows * self.depth * self.other.bits / 8
        sums = 2 * (self.parts - 1) * self.result_bytes
        block = self.plan.row_block * self.depth * self.other.bits / 8
        return self.caches.moved(rows * self.panels + sums, block)

    def _packing(self) -> float:
        packed = self.other_bytes / LINE * LINE_PACKED if self.plan.row_block is not None else 0.0
        return packed + super()._packing()
