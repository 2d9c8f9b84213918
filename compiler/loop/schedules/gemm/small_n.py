"""Small-N GEMM: products of long rows with few columns have vectors along K, where rows are
contiguous.

    for io parallel:
      p[16][10][16] = 0
      for ko:  for it:                             blocks of K; tiles of rows
        acc[2][10][16] in registers = p[2*it...]
        for km:  for ii, j unroll:  for kl vector:  acc[ii, j, kl] += x[i, k] * y[k, j]
        p[2*it...] = acc
      for ii, j:  t[i, j] += the sum of p[ii, j]

Columns fill no vector, and transposing a block of rows takes longer than the product. Products of a
batch follow each other; the rows that fill no group are a nest of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.matchers import Product
from weft.compiler.loop.nest import child_loops, perfect_nest, subscript_atoms
from weft.compiler.loop.primitives import (
    dim_innermost,
    distribute,
    hoist_allocation,
    pack,
    parallelize,
    reorder,
    split_reduction,
    stage_accumulators,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.gemm.pack_panels import column_axis
from weft.compiler.loop.schedules.gemm.prefetch_operands import load_and_prefetch
from weft.compiler.loop.schedules.gemm.split_k import matrix_product
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_tile
from weft.compiler.loop.schedules.innermost_loops import lanes_of, vectorize_innermost
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import AllocOp, ForOp, LoadOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import buffer_type_of

NAME = "small-n"

ROWS = 2
"""Rows of a tile, which share what is loaded of the columns."""

GROUP = 16
"""Rows that read a block of the columns one after the other."""

LEAST_BLOCK = 4
"""Vectors of a block of K."""

LEAST_VECTORS = 16
"""Vectors of a row that pay for reducing the lanes of its accumulators."""

LEAST_ROWS = 64
"""Rows that pay for a copy of the columns."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every such product of the kernel; yields once for each."""
    for whole in [perfect_nest(loop) for loop in child_loops(kernel)]:
        batch, nest = whole[:-3], whole[-3:]
        found = matrix_product(kernel, nest)
        plain = all(loop.reduction is None for loop in batch)
        if plain and found is not None and matches(nest, found, target):
            _apply(kernel, batch, nest, found, target)
            yield NAME


def matches(nest: Sequence[ForOp], found: Product, target: Target) -> bool:
    """Whether rows are long and many, or as many as a call says, columns few, and rows contiguous
    along K.
    """
    row, _, k_loop = nest
    lanes = lanes_of([row], target)
    columns, length = (loop.extent.constant or 0 for loop in nest[1:])
    fits = ROWS * columns + columns // 2 + ROWS <= target.vector_registers
    long = length % lanes == 0 and length >= LEAST_VECTORS * lanes
    x = next(load for load in found[:2] if row.index in subscript_atoms(load))
    few = 1 < columns < lanes and (row.extent.constant or LEAST_ROWS) >= LEAST_ROWS
    return fits and long and few and stride(x, k_loop) == 1


def _apply(
    kernel: KernelOp, batch: Sequence[ForOp], nest: Sequence[ForOp], found: Product, target: Target
) -> None:
    row, column, k_loop = nest
    x, y = sorted(found[:2], key=lambda load: column.index in subscript_atoms(load))
    lanes = lanes_of([row], target)
    _transpose(kernel, y, k_loop, target)
    outer, within, rest = tile(row, GROUP)
    for loop in reversed(batch):  # rows that are left are a product for the schedules that follow
        rest = distribute(loop, rest) if rest is not None else None
    around, lane, _ = tile(k_loop, lanes)
    reorder(lane, around, within, column)
    partial = stage_accumulators(found.store.buffer, lane, "scratch")
    allocation = partial.buffer.owner
    assert isinstance(allocation, AllocOp), "partial sums are allocated"
    hoisted = hoist_allocation(allocation, per_iteration=True)
    joined = distribute(lane, partial.write_back[0])
    added = distribute(lane, around)
    parts = pack(hoisted.result, dim_innermost(buffer_type_of(hoisted.result), 0))
    inside = perfect_nest(lane)[1:]
    reorder(*inside, lane)
    vectorize(lane, lanes)
    _multiply(outer, added, parts, x.buffer, _vectors_of_block(around, column, target), lanes)
    inside = perfect_nest(joined)[1:]
    reorder(*inside, joined)
    _reduce_lanes(joined, lanes)
    parallelize(outer)


def _multiply(
    outer: ForOp, lane: ForOp, parts: SSAValue, x: SSAValue, size: int, lanes: int
) -> None:
    """Multiplies a group of rows with each block of K, a few rows at a time in registers."""
    around, within, column = perfect_nest(lane)[1:]
    blocks, inner, _ = tile(around, size)
    tiles, rows, _ = tile(within, ROWS)
    reorder(blocks, tiles, inner, rows, column, lane)
    staged = stage_tile(parts, tiles, "registers")
    pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), 0))
    load_and_prefetch(x, rows, outer, lanes, level="L2")
    for each in (staged.load_in, [rows, column, lane], staged.write_back):
        unroll_tile(each, lanes)


def _vectors_of_block(k_loop: ForOp, columns: ForOp, target: Target) -> int:
    """How many vectors a block of K has: its columns leave room in L1, if that does not make blocks
    too short to pay for loading and storing their accumulators.
    """
    count = k_loop.extent.constant or 1
    held = target.l1_bytes // 4 // (target.vector_bytes * (columns.extent.constant or 1))
    sizes = [size for size in range(1, count + 1) if count % size == 0]
    most = max(size for size in sizes if size <= max(1, held))
    return most if most >= LEAST_BLOCK else next(size for size in sizes if size >= LEAST_BLOCK)


def _transpose(kernel: KernelOp, columns: LoadOp, k_loop: ForOp, target: Target) -> None:
    """Packs columns so that each is contiguous along K, unless it is already."""
    axis = column_axis(columns, k_loop)
    if stride(columns, k_loop) == 1 or axis is None:
        return
    staged = stage_tile(columns.buffer, kernel, "workspace")
    pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), axis))
    vectorize_innermost(staged.load_in[0], target)


def _reduce_lanes(loop: ForOp, lanes: int) -> None:
    """Adds up the lanes of a vector, by halves."""
    parts = split_reduction(loop, lanes // 2)
    for part in (parts.initialize, parts.inner, *parts.halvings):
        count = part.extent.constant or 1
        if count > 1:
            vectorize(part, count)
        unroll(part)
    unroll(parts.outer)
