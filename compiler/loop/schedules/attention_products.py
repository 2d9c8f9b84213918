"""The register tiles of both products of an attention: the lanes of the scores are rows, those of
the result columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiler.loop.nest import accesses_to, child_loops, indexed_dims, perfect_nest, stores_in
from weft.compiler.loop.primitives import (
    dim_innermost,
    distribute,
    pack,
    reorder,
    split_at,
    stage_accumulators,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.gemm.blocked_summation import block_long_sum, block_of
from weft.compiler.loop.schedules.gemm.plan import LONGEST_SUM
from weft.compiler.loop.schedules.gemm.unroll_tile import register_accesses, unroll_k
from weft.compiler.loop.schedules.innermost_loops import lanes_for, vectorize_innermost
from weft.compiler.loop.strides import stride
from weft.compiler.target.target import Target
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.types import buffer_type_of

VECTORS = 2
"""Vectors of a block's rows, and of the columns that the last product computes together."""

ROWS = 8
"""The most rows of a register tile, as far as there are registers for so many."""


def tile_height(target: Target) -> int:
    """Rows of a tile whose accumulators fit the registers, beside a row of vectors and factors."""
    return max(1, min(ROWS, (target.vector_registers - target.factor_registers) // VECTORS - 1))


def _even_parts(loop: ForOp, most: int) -> list[tuple[ForOp, int]]:
    """The loop as tiles of `most` iterations, or of about one size: a short one keeps no unit
    busy.
    """
    extent = loop.extent.constant
    if extent is None or extent % most == 0:
        return parts(loop, most)
    tiles = -(-extent // most)
    size, larger = extent // tiles, extent % tiles
    if larger == 0:
        return [(loop, size)]
    first, rest = split_at(loop, (size + 1) * larger)
    return [(first, size + 1), (rest, size)]


def parts(loop: ForOp, size: int) -> list[tuple[ForOp, int]]:
    """The loop as whole tiles, and as one that is shorter, or as single iterations."""
    extent = loop.extent.constant
    if extent is not None and extent <= size:
        return [(loop, extent)]
    whole, left = loop.extent // size * size, (loop.extent % size).constant
    if left == 0:
        return [(loop, size)]
    main, rest = split_at(loop, whole)
    return [(main, size), (rest, left or 1)]


def splits_k(k_loop: ForOp, target: Target) -> bool:
    """Whether K is split into blocks, for each of which all tiles of a block of rows are computed:
    it is long, and registers are so few that each element along K is read for many tiles.
    """
    return (k_loop.extent.constant or 0) > LONGEST_SUM and tile_height(target) < ROWS


def schedule_scores(rows: ForOp, target: Target) -> None:
    """Computes the scores in tiles of a few columns, all rows of the block in vectors."""
    _, columns = perfect_nest(rows)[:2]
    reorder(columns, rows)
    for part, size in _even_parts(columns, tile_height(target)):
        tiles = tile(part, size)
        inner = perfect_nest(tiles.inner)
        _accumulate(tiles.outer, inner[:2], target)


def schedule_result(rows: ForOp, target: Target) -> None:
    """Computes the result in tiles of a few rows and vectors of columns; a long K in blocks, which
    stay in L1 for all of them.
    """
    columns = perfect_nest(rows)[1]
    k_loop = child_loops(columns)[0]
    if splits_k(k_loop, target):
        second = distribute(columns, k_loop)
        first = distribute(rows, second)
        vectorize_innermost(rows, target)
        block = block_of(k_loop, LONGEST_SUM)
        _, columns, *_ = reorder(block, second, first, perfect_nest(block)[1])
    else:
        reorder(columns, rows)
    for block, length in parts(columns, VECTORS * target.lanes(4)):
        inner = tile(block, length).inner
        row = perfect_nest(inner)[1]
        reorder(row, inner)
        for part, size in _even_parts(row, tile_height(target)):
            tiles = tile(part, size)
            _accumulate(tiles.outer, perfect_nest(tiles.inner)[:2], target)


def _accumulate(tile: ForOp, inner: list[ForOp], target: Target) -> None:
    """Keeps the accumulators of a tile in registers: their initialisation, the product and the
    stores are unrolled.
    """
    product = inner
    k_loop = child_loops(inner[-1])[0]
    starts = k_loop.prev_op is not None
    if starts:
        second = distribute(inner[1], k_loop)
        product = [distribute(inner[0], second), second]
    result = stores_in(k_loop)[0].buffer
    reorder(k_loop, *product)
    staged = stage_tile(result, tile) if starts else stage_accumulators(result, tile)
    columns = next(
        axis
        for access in accesses_to(staged.buffer, k_loop)
        for axis in indexed_dims(access, product[1])
    )
    accumulators = pack(staged.buffer, dim_innermost(buffer_type_of(staged.buffer), columns))
    partial = block_long_sum([k_loop], accumulators, LONGEST_SUM) if starts else [staged.load_in]
    nests = [inner, product] if starts else [product]
    for nest in (*nests, list(staged.write_back), *map(list, partial)):
        _unroll(nest, target)
    if tile_height(target) < ROWS:
        unroll_k(tile)


def _unroll(nest: Sequence[ForOp], target: Target) -> None:
    """Unrolls the loops of a tile, the one over contiguous elements as vectors."""
    along = [
        loop
        for loop in nest
        if all(stride(access, loop) in (0, 1) for access in register_accesses(loop))
    ]
    rest = [loop for loop in nest if loop not in along[-1:]]
    if len(nest) > 1:
        reorder(*rest, *along[-1:])
    for loop in along[-1:]:
        vectorize(loop, lanes_for(loop, target))
    for loop in nest:
        unroll(loop)
