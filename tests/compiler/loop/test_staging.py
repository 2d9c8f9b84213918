"""stage and split_reduction: what is copied, what is not, and the same answer after."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import Float16Type, IntegerType, Signedness

from tests.compiler.loop.kernels import (
    convolution,
    gather,
    kernel,
    loops,
    matmul,
    pointwise,
    prefix_sum,
    product,
    row_sum,
    same,
)
from weft.compiler.loop.nest import accesses_in, loops_in
from weft.compiler.loop.primitives import (
    collapse,
    distribute,
    fuse_loops,
    panels,
    reorder,
    split_reduction,
    stage_tile,
    tile,
    tile_ragged,
    vectorize,
    widen,
)
from weft.compiler.loop.references import find_buffer
from weft.dialects.errors import IllegalSchedule
from weft.dialects.loop.builder import LoopBuilder
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.scalar import F32
from weft.dialects.loop.types import buffer


def register_tile(op, rows: int, columns: int):
    """The product in tiles whose accumulators stay in registers; returns what stage made."""
    i, j, m, n = loops(op, "i", "j", "m", "n")
    fuse_loops(i, m)
    fuse_loops(j, n)
    (io, ii, _), (jo, ji, _) = tile(i, rows), tile(j, columns)
    reorder(io, jo, ii, ji)
    k = loops(op, "k")[0]
    epilogue = k.next_op
    sums = distribute(ji, k)
    rows_of_sums = distribute(ii, sums)
    results = distribute(sums, epilogue)
    distribute(rows_of_sums, results)
    reorder(k, rows_of_sums, sums)
    return stage_tile(find_buffer(op, "C"), jo)


@given(rows=st.sampled_from([1, 2, 3, 6]), columns=st.sampled_from([1, 2, 4, 8]))
def test_stage_keeps_accumulators_of_a_contraction_in_registers(rows: int, columns: int):
    op = matmul(6, 8, 3)
    staged = register_tile(op, rows, columns)
    assert (staged.load_in, staged.write_back) == ((), ())
    scopes = [inner.scope.data for inner in op.walk() if isinstance(inner, AllocOp)]
    assert scopes == ["registers"]
    same(matmul(6, 8, 3), op)


@given(rows=st.integers(2, 5), size=st.integers(2, 5), name=st.sampled_from("ik"))
def test_widen_extends_what_is_staged_once(rows: int, size: int, name: str):
    def build():
        return product(rows, 4, size, element=Float16Type())

    op = build()
    (loop,) = loops(op, f"{name}#1" if name == "i" else name)
    staged = stage_tile(find_buffer(op, "lhs"), loop, "scratch")
    wide = widen(staged.buffer.owner)
    assert wide.result.type.element == F32
    same(build(), op)


@given(rows=st.integers(1, 7), columns=st.integers(1, 9))
def test_stage_in_main_part_and_remainders(rows: int, columns: int):
    op = matmul(7, 9, 3)
    i, j = loops(op, "i", "j")
    parts = [part for part in tile(i, rows) if part]
    for part in parts[1:]:
        (inner,) = [loop for loop in loops_in(part) if loop.index.name_hint == "j"]
        for tiles in tile(inner, columns)[1:]:
            if tiles is not None and tiles.parent is not None:
                k = next(loop for loop in loops_in(tiles) if loop.reduction is not None)
                stage_tile(accesses_in(k)[0].buffer, tiles)
    same(matmul(7, 9, 3), op)


def test_stage_writes_an_argument_back():
    op = row_sum()
    staged = stage_tile(find_buffer(op, "y"), loops(op, "i")[0])
    assert staged.load_in == ()
    assert [str(loop.extent) for loop in staged.write_back] == ["1"]
    same(row_sum(), op)


def test_one_element_is_copied_by_a_loop_that_schedules_go_on_with():
    op = matmul(6, 8, 4)
    staged = stage_tile(find_buffer(op, "A"), loops(op, "k")[0], "registers")
    (loop,) = staged.load_in
    assert loop.extent == 1
    same(matmul(6, 8, 4), op)


@given(rows=st.integers(1, 6), columns=st.integers(1, 8))
def test_stage_packs_the_tile_that_is_read(rows: int, columns: int):
    op = matmul(6, 8, 4)
    i, k = loops(op, "i", "k")
    j = loops(op, "j")[0]
    tile(j, columns)
    inner = tile(i, rows).inner
    source = find_buffer(op, "B")
    staged = stage_tile(source, inner, "scratch", layout=None, named="Bp")
    assert len(staged.load_in) == 2
    assert staged.write_back == ()
    same(matmul(6, 8, 4), op)


def test_stage_a_whole_matrix_in_panels():
    op = matmul(4, 10, 3)
    source = find_buffer(op, "B")
    stage_tile(source, op, "workspace", layout=panels(source.type, 1, 4), named="panels")
    same(matmul(4, 10, 3), op)


def test_stage_a_symbolic_matrix_in_the_workspace():
    op = matmul("n", "m", 3, ["n", "m"])
    staged = stage_tile(find_buffer(op, "b"), op, "workspace")
    assert staged.load_in[0].extent == loops(op, "j")[0].extent
    same(matmul("n", "m", 3, ["n", "m"]), op, n=3, m=4)


def test_stage_the_rows_that_a_convolution_reads():
    op = convolution()
    h = loops(op, "h")[0]
    staged = stage_tile(find_buffer(op, "x"), h, "scratch")
    assert [extent.constant for extent in staged.buffer.type.shape] == [3, 3, 6]
    same(convolution(), op)


def test_stage_loads_in_what_is_updated():
    def update(b: LoopBuilder, x, y):
        with b.loops([3, 4], "ij") as (i, j):
            b.store(y, (i, j), b.load(y, (i, j)) + b.load(x, (i, j)))

    op = kernel(update, x=[3, 4], y=[3, 4])
    staged = stage_tile(find_buffer(op, "y"), loops(op, "i")[0])
    assert (len(staged.load_in), len(staged.write_back)) == (1, 1)
    same(kernel(update, x=[3, 4], y=[3, 4]), op)


def test_stage_refuses_a_box_it_would_write_back_with_holes():
    def every_other(b: LoopBuilder, x, y):
        with b.loops([3, 2], "ij") as (i, j):
            b.store(y, (i, 2 * j), b.load(x, (i, j)))

    op = kernel(every_other, x=[3, 2], y=[3, 4])
    with pytest.raises(IllegalSchedule, match="a store to the whole tile of %y"):
        stage_tile(find_buffer(op, "y"), loops(op, "i")[0])


def test_stage_refuses_registers_of_unknown_size():
    op = pointwise(3, "n", ["n"])
    with pytest.raises(IllegalSchedule, match="bounded size for registers"):
        stage_tile(find_buffer(op, "x"), loops(op, "i")[0])


def test_stage_refuses_subscripts_from_memory():
    op = gather()
    with pytest.raises(IllegalSchedule, match="known to lie in a box"):
        stage_tile(find_buffer(op, "x"), loops(op, "i")[0])


def test_stage_refuses_a_buffer_that_is_not_used_there():
    op = pointwise()
    with pytest.raises(IllegalSchedule, match="used there"):
        stage_tile(find_buffer(op, "y"), loops(op, "i")[0])


def test_stage_refuses_a_buffer_of_an_inner_loop():
    op = convolution()
    inner = stage_tile(find_buffer(op, "x"), loops(op, "r")[0], "scratch")
    with pytest.raises(IllegalSchedule, match="lives as long as its copy"):
        stage_tile(inner.buffer, loops(op, "w")[0], "scratch")


@given(size=st.integers(2, 20), parts=st.integers(1, 20))
def test_split_reduction_of_any_length(size: int, parts: int):
    op = row_sum(2, size)
    (loop,) = loops(op, "k")
    if size < parts:
        with pytest.raises(IllegalSchedule, match="tile requires"):
            split_reduction(loop, parts)
        return
    split = split_reduction(loop, parts)
    vectorize(split.inner, parts)
    vectorize(split.initialize, parts)
    same(row_sum(2, size), op)


@given(n=st.integers(0, 20))
def test_split_reduction_of_a_symbolic_length(n: int):
    op = row_sum(2, "n", ["n"])
    split_reduction(loops(op, "k")[0], 4)
    same(row_sum(2, "n", ["n"]), op, n=n)


def test_split_reduction_of_collapsed_loops():
    op = convolution()
    c, r, s = loops(op, "c", "r", "s")
    split_reduction(collapse(collapse(c, r), s), 4)
    same(convolution(), op)


ELEMENTS = {"f16": Float16Type(), "i8": IntegerType(8), "u8": IntegerType(8, Signedness.UNSIGNED)}
COMBINATIONS = {
    "add": lambda left, right: left + right,
    "mul": lambda left, right: left * right,
    "max": lambda left, right: left.maximum(right),
    "min": lambda left, right: left.minimum(right),
}


def combined(kind: str, element):
    def reduction(b: LoopBuilder, x, y):
        with b.loops([3], "i") as (i,):
            b.store(y, (i,), b.load(x, (i, 0)))
            with b.reduce([8], kind, "k") as (k,):
                total = COMBINATIONS[kind](b.load(y, (i,)), b.load(x, (i, k)))
                b.store(y, (i,), total)

    return kernel(reduction, x=buffer([3, 8], element), y=buffer([3], element))


@pytest.mark.parametrize("kind", COMBINATIONS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_split_reduction_starts_from_the_neutral_element(kind: str, element: str):
    op = combined(kind, ELEMENTS[element])
    split_reduction(loops(op, "k")[0], 4)
    same(combined(kind, ELEMENTS[element]), op)


def test_split_reduction_needs_the_mark():
    def strict(b: LoopBuilder, x, y):
        b.strict = True
        with b.reduce([4], "add", "k") as (k,):
            b.store(y, (0,), b.load(y, (0,)) + b.load(x, (k,)))

    op = kernel(strict, x=[4], y=[1])
    with pytest.raises(IllegalSchedule, match="a loop marked as a reduction"):
        split_reduction(loops(op, "k")[0], 2)


def test_split_reduction_refuses_a_recurrence():
    with pytest.raises(IllegalSchedule, match="updates of its kind only"):
        split_reduction(loops(prefix_sum(), "i")[0], 2)


@given(n=st.integers(0, 20))
def test_stage_of_a_tile_that_may_be_shorter_has_room_for_the_longest(n: int):
    op = pointwise(3, "n", ["n"])
    outer = tile_ragged(loops(op, "j")[0], 8).outer
    reorder(outer, loops(op, "i")[0])
    staged = stage_tile(find_buffer(op, "x"), loops(op, "i")[0], "scratch")
    assert [dim.constant for dim in staged.buffer.type.shape] == [1, 8]
    same(pointwise(3, "n", ["n"]), op, n=n)
