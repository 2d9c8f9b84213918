"""tile, split_at, normalize and collapse keep the answer and refuse what they cannot do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DictionaryAttr

from tests.compiler.loop.kernels import convolution, kernel, loops, matmul, pointwise, row_sum, same
from weft.compiler.loop.nest import loops_in
from weft.compiler.loop.primitives import (
    collapse,
    normalize_loop,
    parallelize,
    reorder,
    split_at,
    tile,
    tile_ragged,
    unroll,
)
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import BOUNDS
from weft.dialects.loop.types import ExprsAttr

SIZES = st.integers(1, 9)
EXTENTS = st.integers(2, 9)  # one iteration is no loop


@given(rows=EXTENTS, columns=EXTENTS, size=SIZES, name=st.sampled_from("ijk"))
def test_tile_of_any_size_keeps_the_product(rows: int, columns: int, size: int, name: str):
    op = matmul(rows, columns, 4)
    (loop,) = loops(op, name)
    if loop.extent.constant < size:
        with pytest.raises(IllegalSchedule, match="tile requires at least"):
            tile(loop, size)
        return
    tiles = tile(loop, size)
    assert (tiles.remainder is None) == ({"i": rows, "j": columns, "k": 4}[name] % size == 0)
    same(matmul(rows, columns, 4), op)


@given(n=st.integers(0, 20), size=SIZES)
def test_tile_of_a_symbolic_loop_runs_whole_tiles_and_a_remainder(n: int, size: int):
    op = pointwise("n", 3, ["n"])
    tiles = tile(loops(op, "i")[0], size)
    assert tiles.outer.extent == Expr.of("n") // size
    same(pointwise("n", 3, ["n"]), op, n=n)


@given(n=st.integers(0, 20), size=SIZES)
def test_tile_ragged_runs_a_shorter_last_tile(n: int, size: int):
    op = pointwise("n", 3, ["n"])
    tiles = tile_ragged(loops(op, "i")[0], size)
    assert tiles.remainder is None
    parallelize(tiles.outer)
    same(pointwise("n", 3, ["n"]), op, n=n)


@given(size=SIZES, name=st.sampled_from("ijk"))
def test_tile_ragged_of_any_size_keeps_the_product(size: int, name: str):
    op = matmul(5, 7, 4)
    tiles = tile_ragged(loops(op, name)[0], size)
    assert tiles.outer.extent == -(-{"i": 5, "j": 7, "k": 4}[name] // size)
    same(matmul(5, 7, 4), op)


def test_collapse_keeps_what_both_loops_are():
    op = pointwise("n", 4, ["n"])
    i, j = loops(op, "i", "j")
    parallelize(i)
    parallelize(j)
    assert collapse(i, j).hints() == ["parallel"]
    same(pointwise("n", 4, ["n"]), op, n=3)


def test_collapse_refuses_one_parallel_loop():
    i, j = loops(pointwise(), "i", "j")
    parallelize(i)
    with pytest.raises(IllegalSchedule, match="collapse requires a loop without marks"):
        collapse(i, j)


def test_collapse_refuses_a_loop_that_never_runs():
    op = pointwise("n", 4, ["n"])
    op.attributes[BOUNDS] = DictionaryAttr({"n": ExprsAttr((Expr.of(1), Expr.of(7)))})
    tiles = tile(loops(op, "i")[0], 8)
    inner, outer = reorder(tiles.inner, tiles.outer)
    with pytest.raises(IllegalSchedule, match="collapse requires a loop that may run"):
        collapse(inner, outer)


def test_tile_ragged_is_exact_where_the_size_divides():
    tiles = tile_ragged(loops(row_sum(2, 8), "k")[0], 4)
    assert (tiles.outer.extent, tiles.inner.extent) == (2, 4)


def test_ragged_tiles_of_one_iteration_are_whole():
    op = pointwise("n", 3, ["n"])
    assert tile_ragged(loops(op, "i")[0], 1).inner.extent == 1


def test_reorder_brings_ragged_tiles_of_a_product_outside():
    op = matmul("n", 10, 5, ["n"])
    i, j = loops(op, "i", "j")
    tiles = tile_ragged(i, 4)
    reorder(j, tiles.outer, tiles.inner)
    same(matmul("n", 10, 5, ["n"]), op, n=11)


def test_tile_ragged_refuses_a_loop_with_marks():
    (loop,) = loops(row_sum(), "k")
    unroll(loop)
    with pytest.raises(IllegalSchedule, match="tile_ragged requires a loop without marks"):
        tile_ragged(loop, 2)


def test_tile_twice_and_of_the_remainder():
    op = matmul(23, 5, 3)
    tiles = tile(loops(op, "i")[0], 8)
    tile(tiles.inner, 4)
    tile(tiles.remainder, 3)
    same(matmul(23, 5, 3), op)


def test_tile_keeps_the_permission_to_reassociate():
    tiles = tile(loops(row_sum(), "k")[0], 4)
    assert [loop.reduction.data for loop in tiles] == ["add"] * 3


def test_tile_names_its_loops_after_the_old_one():
    tiles = tile(loops(row_sum(), "k")[0], 4)
    assert [loop.index.name_hint for loop in tiles] == ["ko", "ki", "kr"]


def test_tile_refuses_a_loop_with_marks():
    (loop,) = loops(row_sum(), "k")
    unroll(loop)
    with pytest.raises(IllegalSchedule, match="tile requires a loop without marks"):
        tile(loop, 2)


@given(n=EXTENTS, point=st.integers(-1, 10))
def test_split_at_any_point_of_the_loop_keeps_the_sum(n: int, point: int):
    op = row_sum(2, n)
    (loop,) = loops(op, "k")
    if not 0 <= point <= n:
        with pytest.raises(IllegalSchedule, match="split_at requires a point within the loop"):
            split_at(loop, point)
        return
    split_at(loop, point)
    same(row_sum(2, n), op)


def test_split_at_refuses_a_point_that_a_symbolic_loop_may_lack():
    (loop,) = loops(row_sum(2, "n", ["n"]), "k")
    with pytest.raises(IllegalSchedule, match="got 3 of n"):
        split_at(loop, 3)


def strided():
    def odd(b: LoopBuilder, x, y):
        loop = b.builder.insert(ForOp.of(1, 12, step=4))
        inner = LoopBuilder(loop.body.block)
        index = Expr.atom(loop.index)
        inner.store(y, (index,), inner.load(x, (11 - index,)) + 1)

    return kernel(odd, x=[12], y=[12])


def test_normalize_counts_from_zero():
    op = strided()
    loop = normalize_loop(loops_in(op)[0])
    assert (loop.lower, loop.upper, loop.step.data) == (0, 3, 1)
    same(strided(), op)


def test_tile_of_a_strided_loop():
    op = strided()
    tile(loops_in(op)[0], 2)
    same(strided(), op)


@given(rows=EXTENTS, columns=EXTENTS)
def test_collapse_visits_each_pair_in_order(rows: int, columns: int):
    op = pointwise(rows, columns)
    assert collapse(*loops(op, "i", "j")).extent == rows * columns
    collapse(*loops(op, "m", "n"))
    same(pointwise(rows, columns), op)


@given(n=st.integers(0, 5), m=st.integers(1, 5))
def test_collapse_of_symbolic_loops(n: int, m: int):
    op = pointwise("n", "m", ["n", "m"])
    collapse(*loops(op, "m", "n"))
    same(pointwise("n", "m", ["n", "m"]), op, n=n, m=m)


def test_collapse_then_tile_of_three_reduction_loops():
    op = convolution()
    outer, middle, inner = loops(op, "c", "r", "s")
    merged = collapse(collapse(outer, middle), inner)
    assert merged.reduction.data == "add"
    tile(merged, 4)
    same(convolution(), op)


def test_collapse_gives_linear_addresses():
    op = pointwise()
    merged = collapse(*loops(op, "i", "j"))
    (load, _, _, store) = merged.body.block.ops
    for access in (load, store):
        assert access.buffer_type.address(access.index) == Expr.atom(merged.index)


def test_collapse_refuses_what_stands_between():
    op = matmul()
    with pytest.raises(IllegalSchedule, match="perfectly nested"):
        collapse(*loops(op, "j", "k"))


def test_collapse_refuses_a_triangle():
    def triangle(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,), b.loops([i], "j") as (j,):
            b.store(x, (i, j), b.constant(1, x.type.element))

    op = kernel(triangle, x=[4, 4])
    with pytest.raises(IllegalSchedule, match="rectangular"):
        collapse(*loops(op, "i", "j"))
