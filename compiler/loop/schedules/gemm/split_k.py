"""Sums of products of which there are few, but of very many terms, as in the gradient of a layer's
weights: each block of terms has sums of its own, and blocks run in parallel.

    for i, j:                           for ko parallel:
      for k:                              for i, j:  p[ko, i, j] = 0
        t[i, j] += x[k, i] * y[k, j]  ->  for i, j:  for ki:  p[ko, i, j] += x[k, i] * y[k, j]
                                        for i, j:  for ko:  t[i, j] += p[ko, i, j]

An operand of long rows is then read a few pages at a time, rather than down all of its rows once
for each tile of columns. What becomes of the nests is left to the schedules of sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from compiler.loop.nest import accesses_in, perfect_nest, subscripts, weight_arguments
from compiler.loop.primitives import (
    Blocks,
    block_reduction,
    distribute,
    pack,
    parallelize,
    reorder,
    stage,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from compiler.loop.schedules.contraction import product_of
from compiler.loop.schedules.gemm.pack_panels import column_axis, columns_last
from compiler.loop.schedules.gemm.packed_buffers import read_ahead, write_out
from compiler.loop.schedules.innermost_loops import (
    lanes_of,
    parallelize_outermost,
    stride,
)
from compiler.target.target import Target
from dialects.expr import product
from dialects.loop.ops import ForOp, LoadOp, StoreOp
from dialects.loop.program import KernelOp
from dialects.loop.scalar import compute_type, is_float, width
from dialects.loop.types import buffer_type

NAME = "deep sums"

Factors = tuple[LoadOp, LoadOp, StoreOp]
"""Two factors, and the sum of their products."""

LEAST_BLOCKS = 16
"""Blocks that a pool shares evenly enough."""

ROWS = 16
"""Rows that are added up while a vector of sums is in a register."""

FACTORS = 4
"""Registers beside those of sums: for what is multiplied."""

LONG_ROW = 2
"""Vectors of a row whose sums registers hold."""

SMALL_SUMS = 16
"""Sums take at most that part of the memory that a block of terms takes."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Cuts every such sum of the kernel; yields once for each."""
    for op in list(kernel.body.block.ops):
        nest = perfect_nest(op) if isinstance(op, ForOp) else []
        found = plain_product(kernel, nest)
        size = None if found is None else _block_size(nest, found, target)
        if found is not None and size is not None:
            _apply(nest, found, size, target)
            yield NAME


def plain_product(kernel: KernelOp, nest: Sequence[ForOp]) -> Factors | None:
    """The loads and the store of a product of two matrices, neither of them a weight, by a nest of
    the rows, the columns and the terms, if all are floats of one type that is computed in.
    """
    if [loop.reduction is None for loop in nest] != [True, True, False]:
        return None
    found = product_of(nest[-1])
    if found is None:
        return None
    kinds = {access.buffer_type.element for access in found}
    element = found[-1].buffer_type.element
    loads = found[:2]
    plain = len(kinds) == 1 and is_float(element) and compute_type(element) == element
    weights = weight_arguments(kernel)
    moved = [[loop for loop in nest[:2] if moves(load, loop)] for load in loads]
    if not plain or any(load.buffer in weights for load in loads):
        return None
    apart = sorted(map(len, moved)) == [1, 1] and moved[0] != moved[1]
    return found if apart and loads[0].buffer is not loads[1].buffer else None


def moves(load: LoadOp, loop: ForOp) -> bool:
    """Whether a loop changes what is loaded."""
    return any(loop.index in expr.atoms() for expr in subscripts(load))


