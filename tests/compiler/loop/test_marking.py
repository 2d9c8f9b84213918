"""vectorize, unroll, parallelize and pack accept listed loops and refuse listed dependences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Block

from tests.compiler.loop.kernels import (
    convolution,
    gather,
    kernel,
    loops,
    matmul,
    pointwise,
    prefix_sum,
    row_sum,
    same,
    scatter,
    softmax,
)
from weft.compiler.loop.primitives import (
    collapse,
    distribute,
    pack,
    panels,
    parallelize,
    prefetch,
    reorder,
    stage_tile,
    tile,
    unroll,
    vectorize,
)
from weft.compiler.loop.references import find_buffer
from weft.dialects.errors import IllegalSchedule
from weft.dialects.expr import Expr
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import ConditionOp, LoadOp, WhileOp
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.scalar import F32


def transposed() -> KernelOp:
    def tr(b: LoopBuilder, x, y):
        with b.loops([3, 4], "ij") as (i, j):
            b.store(y, (j, i), b.load(x, (i, j)))

    return kernel(tr, x=[3, 4], y=[4, 3])


def even_to_odd() -> KernelOp:
    """x[2 i + 1] = x[2 i]: apart by the divisor."""

    def eo(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,):
            b.store(x, (2 * i + 1,), b.load(x, (2 * i,)))

    return kernel(eo, x=[8])


def low_to_high() -> KernelOp:
    """x[i + 4] = x[i] for i < 4: apart by the bounds."""

    def lh(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,):
            b.store(x, (i + 4,), b.load(x, (i,)))

    return kernel(lh, x=[8])


def private_scratch() -> KernelOp:
    def ps(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            row = b.scratch([3], F32)
            with b.loops([3], "j") as (j,):
                b.store(row, (j,), b.load(x, (i, j)))
            with b.loops([3], "k") as (k,):
                b.store(y, (i, 2 - k), b.load(row, (k,)))

    return kernel(ps, x=[4, 3], y=[4, 3])


def tiled(make, name: str, size: int, part: int):
    def with_tiles() -> KernelOp:
        op = make()
        tiles = tile(loops(op, name)[0], size)
        tiles[part].index.name_hint = "part"
        return op

    return with_tiles


def symbolic_rows() -> KernelOp:
    return row_sum("n", "m", ["n", "m"])


def flattened_rows() -> KernelOp:
    """y[i * n + j], whose rows do not overlap because j < n."""

    def fr(b: LoopBuilder, x, y):
        with b.loops(["m", "n"], "ij") as (i, j):
            b.store(y, (i * "n" + j,), b.load(x, (i, j)))

    return kernel(fr, ["m", "n"], x=["m", "n"], y=[Expr.of("m") * "n"])


def collapsed() -> KernelOp:
    op = pointwise("n", 8, ["n"])
    collapse(*loops(op, "m", "n")).index.name_hint = "mn"
    return op


@given(st.integers(1, 9), st.sampled_from("ij"))
def test_prefetch_changes_no_value(ahead: int, name: str) -> None:
    op = transposed()
    load = next(each for each in op.walk() if isinstance(each, LoadOp))
    prefetch(load, *loops(op, name), ahead)
    same(transposed(), op)


INDEPENDENT = [
    (pointwise, "i"),
    (pointwise, "j"),
    (matmul, "i"),
    (matmul, "j"),
    (symbolic_rows, "i"),
    (softmax, "i"),
    (softmax, "m"),
    (convolution, "f"),
    (convolution, "h"),
    (convolution, "w"),
    (transposed, "i"),
    (transposed, "j"),
    (gather, "i"),
    (even_to_odd, "i"),
    (low_to_high, "i"),
    (private_scratch, "i"),
    (tiled(matmul, "i", 3, 0), "part"),
    (tiled(matmul, "i", 3, 1), "part"),
    (tiled(matmul, "j", 4, 2), "part"),
    (flattened_rows, "i"),
    (flattened_rows, "j"),
    (collapsed, "mn"),
]


@pytest.mark.parametrize(("make", "name"), INDEPENDENT)
def test_parallelize_accepts_independent_iterations(make, name: str):
    op = make()
    (loop,) = loops(op, name)
    parallelize(loop)
    sizes = dict.fromkeys(op.symbol_names, 3)
    same(make(), op, **sizes)


def neighbours(distance: int, size: int = 8) -> KernelOp:
    def near(b: LoopBuilder, x):
        with b.loops([size], "i") as (i,):
            b.store(x, (i + distance,), b.load(x, (i,)) + 1)

    return kernel(near, x=[size + distance])


def same_element() -> KernelOp:
    def se(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(y, (0,), b.load(x, (i,)))

    return kernel(se, x=[4], y=[1])


def shared_scratch() -> KernelOp:
    def ss(b: LoopBuilder, x, y):
        cell = b.scratch([1], F32)
        with b.loops([4], "i") as (i,):
            b.store(cell, (0,), b.load(x, (i,)))
            b.store(y, (i,), b.load(cell, (0,)))

    return kernel(ss, x=[4], y=[4])


def folded() -> KernelOp:
    def fo(b: LoopBuilder, x, y):
        with b.loops([8], "i") as (i,):
            b.store(y, (i % 4,), b.load(x, (i,)))

    return kernel(fo, x=[8], y=[4])


def unknown_stride() -> KernelOp:
    """y[i * n] is one element for all i where n is 0."""

    def us(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(y, (i * "n",), b.load(x, (i,)))

    return kernel(us, ["n"], x=[4], y=[Expr.of("n") * 4])


def countdown() -> KernelOp:
    """A `while` in each iteration that stores wherever its counter says."""

    def cd(b: LoopBuilder, n, x):
        with b.loops([4], "i"):
            loop = b.builder.insert(WhileOp.build(regions=[[Block()], [Block()]]))
            test, body = (LoopBuilder(each.block) for each in (loop.condition, loop.body))
            running = test.load(n, (0,)) > 0
            test.builder.insert(ConditionOp.build(operands=[running.value]))
            left = body.load(n, (0,)) - 1
            body.store(n, (0,), left)
            body.store(x, (body.subscript(left.cast(IntegerType(64))),), left)

    return kernel(cd, n=[1], x=[9])


CARRIED = [
    (prefix_sum, "i"),
    (row_sum, "k"),
    (matmul, "k"),
    (softmax, "j"),
    (convolution, "s"),
    (scatter, "i"),
    (lambda: neighbours(1), "i"),
    (lambda: neighbours(7), "i"),
    (same_element, "i"),
    (shared_scratch, "i"),
    (folded, "i"),
    (unknown_stride, "i"),
    (tiled(row_sum, "k", 3, 0), "part"),
    (tiled(prefix_sum, "i", 3, 0), "part"),
    (tiled(prefix_sum, "i", 3, 1), "part"),
]


@pytest.mark.parametrize(("make", "name"), CARRIED)
def test_parallelize_refuses_carried_dependences(make, name: str):
    op = make()
    with pytest.raises(IllegalSchedule, match="parallelize requires independent iterations"):
        parallelize(loops(op, name)[0])
    assert loops(op, name)[0].parallel is None


@pytest.mark.parametrize(("distance", "lanes"), [(4, 4), (8, 4), (2, 2)])
def test_vectorize_accepts_dependences_further_than_its_lanes(distance: int, lanes: int):
    assert vectorize(loops(neighbours(distance), "i")[0], lanes).vector.data == lanes


@pytest.mark.parametrize(("distance", "lanes"), [(1, 2), (3, 4), (7, 8)])
def test_vectorize_refuses_dependences_within_its_lanes(distance: int, lanes: int):
    with pytest.raises(IllegalSchedule, match="vectorize requires independent iterations"):
        vectorize(loops(neighbours(distance), "i")[0], lanes)


def test_vectorize_refuses_a_reduction():
    with pytest.raises(IllegalSchedule, match="vectorize requires independent iterations"):
        vectorize(loops(row_sum(), "k")[0], 4)


def test_vectorize_refuses_bounds_that_differ_between_lanes():
    def triangle(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,), b.loops([i + 1], "j") as (j,):
            b.store(x, (i, j), b.constant(1, F32))

    with pytest.raises(IllegalSchedule, match="the same for every lane"):
        vectorize(loops(kernel(triangle, x=[4, 4]), "i")[0], 4)


def test_vectorize_refuses_branches():
    def branch(b: LoopBuilder, x):
        with b.loops([4], "i") as (i,), b.when(b.load(x, (i,)) > 0):
            b.store(x, (i,), b.constant(1, F32))

    with pytest.raises(IllegalSchedule, match="the same for every lane, got loop.if"):
        vectorize(loops(kernel(branch, x=[4]), "i")[0], 4)


@pytest.mark.parametrize("first", ["i", "j"])
def test_vectorize_refuses_a_second_vector_loop_in_a_nest(first: str):
    def fill(b: LoopBuilder, x):
        with b.loops([4, 4], "ij") as (i, j):
            b.store(x, (i, j), b.constant(1, F32))

    op = kernel(fill, x=[4, 4])
    vectorize(loops(op, first)[0], 4)
    with pytest.raises(IllegalSchedule, match="one vector loop in a nest"):
        vectorize(loops(op, "j" if first == "i" else "i")[0], 4)


def test_parallelize_refuses_while():
    with pytest.raises(IllegalSchedule, match="independent iterations"):
        parallelize(loops(countdown(), "i")[0])


def test_parallelize_refuses_an_allocation_that_threads_share():
    op = private_scratch()
    (loop,) = loops(op, "i")
    loop.body.block.first_op.scope = StringAttr("workspace")
    with pytest.raises(IllegalSchedule, match="scratch of its own"):
        parallelize(loop)


def test_unroll_refuses_symbolic_and_long_loops():
    for op in (pointwise("n", 3, ["n"]), pointwise(1000, 3)):
        with pytest.raises(IllegalSchedule, match="unroll requires at most"):
            unroll(loops(op, "i")[0])


def test_structure_comes_before_marks():
    op = pointwise()
    i, j = loops(op, "i", "j")
    parallelize(i)
    with pytest.raises(IllegalSchedule, match="without marks"):
        reorder(j, i)
    with pytest.raises(IllegalSchedule, match="without marks"):
        distribute(i, j)


@given(width=st.integers(1, 8))
def test_pack_changes_where_elements_lie_and_nothing_else(width: int):
    op = matmul()
    for name, axis in (("A", 0), ("B", 1), ("C", 1)):
        source = find_buffer(op, name)
        pack(source, panels(source.type, axis, width))
    same(matmul(), op)
    assert find_buffer(op, "B").type.storage[0].constant == -(-10 // width)


def test_pack_then_stage_reads_the_packed_panels():
    op = matmul()
    source = find_buffer(op, "B")
    packed = pack(source, panels(source.type, 1, 4))
    stage_tile(packed, loops(op, "i")[0], "scratch")
    same(matmul(), op)
