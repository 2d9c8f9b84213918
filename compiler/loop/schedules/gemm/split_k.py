"""Split-K: small products over a very long K, as in the gradient of a layer's weights, are split
into blocks of K with accumulators of their own, which run in parallel.

    for i, j:                           for ko parallel:
      for k:                              for i, j:  p[ko, i, j] = 0
        t[i, j] += x[k, i] * y[k, j]  ->  for i, j:  for ki:  p[ko, i, j] += x[k, i] * y[k, j]
                                        for i, j:  for ko:  t[i, j] += p[ko, i, j]

An operand of long rows is then read a few pages at a time, rather than down all of its rows once
for each tile of columns. The schedules that follow tile the nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.matchers import Product, sum_of_products
from weft.compiler.loop.nest import (
    accesses_to,
    child_loops,
    indexed_dims,
    perfect_nest,
    stores_in,
    subscript_atoms,
    weight_arguments,
)
from weft.compiler.loop.primitives import (
    block_reduction,
    dim_innermost,
    distribute,
    pack,
    parallelize,
    reorder,
    stage_tile,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from weft.compiler.loop.primitives.reducing import Blocks
from weft.compiler.loop.schedules.gemm.pack_panels import column_axis
from weft.compiler.loop.schedules.gemm.prefetch_operands import load_and_prefetch
from weft.compiler.loop.schedules.gemm.unroll_tile import unroll_tile
from weft.compiler.loop.schedules.innermost_loops import lanes_of
from weft.compiler.loop.schedules.parallel_loops import parallelize_outermost
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.expr import product
from weft.dialects.loop.ops import ForOp, LoadOp, StoreOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import width
from weft.dialects.loop.types import buffer_type_of

NAME = "split-k"

LEAST_BLOCKS = 16
"""Blocks that a pool shares evenly enough."""

K_ROWS = 16
"""Rows along K that are added while a vector of accumulators is in a register."""

FACTORS = 4
"""Registers for factors, beside those of accumulators."""

LONG_ROW = 2
"""Vectors of a row whose accumulators registers hold."""

SMALL_RESULT = 16
"""The accumulators take at most that part of the memory that a block of K takes."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Splits every such product of the kernel; yields once for each."""
    for nest in [perfect_nest(loop) for loop in child_loops(kernel)]:
        found = matrix_product(kernel, nest)
        size = None if found is None else _block_size(nest, found, target)
        if found is not None and size is not None:
            _apply(nest, found, size, target)
            yield NAME


def matrix_product(kernel: KernelOp, nest: Sequence[ForOp]) -> Product | None:
    """The product of two matrices, neither of them a weight, by a nest over M, N and K, if all are
    floats of one type that is computed in.
    """
    if [loop.reduction is None for loop in nest] != [True, True, False]:
        return None
    found = sum_of_products(nest[-1])
    if found is None or not found.is_unconverted_float:
        return None
    buffers, weights = {found.lhs.buffer, found.rhs.buffer}, weight_arguments(kernel)
    indexed = [[loop.index in subscript_atoms(load) for loop in nest[:2]] for load in found[:2]]
    of_rows_and_columns = sorted(indexed) == [[False, True], [True, False]]
    return found if of_rows_and_columns and len(buffers) == 2 and not buffers & weights else None


