"""Long sums along leading axes, as of gradients of biases: memory is read row by row as it lies,
and a stretch of the results stays in the nearest cache while rows are added to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.loop.nest import accesses_in, loops_in, perfect_nest, update_of
from compiler.loop.primitives import reorder, split_at, tile, unroll, vectorize
from compiler.loop.schedules.innermost_loops import (
    collapse_contiguous,
    lanes_for,
    parallelize_outermost,
    stride,
)
from compiler.target.target import Target
from dialects.expr import product
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp
from dialects.loop.scalar import width

NAME = "columns"

ROWS = 8
"""Rows that are added up before their sum is brought to memory."""

WIDEST = 1024
"""Columns that are computed together: their sums fit the nearest cache, a row of them a page."""

NARROWEST = 128
"""Columns whose rows are worth a visit each."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such sum of the kernel; yields once for each."""
    for op in list(kernel.body.block.ops):
        if isinstance(op, ForOp) and matches(op, target):
            apply(op, target)
            yield NAME


def matches(loop: ForOp, target: Target) -> bool:
    """Outer loops, the last of which walks along memory, around reductions of more elements than
    the second cache holds.
    """
    nest = perfect_nest(loop)
    outer = [level for level in nest if level.reduction is None]
    rows = nest[len(outer) :]
    plain = not loops_in(nest[-1]) and all(not op.regions for op in nest[-1].body.block.ops)
    if not outer or not rows or not plain or any(row.reduction is None for row in rows):
        return False
    stores = [access for access in accesses_in(nest[-1]) if isinstance(access, StoreOp)]
    loads = [access for access in accesses_in(nest[-1]) if isinstance(access, LoadOp)]
    if len(stores) != 1 or update_of(stores[0]) is None or stride(stores[0], outer[-1]) != 1:
        return False
    if any(stride(load, outer[-1]) not in (0, 1) for load in loads):
        return False
    least = target.l2_bytes * 8 // max(width(load.buffer_type.element) for load in loads)
    many = (product(level.extent for level in nest).constant or least) >= least
    narrow = (outer[-1].extent.constant or NARROWEST) < NARROWEST
    return many and not narrow and (product(row.extent for row in rows).constant or ROWS) >= ROWS


def apply(loop: ForOp, target: Target) -> None:
    """Tiles the columns and brings the reduction outside of them, several rows at a time."""
    nest = perfect_nest(loop)
    outer = [level for level in nest if level.reduction is None]
    collapse_contiguous(nest[len(outer)])
    columns = outer[-1]
    lanes = lanes_for(columns, target)
    size = _tile_size(columns.extent.constant, lanes, target)
    tiles = tile(columns, size)
    _add_rows([tiles.outer], tiles.inner, lanes)
    if tiles.remainder is not None:
        _add_rows([], tiles.remainder, lanes)
    parallelize_outermost(outer[0] if len(outer) > 1 else tiles.outer)


def _add_rows(around: list[ForOp], columns: ForOp, lanes: int) -> None:
    """Runs the reductions inside a loop over columns around it, the innermost ROWS at a time."""
    rows = perfect_nest(columns)[1:]
    reorder(*around, *rows, columns)
    last, whole = rows[-1], rows[-1].extent // ROWS * ROWS
    if whole != last.extent and whole != 0:
        last, rest = split_at(last, whole)
        vectorize(perfect_nest(rest)[-1], lanes)
    if whole == 0:
        vectorize(columns, lanes)
        return
    outer, inner, _ = tile(last, ROWS)
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
