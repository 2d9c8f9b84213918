"""plan -> plan: a long K in blocks. L1 keeps a block's part of a panel while all tiles of rows are
computed with it, and L2 the rows' part for a block of panels.

    for jo parallel:  for io:  for k:  S(x[io, k], w[k, jo])
    ->  for jc parallel:  for ko:  for jo:  for io:  for ki:  S(x[io, k], w[k, jo])
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from weft.compiler.loop.primitives.matrix import TILE_WORDS
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.problem import Problem
from weft.compiler.target.target import LINE, PAGE, Target
from weft.dialects.expr import product

SHARE_OF_L1 = 0.6
"""Of a part of a panel and of the rows of a tile."""

COLUMNS = 128
"""Columns of a block of panels: more are fewer reads of all rows, and fewer blocks for threads."""

ROWS = 256
"""Rows of a block: more are fewer reads of a panel, and more sums that L2 has to keep."""

FEW_ROWS = 64
"""The fewest."""

UNKNOWN_ROWS = 128
"""Those of a block of an unknown number of rows, of which the last ones are no whole block."""

KEPT = 0.75
"""Of L1, by the part of a panel that tiles of rows pass which are not kept there."""

LEAST_BLOCKS = 8
"""Fewer are too few for threads to share."""

LARGEST_PANEL = 512 * 1024
"""Bytes of a panel for which threads of most hosts have room on the stack."""

LARGEST_COPY = 1024 * 1024
"""Bytes of packed rows for which threads of most hosts have room on the stack."""


def blocked(problem: Problem, plan: Plan, target: Target) -> Plan | None:
    """The plan with blocks; None for one whose panels are not packed in front of all rows, has too
    short a K, or too few rows and columns for threads to share.
    """
    plain = plan.panel is not None and plan.packing in ("stored", "whole") and plan.has_rows
    if not plain or plan.batch or plan.narrow or plan.terms > 1 or plan.packed_rows:
        return None
    columns, (long, *taps) = problem.extents[plan.column].constant, problem.reductions
    depth, terms = problem.extents[long].constant, _product(problem, taps)
    inside = inside_loops(problem, plan)
    if columns is None or depth is None or terms is None:
        return None
    bits = max(each.bits for each in problem.factors) * terms
    most = int(SHARE_OF_L1 * target.l1_bytes * 8 // ((plan.width + plan.rows) * bits))
    most = _within_tlb(problem, plan, long, min(most, plan.sum_block // terms), target)
    size = _part(depth, max(1, most), LINE * 8 // bits if terms == 1 else 1)
    panels = columns // plan.width
    rows, count = _row_block(problem, inside, plan.rows, panels)
    block = min(max(1, COLUMNS // plan.width), panels * count // LEAST_BLOCKS)
    if size >= depth or block < 1 or rows == 0:
        return None
    return replace(plan, k_block=size, sum_block=size * terms, column_block=block, row_block=rows)


def with_packed_rows(problem: Problem, plan: Plan, target: Target) -> Plan | None:
    """The plan of registers that hold tiles of matrices, with blocks of rows that are packed for
    all panels, and a long K in parts. None for other plans, rows that are read in no words, and
    where threads would share too few blocks of those that a stack has room for.
    """
    plain = plan.matrix is not None and not plan.batch and plan.packing in ("stored", "whole")
    if not plain or plan.row is None or plan.panel is None or problem.outer != 2:
        return None
    other, (words, *taps) = problem.factors[1 - plan.panel], problem.reductions
    rows, depth = problem.extents[plan.row].constant, problem.extents[words].constant
    if taps or rows is None or depth is None or other.along[words].step != 1:
        return None
    room = min(LARGEST_COPY, target.l2_bytes // 2) * 8
    most = min(rows // LEAST_BLOCKS, room // (depth * other.bits))
    blocks = (n for n in range(most // plan.rows * plan.rows, plan.rows, -plan.rows))
    block = next((size for size in blocks if rows % size == 0), None)
    if block is None:
        return None
    held = int(KEPT * target.l1_bytes * 8 // (plan.width * other.bits)) // TILE_WORDS * TILE_WORDS
    size = _part(depth, held, plan.matrix or 1)
    return replace(plan, packed_rows=True, row_block=block, k_block=size if size < depth else None)


def packed_by_blocks(problem: Problem, plan: Plan) -> Plan | None:
    """The plan with blocks of panels that were packed in front of all rows, each part of which its
    thread packs right before it computes with it, while the next one is prefetched: nothing is
    written to memory and read from there again. None where that would be another copy for each
    block of rows, or is of columns that are strided or widened.
    """
    assert plan.panel is not None, "panels are packed"
    panel = problem.factors[plan.panel]
    plain = panel.along[plan.column].step == 1 and panel.computed_bits == panel.bits
    few = plan.row_block is None and all(each.constant is not None for each in problem.extents)
    if plan.packing != "whole" or plan.group is not None or not (plain and few):
        return None
    return replace(plan, packing="tile", per_tile=True, prefetched=True)


def widened_by_panel(problem: Problem, plan: Plan) -> Plan | None:
    """The plan in which a thread makes floats of a panel of a weight, of bytes or narrow floats,
    once for all tiles of rows, where each tile would do so. None for another operand, or a panel
    for which a stack has no room.

        for jo:  for io:  for k:  acc += X[io, k] * f32(W[jo, k])
        ->  for jo:  P[k] = f32(W[jo, k]);  for io:  for k:  acc += X[io, k] * P[k]
    """
    stored = plan.packing == "stored" and plan.terms == 1 and plan.panel is not None
    if not stored or plan.row is None or plan.narrow or plan.streamed or plan.batch:
        return None
    panel, rows = problem.factors[plan.panel or 0], problem.extents[plan.row].constant
    size = (plan.k_block or problem.depth or LARGEST_COPY) * plan.width * panel.computed_bits // 8
    several = rows is None or rows > plan.rows
    if not panel.is_extended or not several or size > LARGEST_PANEL:
        return None
    return replace(plan, widened_panel=True)


def _part(depth: int, most: int, line: int) -> int:
    """About so many terms, whole lines of them: equal parts where there are such of half as many or
    more.
    """
    sizes = range(most // line * line, most // 2, -line)
    even = next((size for size in sizes if depth % size == 0), None)
    return even or -(-depth // (-(-depth // most) * line)) * line


def _within_tlb(problem: Problem, plan: Plan, loop: int, most: int, target: Target) -> int:
    """So many terms, or those whose pages the first TLB has, where they are a page apart."""
    assert plan.panel is not None, "a panel is packed"
    apart = problem.factors[1 - plan.panel].bytes_apart(loop)
    return most if apart < PAGE else min(most, target.cost.l1_tlb * 3 // 4)


def inside_loops(problem: Problem, plan: Plan) -> list[int]:
    """The loops inside that over panels, the rows last."""
    others = [n for n in range(problem.outer) if n not in (plan.column, plan.row, *plan.batch)]
    return others if plan.row is None else [*others, plan.row]


def _row_block(
    problem: Problem, inside: Sequence[int], height: int, panels: int
) -> tuple[int | None, int]:
    """The iterations of the outermost loop over rows in a block, and how many blocks there are at
    least: equal ones of a constant number, None for all of them where there are enough panels for
    threads; of an unknown number few, which are whole tiles. 0 where there are no such blocks.
    """
    outer, *others = inside
    rows, each = problem.extents[outer].constant, _product(problem, others)
    if rows is None:
        return (0, 0) if others else (UNKNOWN_ROWS // height * height, 1)
    if each is None:
        return 0, 0
    if rows * each <= ROWS and panels >= LEAST_BLOCKS:
        return None, 1
    sizes = [n for n in range(rows, 0, -1) if rows % n == 0 and FEW_ROWS <= n * each <= ROWS]
    shared = (n for n in sizes if panels * (rows // n) >= LEAST_BLOCKS)
    size = next(shared, sizes[0] if sizes else 0)
    return size, rows // size if size else 0


def _product(problem: Problem, loops: Sequence[int]) -> int | None:
    return product(problem.extents[n] for n in loops).constant