def _block_size(nest: Sequence[ForOp], found: Product, target: Target) -> int | None:
    """How long a block of K is: what it reads about fills L2; None where splitting K does not pay,
    or sizes are not constant.
    """
    *outer, k_loop = nest
    count, results = k_loop.extent.constant, product(loop.extent for loop in outer).constant
    bytes = [_bytes_along_k(load, outer, k_loop) for load in found[:2]]
    term = sum(each or 0 for each in bytes)
    if count is None or results is None or None in bytes or count * term < 2 * target.l2_bytes:
        return None
    most = min(target.l2_bytes // term, count // LEAST_BLOCKS) // K_ROWS * K_ROWS
    if results * width(found.store.buffer_type.element) // 8 * SMALL_RESULT > most * term:
        return None
    whole = (size for size in range(most, most // 2, -K_ROWS) if count % size == 0)
    return next(whole, most)


def _bytes_along_k(load: LoadOp, outer: Sequence[ForOp], k_loop: ForOp) -> int | None:
    """What an operand reads in one iteration over K: a row of a matrix, in bytes, whose elements a
    loop reads contiguously; None where it is no such row.
    """
    along = next((loop for loop in outer if stride(load, loop) == 1), None)
    if along is None or stride(load, k_loop) != along.extent:
        return None
    return (along.extent.constant or 0) * width(load.buffer_type.element) // 8


def _apply(nest: Sequence[ForOp], found: Product, size: int, target: Target) -> None:
    """Splits K into blocks, which read memory contiguously where rows are long."""
    k_loop, *outer = reorder(nest[-1], *nest[:-1])
    blocks = block_reduction(k_loop, size)
    lanes = lanes_of([blocks.outer], target)
    column, row = sorted(outer, key=lambda loop: loop.extent.constant or 0)
    fits = (column.extent.constant or 0) + FACTORS <= target.vector_registers
    if fits and (row.extent.constant or 0) > LONG_ROW * lanes:
        x = next(load.buffer for load in found[:2] if row.index in subscript_atoms(load))
        _add_rows(blocks, (x, found.store), (row, column), lanes)
        return
    distribute(blocks.outer, blocks.inner)
    reorder(*outer, blocks.inner)
    reorder(*perfect_nest(blocks.combine)[1:], blocks.combine)


def _add_rows(
    blocks: Blocks, buffers: tuple[SSAValue, StoreOp], loops: tuple[ForOp, ForOp], lanes: int
) -> None:
    """Adds a few rows along K at a time to all accumulators of a block, which stay in L1 or L2."""
    (x, store), (row, column) = buffers, loops
    axis = column_axis(store, row)
    assert axis is not None, "a row of accumulators is stored along one dim"
    partial = pack(store.buffer, dim_innermost(buffer_type_of(store.buffer), axis))
    around, inside, _ = tile(blocks.inner, K_ROWS)
    reorder(around, row, inside, column)
    _accumulate_in_registers(partial, axis, row, [inside, column], lanes)
    load_and_prefetch(x, inside, around, lanes, level="L1")
    unroll(inside)
    fill = child_loops(blocks.outer)[0]
    for nest in (perfect_nest(fill), perfect_nest(blocks.combine)):
        last = _along(nest, partial, axis)
        others = [loop for loop in nest if loop not in (last, blocks.combine)]
        reorder(*others, last, *(loop for loop in nest if loop is blocks.combine))
        if nest[0] is fill:
            vectorize(last, lanes)
            continue
        result = stores_in(last)[0].buffer
        _accumulate_in_registers(result, axis - 1, last, [blocks.combine], lanes)
        parallelize_outermost(others[0])
    parallelize(blocks.outer)


def _along(nest: Sequence[ForOp], buffer: SSAValue, axis: int) -> ForOp:
    """The loop of a nest that indexes a dim of a buffer."""
    access = accesses_to(buffer, nest[0])[0]
    return next(loop for loop in nest if axis in indexed_dims(access, loop))


def _accumulate_in_registers(
    sums: SSAValue, axis: int, row: ForOp, inside: Sequence[ForOp], lanes: int
) -> None:
    """Keeps a vector of a row of accumulators in registers while the loops inside add to it."""
    outer, inner, _ = tile_ragged(row, lanes)
    reorder(*inside, inner)
    staged = stage_tile(sums, outer, "registers")
    pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), axis))
    short = [loop for loop in inside[1:] if loop.reduction is None]
    for nest in (staged.load_in, [*short, inner], staged.write_back):
        unroll_tile(nest, lanes)
