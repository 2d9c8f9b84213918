"""block_reduction, stage_accumulators and the halves of split_reduction: any length, the same
answer after.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from tests.compiler.loop.kernels import kernel, loops, product, row_sum, same
from weft.compiler.loop.nest import loops_in
from weft.compiler.loop.primitives import (
    block_reduction,
    parallelize,
    reorder,
    split_reduction,
    stage_accumulators,
    tile,
    tile_ragged,
    vectorize,
)
from weft.compiler.loop.references import find_buffer
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.program import KernelOp


def whole_sum(size: int | str, symbols: Sequence[str] = ()) -> KernelOp:
    """y[0] += sum over k of x[k]."""

    def total(b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        with b.reduce([size], "add", "k") as (k,):
            b.store(y, (0,), b.load(y, (0,)) + b.load(x, (k,)))

    return kernel(total, symbols, x=[size], y=[1])


@given(size=st.integers(2, 20), block=st.integers(1, 20))
def test_block_reduction_of_any_length(size: int, block: int) -> None:
    op = whole_sum(size)
    (loop,) = loops(op, "k")
    if size < block:
        with pytest.raises(IllegalSchedule, match="tile requires"):
            block_reduction(loop, block)
        return
    parallelize(block_reduction(loop, block).outer)
    same(whole_sum(size), op)


@given(size=st.integers(2, 20), block=st.integers(1, 20))
def test_block_reduction_around_other_loops(size: int, block: int) -> None:
    op = product(3, 2, size)
    i, j, k = loops_in(op)[-3:]
    outer, *_ = reorder(k, i, j)
    if size < block:
        with pytest.raises(IllegalSchedule, match="tile requires"):
            block_reduction(outer, block)
        return
    parallelize(block_reduction(outer, block).outer)
    same(product(3, 2, size), op)


@given(n=st.integers(0, 20))
def test_block_reduction_of_a_symbolic_length(n: int) -> None:
    op = whole_sum("n", ["n"])
    block_reduction(loops(op, "k")[0], 4)
    same(whole_sum("n", ["n"]), op, n=n)


@given(size=st.integers(16, 40), parts=st.integers(1, 16))
def test_what_is_left_joins_the_partial_results(size: int, parts: int) -> None:
    op = row_sum(2, size)
    split = split_reduction(loops(op, "k")[0], parts)
    for loop in (split.remainder, *split.halvings):
        if loop is not None:
            vectorize(loop, 4)
    same(row_sum(2, size), op)


@given(n=st.integers(0, 40), rest=st.sampled_from([None, 1, 2, 4]))
def test_what_is_left_of_a_symbolic_length_joins_fewer(n: int, rest: int | None) -> None:
    op = whole_sum("n", ["n"])
    split = split_reduction(loops(op, "k")[0], 8, rest=rest)
    if rest == 4:
        for loop in (split.inner, split.rest, split.remainder):
            assert loop is not None
            vectorize(loop, 4)
    same(whole_sum("n", ["n"]), op, n=n)


@given(depth=st.integers(2, 20), block=st.integers(1, 8), rows=st.integers(2, 4))
def test_partial_sums_of_blocks_of_a_product(depth: int, block: int, rows: int) -> None:
    op = product(rows, 5, depth)
    i, j, k = loops_in(op)[-3:]
    blocks = tile(k, block) if depth % block == 0 else tile_ragged(k, block)
    reorder(blocks.outer, blocks.inner, i, j)
    staged = stage_accumulators(find_buffer(op, "out"), blocks.outer)
    assert len(staged.load_in) == len(staged.write_back) == 2
    same(product(rows, 5, depth), op)


@given(n=st.integers(0, 20))
def test_partial_sums_of_a_symbolic_length(n: int) -> None:
    op = whole_sum("n", ["n"])
    blocks = tile_ragged(loops(op, "k")[0], 4)
    stage_accumulators(find_buffer(op, "y"), blocks.outer)
    same(whole_sum("n", ["n"]), op, n=n)


def test_partial_sums_of_partial_sums() -> None:
    op = product(3, 4, 16)
    i, j, k = loops_in(op)[-3:]
    outer, rest, _ = tile(k, 8)
    middle, inner, _ = tile(rest, 2)
    reorder(outer, middle, inner, i, j)
    sums = stage_accumulators(find_buffer(op, "out"), outer).buffer
    stage_accumulators(sums, middle)
    same(product(3, 4, 16), op)
