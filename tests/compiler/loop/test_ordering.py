"""reorder, distribute and hoist keep the answer; carried dependences are refused."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.loop.kernels import convolution, kernel, loops, matmul, pointwise, row_sum, same
from weft.compiler.loop.nest import accesses_in, loops_in
from weft.compiler.loop.primitives import distribute, hoist, reorder, tile
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import LoadOp
from weft.dialects.loop.scalar import F32


def update_nest(depth: int = 4, *, strict: bool = False):
    """C[i, j] += A[i, k] * B[k, j] as one perfect nest."""

    def mm(b: LoopBuilder, lhs, rhs, out):
        b.strict = strict
        with b.loops([3, 4], "ij") as (i, j), b.reduce([depth], "add", "k") as (k,):
            b.store(out, (i, j), b.load(out, (i, j)) + b.load(lhs, (i, k)) * b.load(rhs, (k, j)))

    return kernel(mm, A=[3, depth], B=[depth, 4], C=[3, 4])


@pytest.mark.parametrize("order", list(permutations("ijk")), ids="".join)
def test_reorder_brings_a_contraction_into_any_order(order: tuple[str, ...]):
    op = update_nest()
    reorder(*loops(op, *order))
    assert [loop.index.name_hint for loop in loops_in(op)] == list(order)
    same(update_nest(), op)


@given(
    rows=st.sampled_from([1, 3]),
    columns=st.sampled_from([1, 2, 4]),
    depth=st.sampled_from([1, 2, 4]),
    order=st.permutations(range(6)),
)
def test_reorder_of_tiled_loops_keeps_the_answer(
    rows: int, columns: int, depth: int, order: list[int]
):
    op = update_nest()
    nest = [
        part
        for loop, size in zip(loops(op, "i", "j", "k"), (rows, columns, depth), strict=True)
        for part in tile(loop, size)[:2]
    ]
    reorder(*(nest[position] for position in order))
    same(update_nest(), op)


def test_reorder_of_a_symbolic_matrix():
    op = pointwise("n", "m", ["n", "m"])
    reorder(*loops(op, "n", "m"))
    same(pointwise("n", "m", ["n", "m"]), op, n=3, m=4)


def test_reorder_of_reduction_loops_needs_their_permission():
    reorder(*loops(convolution(), "s", "c", "r"))
    op = update_nest(strict=True)
    tiles = tile(loops(op, "k")[0], 2)
    with pytest.raises(IllegalSchedule, match="reorder requires an order that keeps"):
        reorder(tiles.inner, tiles.outer)


def skewed():
    """x[i + 1, j] = x[i, j + 1]: the second direction runs backwards."""

    def skew(b: LoopBuilder, x):
        with b.loops([4, 4], "ij") as (i, j):
            b.store(x, (i + 1, j), b.load(x, (i, j + 1)))

    return kernel(skew, x=[5, 5])


def test_reorder_refuses_a_skewed_dependence_and_names_the_accesses():
    with pytest.raises(IllegalSchedule, match=r"got loop.load of %x\[%i, %j \+ 1\] and loop.store"):
        reorder(*loops(skewed(), "j", "i"))


def test_reorder_accepts_a_dependence_along_one_axis():
    def along(b: LoopBuilder, x):
        with b.loops([4, 4], "ij") as (i, j):
            b.store(x, (i + 1, j), b.load(x, (i, j)) + 1)

    op = kernel(along, x=[5, 4])
    reorder(*loops(op, "j", "i"))
    same(kernel(along, x=[5, 4]), op)


def test_reorder_refuses_what_is_no_perfect_nest():
    with pytest.raises(IllegalSchedule, match="perfectly nested"):
        reorder(*loops(matmul(), "k", "j"))


def test_reorder_refuses_bounds_over_a_later_index():
    def triangle(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,), b.loops([i + 1], "j") as (j,):
            b.store(x, (i, j), b.constant(1, F32))

    with pytest.raises(IllegalSchedule, match="bounds over outer indices only"):
        reorder(*loops(kernel(triangle, x=[4, 4]), "j", "i"))


def test_distribute_separates_initialisation_and_sum():
    op = matmul()
    k = loops(op, "k")[0]
    i, j = loops(op, "i", "j")
    second = distribute(j, k)
    distribute(i, second)
    assert [loop.index.name_hint for loop in loops_in(op)][:5] == ["i", "j", "i", "j", "k"]
    same(matmul(), op)


def test_distribute_copies_the_constants_that_both_parts_use():
    def two(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            one = b.constant(1, F32)
            b.store(x, (i,), one)
            b.store(y, (i,), one + one)

    op = kernel(two, x=[4], y=[4])
    (loop,) = loops_in(op)
    distribute(loop, accesses_in(loop)[1])
    same(kernel(two, x=[4], y=[4]), op)


def test_distribute_refuses_a_value_that_crosses():
    (loop,) = loops(pointwise(), "j")
    with pytest.raises(IllegalSchedule, match="share only constants"):
        distribute(loop, accesses_in(loop)[-1])


def test_distribute_refuses_a_first_part_that_needs_the_second():
    def back(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(y, (i,), b.load(x, (i,)))
            b.store(x, (i + 1,), b.constant(1, F32))

    op = kernel(back, x=[5], y=[4])
    (loop,) = loops_in(op)
    with pytest.raises(IllegalSchedule, match="no dependence of the first part on the second"):
        distribute(loop, accesses_in(loop)[-1].prev_op)


def test_distribute_accepts_a_second_part_that_needs_the_first():
    def onward(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(x, (i + 1,), b.constant(1, F32))
            b.store(y, (i,), b.load(x, (i,)))

    op = kernel(onward, x=[5], y=[4])
    (loop,) = loops_in(op)
    distribute(loop, accesses_in(loop)[1])
    same(kernel(onward, x=[5], y=[4]), op)


def scaled(n=3):
    def scale(b: LoopBuilder, x, s, y):
        with b.loops([2, n], "ij") as (i, j):
            b.store(y, (i, j), b.load(x, (i, j)) * b.load(s, (i,)))

    return kernel(scale, ["n"], x=[2, n], s=[2], y=[2, n])


def test_hoist_moves_an_invariant_load():
    op = scaled()
    inner = loops(op, "j")[0]
    load = hoist(next(a for a in accesses_in(inner) if a.buffer.name_hint == "s"))
    assert load.next_op is inner
    same(scaled(), op, n=3)


def test_hoist_refuses_a_load_that_may_never_run():
    inner = loops(scaled("n"), "j")[0]
    with pytest.raises(IllegalSchedule, match="runs at least once"):
        hoist(next(a for a in accesses_in(inner) if a.buffer.name_hint == "s"))


def test_hoist_refuses_what_the_loop_changes():
    inner = loops(row_sum(), "k")[0]
    with pytest.raises(IllegalSchedule, match="does not store what is loaded"):
        hoist(next(op for op in inner.body.block.ops if isinstance(op, LoadOp)))
