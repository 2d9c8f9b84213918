"""GEMV, one row times a row-major matrix: a few rows of the matrix at once are read from one end to
the other, each a stream to the prefetcher, and added to accumulators that stay in L1.

    for jc parallel:
        for ko:  for jp:
            acc[128] = 0;  for ki < 8 unroll:  acc += x[8 ko + ki] * W[8 ko + ki, j];  y += acc
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from weft.compiler.loop.nest import perfect_nest
from weft.compiler.loop.primitives import (
    reorder,
    stage_accumulators,
    tile,
    tile_ragged,
    unroll,
    vectorize,
)
from weft.dialects.loop.ops import ForOp

ROWS = 8
"""Rows of the matrix that are read at once; each is a stream to the prefetcher."""

BLOCK = 1024
"""Columns of a block: long enough runs for the prefetcher, few enough that threads have some."""


def block_columns(
    chain: Sequence[ForOp], batch: int, size: int
) -> tuple[list[ForOp], ForOp, ForOp]:
    """Tiles of columns in blocks that are tasks for threads; returns the loops around a block, and
    those over its tiles and their columns.
    """
    columns, *others = chain
    jo, ji, _ = tile(columns, size)
    jc, jp, _ = tile_ragged(jo, max(1, BLOCK // size), names=("jc", "jp"))
    around = [*others[:batch], jc, *others[batch:]]
    reorder(*around, jp, ji)
    return around, jp, ji


def stream_rows(jp: ForOp, ji: ForOp, result: SSAValue, lanes: int) -> None:
    """Adds the rows of a block, some at a time; the loop over all of them is around the two."""
    rows = jp.parent_op()
    assert isinstance(rows, ForOp), "the reduction is the loop around the tiles"
    ko, ki, rest = tile(rows, ROWS)
    if rest is not None:
        vectorize_columns(perfect_nest(rest)[-1], lanes)
    reorder(ko, jp, ki, ji)
    staged = stage_accumulators(result, jp)
    for loops in ((ji,), staged.load_in, staged.write_back):
        vectorize_columns(loops[-1], lanes)
    unroll(ki)


def vectorize_columns(loop: ForOp, lanes: int) -> None:
    """Unrolls a tile's columns as vectors."""
    unroll(vectorize(loop, lanes))