def _block_size(nest: Sequence[ForOp], found: Factors, target: Target) -> int | None:
    """How many terms a block has: about as many as the second cache holds, of what they read; None
    where that is not worth it, or sizes are not known.
    """
    *outer, terms = nest
    *loads, store = found
    count, sums = terms.extent.constant, product(loop.extent for loop in outer).constant
    bytes = [_bytes_of_term(load, outer, terms) for load in loads]
    term = sum(each or 0 for each in bytes)
    if count is None or sums is None or None in bytes or count * term < 2 * target.l2_bytes:
        return None
    most = min(target.l2_bytes // term, count // LEAST_BLOCKS) // ROWS * ROWS
    if sums * width(store.buffer_type.element) // 8 * SMALL_SUMS > most * term:
        return None
    whole = (size for size in range(most, most // 2, -ROWS) if count % size == 0)
    return next(whole, most)


def _bytes_of_term(load: LoadOp, outer: Sequence[ForOp], terms: ForOp) -> int | None:
    """The memory that a load goes through for one term: a row of a matrix, which a loop walks
    along; None where it is no such row.
    """
    along = next((loop for loop in outer if stride(load, loop) == 1), None)
    if along is None or stride(load, terms) != along.extent:
        return None
    return (along.extent.constant or 0) * width(load.buffer_type.element) // 8


def _apply(nest: Sequence[ForOp], found: Factors, size: int, target: Target) -> None:
    """Cuts the sum into blocks, which go through memory as it lies where rows are long."""
    *loads, store = found
    terms, *outer = reorder(nest[-1], *nest[:-1])
    blocks = block_reduction(terms, size)
    lanes = lanes_of([blocks.outer], target)
    column, row = sorted(outer, key=lambda loop: loop.extent.constant or 0)
    fits = (column.extent.constant or 0) + FACTORS <= target.vector_registers
    if fits and (row.extent.constant or 0) > LONG_ROW * lanes:
        x = next(load.buffer for load in loads if moves(load, row))
        _add_rows(blocks, (x, store), (row, column), lanes)
        return
    distribute(blocks.outer, blocks.inner)
    reorder(*outer, blocks.inner)
    reorder(*perfect_nest(blocks.combine)[1:], blocks.combine)


def _add_rows(
    blocks: Blocks, buffers: tuple[SSAValue, StoreOp], loops: tuple[ForOp, ForOp], lanes: int
) -> None:
    """Adds a few rows of terms at a time to all sums of a block, which stay in a near cache."""
    (x, store), (row, column) = buffers, loops
    axis = column_axis(store, row)
    assert axis is not None, "a row of sums lies along one dim"
    partial = pack(store.buffer, columns_last(buffer_type(store.buffer), axis))
    around, inside, _ = tile(blocks.inner, ROWS)
    reorder(around, row, inside, column)
    _in_registers(partial, axis, row, [inside, column], lanes)
    read_ahead(x, inside, around, lanes, cache="first")
    unroll(inside)
    fill = next(op for op in blocks.outer.body.block.ops if isinstance(op, ForOp))
    for nest in (perfect_nest(fill), perfect_nest(blocks.combine)):
        last = _along(nest, partial, axis)
        others = [loop for loop in nest if loop not in (last, blocks.combine)]
        reorder(*others, last, *(loop for loop in nest if loop is blocks.combine))
        if nest[0] is fill:
            vectorize(last, lanes)
            continue
        result = next(each.buffer for each in accesses_in(last) if isinstance(each, StoreOp))
        _in_registers(result, axis - 1, last, [blocks.combine], lanes)
        parallelize_outermost(others[0])
    parallelize(blocks.outer)


def _along(nest: Sequence[ForOp], buffer: SSAValue, axis: int) -> ForOp:
    """The loop of a nest that moves along an axis of a buffer."""
    access = next(each for each in accesses_in(nest[0]) if each.buffer is buffer)
    return next(loop for loop in nest if loop.index in subscripts(access)[axis].atoms())


def _in_registers(
    sums: SSAValue, axis: int, row: ForOp, inside: Sequence[ForOp], lanes: int
) -> None:
    """Has a vector of a row of sums in registers, while the loops inside add terms to it."""
    outer, inner, _ = tile_ragged(row, lanes)
    reorder(*inside, inner)
    staged = stage(sums, outer, "registers")
    pack(staged.buffer, columns_last(buffer_type(staged.buffer), axis))
    short = [loop for loop in inside[1:] if loop.reduction is None]
    for nest in (staged.load_in, [*short, inner], staged.write_back):
        write_out(nest, lanes)
