"""Products of long rows with few columns: vectors go along the terms, as rows lie in memory.

    for io parallel:
      p[16][10][16] = 0
      for ko:  for it:                             blocks of terms; tiles of rows
        acc[2][10][16] in registers = p[2*it...]
        for km:  for ii, j unroll:  for kl vector:  acc[ii, j, kl] += x[i, k] * y[k, j]
        p[2*it...] = acc
      for ii, j:  t[i, j] += the sum of p[ii, j]

Columns fill no vector, and to bring a stretch of rows into columns takes longer than the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from compiler.loop.nest import perfect_nest
from compiler.loop.primitives import (
    distribute,
    hoist_allocation,
    pack,
    parallelize,
    reorder,
    split_reduction,
    stage,
    stage_partial,
    tile,
    unroll,
    vectorize,
)
from compiler.loop.schedules.gemm.pack_panels import column_axis, columns_last
from compiler.loop.schedules.gemm.packed_buffers import read_ahead, write_out
from compiler.loop.schedules.gemm.split_k import Factors, moves, plain_product
from compiler.loop.schedules.innermost_loops import lanes_of, stride, vectorize_leaves
from compiler.target.target import Target
from dialects.loop.ops import AllocOp, ForOp, LoadOp
from dialects.loop.program import KernelOp
from dialects.loop.types import buffer_type

NAME = "few columns"

ROWS = 2
"""Rows of a tile, which share what is loaded of the columns."""

GROUP = 16
"""Rows that go through a block of the columns one after the other."""

LEAST_BLOCK = 4
"""Vectors of terms of a block."""

LEAST_VECTORS = 16
"""Vectors of a row that pay for adding up the lanes of its sums."""

LEAST_ROWS = 64
"""Rows that pay for a copy of the columns."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such product of the kernel; yields once for each."""
    for op in list(kernel.body.block.ops):
        nest = perfect_nest(op) if isinstance(op, ForOp) else []
        found = plain_product(kernel, nest)
        if found is not None and matches(nest, found, target):
            _apply(kernel, nest, found, target)
            yield NAME


def matches(nest: Sequence[ForOp], found: Factors, target: Target) -> bool:
    """Whether rows are long and many, columns few, and terms lie along rows."""
    row, _, terms = nest
    lanes = lanes_of([row], target)
    rows, columns, length = (loop.extent.constant or 0 for loop in nest)
    fits = ROWS * columns + columns // 2 + ROWS <= target.vector_registers
    long = length % lanes == 0 and length >= LEAST_VECTORS * lanes
    x = next(load for load in found[:2] if moves(load, row))
    few = 1 < columns < lanes and rows >= LEAST_ROWS
    return fits and long and few and stride(x, terms) == 1


def _apply(kernel: KernelOp, nest: Sequence[ForOp], found: Factors, target: Target) -> None:
    row, column, terms = nest
    x, y = sorted(found[:2], key=lambda load: moves(load, column))
    lanes = lanes_of([row], target)
    _turn(kernel, y, terms, target)
    outer, within, _ = tile(row, GROUP)
    around, lane, _ = tile(terms, lanes)
    reorder(lane, around, within, column)
    partial = stage_partial(found[-1].buffer, lane, "scratch")
    allocation = partial.buffer.owner
    assert isinstance(allocation, AllocOp), "partial sums are allocated"
    hoisted = hoist_allocation(allocation)
    joined = distribute(lane, partial.write_back[0])
    added = distribute(lane, around)
    parts = pack(hoisted.result, columns_last(buffer_type(hoisted.result), 0))
    inside = perfect_nest(lane)[1:]
    reorder(*inside, lane)
    vectorize(lane, lanes)
    _multiply(outer, added, parts, x.buffer, _vectors_of_block(around, column, target), lanes)
    inside = perfect_nest(joined)[1:]
    reorder(*inside, joined)
    _add_lanes(joined, lanes)
    parallelize(outer)


def _multiply(
    outer: ForOp, lane: ForOp, parts: SSAValue, x: SSAValue, size: int, lanes: int
) -> None:
    """Goes through a group of rows for each block of terms, a few rows at a time in registers."""
    around, within, column = perfect_nest(lane)[1:]
    blocks, inner, _ = tile(around, size)
    tiles, rows, _ = tile(within, ROWS)
    reorder(blocks, tiles, inner, rows, column, lane)
    staged = stage(parts, tiles, "registers")
    pack(staged.buffer, columns_last(buffer_type(staged.buffer), 0))
    read_ahead(x, rows, outer, lanes, cache="second")
    for each in (staged.load_in, [rows, column, lane], staged.write_back):
        write_out(each, lanes)


def _vectors_of_block(terms: ForOp, columns: ForOp, target: Target) -> int:
    """How many vectors of terms a block has: their columns leave room in the nearest cache, if that
    does not make blocks too short to pay for bringing sums to registers and back.
    """
    count = terms.extent.constant or 1
    held = target.l1_bytes // 4 // (target.vector_bytes * (columns.extent.constant or 1))
    sizes = [size for size in range(1, count + 1) if count % size == 0]
    most = max(size for size in sizes if size <= max(1, held))
    return most if most >= LEAST_BLOCK else next(size for size in sizes if size >= LEAST_BLOCK)


def _turn(kernel: KernelOp, columns: LoadOp, terms: ForOp, target: Target) -> None:
    """Has each column in a piece, in a copy, unless it lies so."""
    axis = column_axis(columns, terms)
    if stride(columns, terms) == 1 or axis is None:
        return
    staged = stage(columns.buffer, kernel, "workspace")
    pack(staged.buffer, columns_last(buffer_type(staged.buffer), axis))
    vectorize_leaves(staged.load_in[0], target)


def _add_lanes(loop: ForOp, lanes: int) -> None:
    """Adds up what the lanes of a vector hold, by halves."""
    parts = split_reduction(loop, lanes // 2)
    for part in (parts.initialize, parts.inner, *parts.halvings):
        count = part.extent.constant or 1
        if count > 1:
            vectorize(part, count)
        unroll(part)
    unroll(parts.outer)
