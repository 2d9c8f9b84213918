"""Long reductions over leading axes, as of gradients of biases: memory is read contiguously, row by
row, and a block of the results stays in L1 while rows are added to it. Rows too short for threads
to share are added in blocks, which run in parallel:

    for i:  for k:  s[i] += x[k, i]   ->   for ko parallel:  for i:  p[ko, i] = 0
                                                             for ki:  for i:  p[ko, i] += x[k, i]
                                           for ko:  for i:  s[i] += p[ko, i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.compiler.loop.matchers import sole_update, split_nest
from weft.compiler.loop.nest import child_loops, loads_in, perfect_nest, stores_in
from weft.compiler.loop.primitives import (
    block_reduction,
    collapse,
    distribute,
    parallelize,
    reorder,
    split_at,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.gemm.accumulation import overlap
from weft.compiler.loop.schedules.innermost_loops import (
    collapse_contiguous,
    lanes_for,
)
from weft.compiler.loop.schedules.parallel_loops import least_tasks, parallelize_outermost
from weft.compiler.loop.strides import is_contiguous, stride
from weft.compiler.target.target import Target
from weft.dialects.expr import product
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width

NAME = "leading-reduction"

ROWS = 8
"""Rows that are added in registers before their sum is stored."""

WIDEST = 1024
"""Columns of a block: their accumulators fit L1, a row of them a page."""

NARROWEST = 128
"""The fewest columns for which reading one row at a time is fast."""

SHORT_ROW = 2 * NARROWEST
"""Columns of rows that threads never share."""

LONG_BLOCK = 64
"""Rows of a block from which on adding up the blocks' sums takes no time: longer rows, whose sums a
quarter of L1 keeps, are read whole too, for pieces of rows are slower than one stream.
"""

LEAST_BLOCKS = 16
"""Blocks of rows that threads share evenly enough."""

LONGEST_BLOCK = 512
"""Rows of a block: longer sums lose digits."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such reduction of the kernel; yields once for each."""
    for loop in child_loops(kernel):
        if matches(loop, target):
            apply(loop, target)
            yield NAME


def matches(loop: ForOp, target: Target) -> bool:
    """Whether a nest has outer loops, the last of which is contiguous in memory, around reductions
    of more elements than L2 holds.
    """
    nest = perfect_nest(loop)
    split, update = split_nest(nest), sole_update(nest[-1])
    if split is None or update is None or stride(update.store, split.outer[-1]) != 1:
        return False
    outer, rows = split
    loads = loads_in(nest[-1])
    if any(stride(load, outer[-1]) not in (0, 1) for load in loads):
        return False
    # Windows that overlap read elements again, for which results have to stay in registers.
    if any(overlap(load, level, rows) for load in loads for level in outer):
        return False
    # What L2 holds is left to the sliding window, whose accumulators never leave registers though
    # it reads memory with the stride of a row. Columns have to be many enough that a piece of a row
    # is worth a visit, and rows that it pays to load and store accumulators for each few of them.
    least = target.l2_bytes * 8 // max(width(load.buffer_type.element) for load in loads)
    many = (product(level.extent for level in nest).constant or least) >= least
    narrow = (outer[-1].extent.constant or NARROWEST) < NARROWEST
    if narrow and _block_size(outer, rows, target) is None:
        return False
    return many and (product(row.extent for row in rows).constant or ROWS) >= ROWS


def apply(loop: ForOp, target: Target) -> None:
    """Tiles the columns and moves the reduction outside of them, several rows at a time."""
    nest = perfect_nest(loop)
    outer = [level for level in nest if level.reduction is None]
    collapse_contiguous(nest[len(outer)])
    while len(outer) > 1 and is_contiguous(outer[-2], outer[-1]):
        columns = outer.pop()
        outer[-1] = collapse(outer[-1], columns)
    columns = outer[-1]
    lanes = lanes_for(columns, target)
    rows = perfect_nest(columns)[1:]
    if (block := _block_size(outer, rows, target)) is not None:
        _add_blocks(columns, rows[0], block, lanes)
        return
    size = _tile_size(columns.extent.constant, lanes, target)
    tiles = tile(columns, size)
    tops = [outer[0] if len(outer) > 1 else tiles.outer]
    if tiles.remainder is not None and len(outer) > 1 and least_tasks(outer[0].extent) == 1:
        # A batch of one image is nothing for threads to share: they share the columns too.
        tops.append(_apart(outer[:-1], tiles.remainder))
    _add_rows([tiles.outer], tiles.inner, lanes)
    if tiles.remainder is not None:
        _add_rows([], tiles.remainder, lanes)
    for top in tops:
        parallelize_outermost(top)


def _apart(around: Sequence[ForOp], rest: ForOp) -> ForOp:
    """A nest of its own for the last of what is inside of some loops; returns its outer loop."""
    for level in reversed(around):
        rest = distribute(level, rest)
    return rest


def _block_size(outer: Sequence[ForOp], rows: Sequence[ForOp], target: Target) -> int | None:
    """How many rows a block has, of rows that threads do not share; None where they do, or where
    rows are shorter than a vector or too few.
    """
    columns, count = outer[-1].extent.constant, rows[0].extent.constant
    if len(outer) > 1 or len(rows) > 1 or columns is None or count is None:
        return None
    size = min(count // LEAST_BLOCKS // ROWS * ROWS, LONGEST_BLOCK)
    bytes = columns * width(stores_in(rows[-1])[0].buffer_type.element) // 8
    short = columns < SHORT_ROW or (4 * bytes <= target.l1_bytes and size >= LONG_BLOCK)
    return size if lanes_for(outer[-1], target) <= columns and short and size > 0 else None


def _add_blocks(columns: ForOp, rows: ForOp, size: int, lanes: int) -> None:
    """Adds up blocks of rows, in parallel, and then the blocks' results."""
    rows, _ = reorder(rows, columns)
    blocks = block_reduction(rows, size)
    for nest in child_loops(blocks.outer):
        if nest is not blocks.inner:
            vectorize(nest, lanes)
    for nest in (blocks.inner, blocks.remainder):
        if nest is not None:
            _unroll_rows(nest, lanes)
    vectorize(perfect_nest(blocks.combine)[-1], lanes)
    parallelize(blocks.outer)


def _add_rows(around: list[ForOp], columns: ForOp, lanes: int) -> None:
    """Moves the reductions inside a loop over columns around it, the innermost ROWS at a time."""
    rows = perfect_nest(columns)[1:]
    reorder(*around, *rows, columns)
    _unroll_rows(rows[-1], lanes)


def _unroll_rows(rows: ForOp, lanes: int) -> None:
    """Adds ROWS rows at a time to a vector of columns."""
    whole = rows.extent // ROWS * ROWS
    if whole == 0:
        vectorize(perfect_nest(rows)[-1], lanes)
        return
    if whole != rows.extent:
        rows, rest = split_at(rows, whole)
        vectorize(perfect_nest(rest)[-1], lanes)
    outer, inner, _ = tile(rows, ROWS)
    columns = perfect_nest(inner)[-1]
    reorder(outer, columns, inner)
    unroll(inner)
    vectorize(columns, lanes)


def _tile_size(columns: int | None, lanes: int, target: Target) -> int:
    """Columns of a tile, so that each core has a tile or two."""
    if columns is None:
        return WIDEST
    shared = -(-columns // (2 * max(2, target.cores)))
    return min(columns, WIDEST, max(NARROWEST, -(-shared // lanes) * lanes))
