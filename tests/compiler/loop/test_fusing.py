"""fuse, compute_at, inline and forward bring producers to consumers and keep the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.loop.kernels import kernel, loops, matmul, pointwise, same, softmax
from weft.compiler.loop.nest import accesses_in, loops_in
from weft.compiler.loop.primitives import (
    compute_at,
    compute_inline,
    distribute,
    eliminate_dead_buffer,
    forward_store,
    fuse_loops,
    tile,
)
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import AllocOp, LoadOp, StoreOp


def stores_to(op, name: str) -> list[StoreOp]:
    return [a for a in accesses_in(op) if isinstance(a, StoreOp) and a.buffer.name_hint == name]


def loads_of(op, name: str) -> list[LoadOp]:
    return [a for a in accesses_in(op) if isinstance(a, LoadOp) and a.buffer.name_hint == name]


@given(rows=st.integers(2, 6), columns=st.integers(2, 6))
def test_fuse_of_an_epilogue(rows: int, columns: int):
    op = matmul(rows, columns, 3)
    i, j, m, n = loops(op, "i", "j", "m", "n")
    fuse_loops(i, m)
    fuse_loops(j, n)
    assert len(loops_in(op)) == 3
    same(matmul(rows, columns, 3), op)


def test_fuse_of_symbolic_loops():
    op = pointwise("n", 3, ["n"])
    i, j, m, n = loops(op, "i", "j", "m", "n")
    fuse_loops(i, m)
    fuse_loops(j, n)
    same(pointwise("n", 3, ["n"]), op, n=4)


def test_fuse_three_passes_over_the_rows():
    op = softmax()
    rows = [loop for loop in op.body.block.ops if hasattr(loop, "index")]
    fuse_loops(fuse_loops(rows[0], rows[1]), rows[2])
    same(softmax(), op)


def shifted(offset: int):
    """t[i] = x[i] + 1, then y[i] = t[i + offset]."""

    def shift(b: LoopBuilder, x, t, y):
        with b.loops([5], "i") as (i,):
            b.store(t, (i + 1,), b.load(x, (i,)) + 1)
        with b.loops([5], "j") as (j,):
            b.store(y, (j,), b.load(t, (j + 1 + offset,)))

    return kernel(shift, x=[5], t=[7], y=[5])


@pytest.mark.parametrize("offset", [-1, 0])
def test_fuse_accepts_what_an_earlier_iteration_made(offset: int):
    op = shifted(offset)
    fuse_loops(*loops(op, "i", "j"))
    same(shifted(offset), op)


def test_fuse_refuses_what_a_later_iteration_makes():
    with pytest.raises(IllegalSchedule, match=r"got loop.store of %t\[%i \+ 1\] and loop.load"):
        fuse_loops(*loops(shifted(1), "i", "j"))


def test_fuse_refuses_other_extents_and_the_wrong_order():
    op = matmul(3, 4, 2)
    with pytest.raises(IllegalSchedule, match="neighbours of equal extent"):
        fuse_loops(*loops(op, "i", "n"))
    op = pointwise(3, 3)
    with pytest.raises(IllegalSchedule, match="the first loop to come first"):
        fuse_loops(*loops(op, "m", "i"))


def test_fuse_at_computes_a_tile_of_the_producer_at_a_time():
    op = pointwise(6, 8)
    i, m = loops(op, "i", "m")
    producer, consumer = tile(i, 2), tile(m, 2)
    compute_at(producer.outer, consumer.outer)
    assert [loop.index.name_hint for loop in loops_in(op)] == ["io", "ii", "j", "mi", "n"]
    same(pointwise(6, 8), op)


def test_fuse_at_two_levels():
    op = pointwise(6, 8)
    i, n = loops(op, "i", "n")
    compute_at(i, n)
    same(pointwise(6, 8), op)


def test_fuse_at_refuses_a_producer_that_lacks_a_level():
    def rows(b: LoopBuilder, x, y):
        t = b.temporary([3], x.type.element, "t")
        with b.loops([3], "i") as (i,):
            b.store(t, (i,), b.load(x, (i, i)))
        with b.loops([3, 3], "mn") as (m, n):
            b.store(y, (m, n), b.load(t, (n,)))

    with pytest.raises(IllegalSchedule, match="fuse_loops"):
        compute_at(*loops(kernel(rows, x=[3, 3], y=[3, 3]), "i", "n"))


@given(rows=st.integers(2, 6), columns=st.integers(2, 6))
def test_inline_a_pointwise_producer(rows: int, columns: int):
    op = pointwise(rows, columns)
    compute_inline(stores_to(op, "t")[0])
    assert not any(isinstance(inner, AllocOp) for inner in op.walk())
    assert len(loops_in(op)) == 2
    same(pointwise(rows, columns), op)


def transposed_reader():
    def tr(b: LoopBuilder, x, y):
        t = b.temporary([3, 4], x.type.element, "t")
        with b.loops([3, 4], "ij") as (i, j):
            b.store(t, (i, j), b.load(x, (i, j)) * b.index(i + 2 * j, x.type.element))
        with b.loops([4, 3], "mn") as (m, n):
            b.store(y, (m, n), b.load(t, (n, m)) - b.load(t, (2 - n, 3 - m)))

    return kernel(tr, x=[3, 4], y=[4, 3])


def test_inline_follows_the_subscripts_of_each_load():
    op = transposed_reader()
    compute_inline(stores_to(op, "t")[0])
    same(transposed_reader(), op)


def test_inline_refuses_a_reduction():
    with pytest.raises(IllegalSchedule, match="compute_inline requires"):
        compute_inline(stores_to(matmul(), "C")[0])


def test_inline_refuses_an_argument():
    with pytest.raises(IllegalSchedule, match="a store to a temporary"):
        compute_inline(stores_to(pointwise(), "y")[0])


def overwritten_source():
    def ow(b: LoopBuilder, x, y):
        t = b.temporary([3], x.type.element, "t")
        with b.loops([3], "i") as (i,):
            b.store(t, (i,), b.load(x, (i,)) + 1)
        with b.loops([3], "j") as (j,):
            b.store(x, (j,), b.constant(0, x.type.element))
        with b.loops([3], "k") as (k,):
            b.store(y, (k,), b.load(t, (k,)))

    return kernel(ow, x=[3], y=[3])


def test_inline_refuses_a_source_that_changes_before_the_use():
    with pytest.raises(IllegalSchedule, match="what %t is computed from does not change"):
        compute_inline(stores_to(overwritten_source(), "t")[0])


def test_forward_replaces_the_load_and_drops_the_temporary():
    op = pointwise()
    compute_at(*loops(op, "i", "n"))
    forward_store(loads_of(op, "t")[0])
    assert loads_of(op, "t") == []
    assert stores_to(op, "t") == []
    same(pointwise(), op)


def test_forward_refuses_another_store_in_between():
    def twice(b: LoopBuilder, x, y):
        with b.loops([3], "i") as (i,):
            b.store(y, (i,), b.load(x, (i,)))
            b.store(y, (2 - i,), b.constant(1, x.type.element))
            b.store(x, (i,), b.load(y, (i,)))

    with pytest.raises(IllegalSchedule, match="nothing overwrites the element in between"):
        forward_store(loads_of(kernel(twice, x=[3], y=[3]), "y")[0])


def test_drop_unread_removes_stores_that_nobody_reads():
    op = pointwise()
    (load,) = loads_of(op, "t")
    allocation = load.buffer.owner
    with pytest.raises(IllegalSchedule, match="only stored"):
        eliminate_dead_buffer(allocation)
    i, _, m, _ = loops(op, "i", "j", "m", "n")
    compute_at(i, loops(op, "n")[0])
    forward_store(load)
    assert not any(isinstance(inner, AllocOp) for inner in op.walk())


def test_distribute_undoes_fuse():
    op = pointwise()
    i, j, m, n = loops(op, "i", "j", "m", "n")
    fused = fuse_loops(i, m)
    distribute(fused, n)
    same(pointwise(), op)
