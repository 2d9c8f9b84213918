"""Products with codes of a few bits: lanes are vectors, and the rows that share a panel of unpacked
codes are computed in register tiles. Tiles of columns run in parallel.

    for t parallel:  for c:
        for g:  for l vector unroll:  panel[.., l] = unpack(codes[t, g, l])
        for mo:  a register tile of x[mo..] and the panel

The next panel's words are unpacked among products of tiles in registers, which leave vectors idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from xdsl.dialects import arith
from xdsl.ir import Operation

from weft.compiler.loop.matchers import dot_of_words, split_nest, sum_of_products
from weft.compiler.loop.nest import child_loops, loads_in, loops_in, perfect_nest, subscripts
from weft.compiler.loop.primitives import (
    compute_among,
    matrix_product,
    parallelize,
    prefetch,
    reorder,
    unroll,
    vectorize,
)
from weft.compiler.loop.schedules.gemm.plan import Plan
from weft.compiler.loop.schedules.gemm.register_tile import (
    pipeline_tiles,
    split_tile_rows,
    tile_rows,
)
from weft.compiler.loop.schedules.innermost_loops import lanes_for, nests_and_branches
from weft.compiler.target.target import Target
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.arithmetic import FieldOp, PackBf16Op
from weft.dialects.loop.ops import ForOp, LoadOp, enclosing_loops
from weft.dialects.loop.program import KernelOp

NAME = "block-quantized"

LANES = 32
"""Columns of a tile."""

REST = 4
"""Registers that hold no accumulators."""

PREFETCH_DISTANCE = 16
"""Words of each column that are prefetched, 2 KB: behind so many operations on each line too few
are under way otherwise, and those of the next page come late.
"""

WORD_TERMS = 2
"""Numbers of bf16 in a word."""

LOOPS_OF_WORDS = 3
"""Over rows, lanes and words, inside of those over what is added up."""

SHORT = 8
"""Iterations of a loop around lanes that is unrolled: words of a block, and rows that share one."""


def apply_all(kernel: KernelOp, target: Target) -> Iterator[str]:
    """Schedules every nest that makes or unpacks words and has no marks yet, those inside branches
    too.
    """
    for loop in nests_and_branches(kernel):
        if not loop.hints() and matches(loop):
            apply(loop, target)
            yield NAME


def matches(loop: ForOp) -> bool:
    """Whether a nest takes words apart, of which it shifts those that it loads for a column of each
    lane, or does nothing but make some.
    """
    if any(_is_taken_apart(load) for load in loads_in(loop)):
        return True
    last = perfect_nest(loop)[-1]
    return any(isinstance(op, PackBf16Op) for op in last.body.block.ops)


def _is_taken_apart(load: LoadOp) -> bool:
    rank = load.buffer_type.rank
    words = rank == 3 and load.buffer_type.shape[2] == LANES
    return words and any(_is_of_bits(use.operation) for use in load.result.uses)


def _is_of_bits(op: Operation) -> bool:
    return isinstance(op, FieldOp | arith.ShRUIOp | arith.AndIOp)


def apply(nest: ForOp, target: Target) -> None:
    """Tiles the products with panels, prefetches codes, and marks all other loops."""
    for load in filter(_is_taken_apart, loads_in(nest)):
        *around, _ = enclosing_loops(load)
        if around and around[-1].index in load.operands_:  # else rows share what is loaded
            prefetch(load, around[-1], PREFETCH_DISTANCE)
    for loop in _products_of_words(nest):
        _multiply_words(loop, target)
        if loop.matrix is not None and isinstance(loop.next_op, ForOp) and matches(loop.next_op):
            compute_among(loop.next_op, loop)
    pipeline_tiles(nest, target)
    for chain in _products(nest):
        _tile_product(chain, target)
    for loop in loops_in(nest):
        if loop.vector is not None or loop.unroll is not None or loop.reduction is not None:
            continue
        extent = loop.extent.constant or 0
        if not loops_in(loop) and 1 < extent <= LANES:
            unroll(vectorize(loop, lanes_for(loop, target)))
        elif 1 < extent <= SHORT and _is_small(loop):
            unroll(loop)
    for loop in _tiles_of_columns(nest) or [nest]:
        with suppress(IllegalSchedule):  # a single tile
            parallelize(loop)


def _tiles_of_columns(nest: ForOp) -> list[ForOp]:
    """The loops over tiles of columns, of which each has codes of its own."""
    tiles = [
        loop
        for load in filter(_is_taken_apart, loads_in(nest))
        for loop in enclosing_loops(load)
        if loop.index in subscripts(load)[0].atoms()
    ]
    return list(dict.fromkeys(tiles))


def _is_small(loop: ForOp) -> bool:
    """Whether a loop holds one over lanes alone."""
    return len(loops_in(loop)) == 1 and not loops_in(loops_in(loop)[0])


def _products_of_words(nest: ForOp) -> list[ForOp]:
    """The nests inside that add products of words up: the loops over groups of words."""
    return [
        loop
        for loop in loops_in(nest)
        if loop.reduction is not None
        and dot_of_words(perfect_nest(loop)[-1]) is not None
        and len(perfect_nest(loop)) > LOOPS_OF_WORDS
        and enclosing_loops(loop)[-1].reduction is None
    ]


def _multiply_words(groups: ForOp, target: Target) -> None:
    """Multiplies a tile in registers that hold tiles of matrices, or lanes of words one by one."""
    _, *steps, rows, lanes, words = perfect_nest(groups)
    if target.has_matrix_products(WORD_TERMS):
        matrix_product(groups)
        for step in steps:
            unroll(step)
    else:
        reorder(rows, words, lanes)


def _products(nest: ForOp) -> list[list[ForOp]]:
    """The nests inside that add products up."""
    chains = [
        perfect_nest(loop) for outer in (nest, *loops_in(nest)) for loop in child_loops(outer)
    ]
    return [
        chain
        for chain in chains
        if sum_of_products(chain[-1]) is not None
        and split_nest(chain) is not None
        and len(chain) == 3
    ]


def _tile_product(chain: list[ForOp], target: Target) -> None:
    """Rows by the columns of a tile, in registers."""
    lanes = target.lanes(4)
    vectors = max(1, LANES // lanes)
    rows = max(1, (target.vector_registers - REST) // vectors)
    rows = min(rows, chain[0].extent.constant or rows)
    width = chain[1].extent.constant or LANES
    plan = Plan(column=1, row=0, panel=1, rows=rows, vectors=vectors, lanes=min(lanes, width))
    found = sum_of_products(chain[-1])
    assert found is not None, "the nest was found to add products up"
    result = found.store.buffer
    for part in split_tile_rows(chain[:2], plan):
        tile_rows(part, plan, target, result)
