"""The dependence test against enumeration, and the subscripts that it has to see through."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.loop.kernels import kernel, loops, pointwise
from weft.compiler.loop.dependence import Relation, may_clash, separated
from weft.compiler.loop.legality import carried_pair
from weft.compiler.loop.nest import accesses_in, stores_in, subscripts
from weft.compiler.loop.primitives import collapse, reorder, tile
from weft.dialects.context import parse_module
from weft.dialects.loop.builder import LoopBuilder

FACTORS = st.integers(-3, 3)
SUBSCRIPT = st.tuples(FACTORS, FACTORS, st.integers(-4, 4), st.sampled_from([1, 1, 2, 3]))
SUBSCRIPTS = st.lists(SUBSCRIPT, min_size=2, max_size=2)


def linear(store: list, load: list, extents: tuple[int, int]):
    """x[store] = x[load] with subscripts (a i + b j + c) floordiv d in two dimensions."""

    def body(b: LoopBuilder, x, y):
        with b.loops(list(extents), "ij") as (i, j):
            there, here = (
                [(a * i + bb * j + c) // d for a, bb, c, d in side] for side in (store, load)
            )
            b.store(x, there, b.load(x, here))

    return kernel(body, x=[99, 99], y=[1])


def touched(access, index: tuple[int, int], nest) -> tuple[int, ...]:
    values = {loop.index: value for loop, value in zip(nest, index, strict=True)}
    return tuple(expr.evaluate(values) for expr in subscripts(access))


def relation_of(first: tuple[int, int], second: tuple[int, int]) -> str:
    return "".join(
        "=" if a == b else "<" if a < b else ">" for a, b in zip(first, second, strict=True)
    )


@given(store=SUBSCRIPTS, load=SUBSCRIPTS, extents=st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_every_clash_that_enumeration_finds_is_found(store, load, extents):
    nest = loops(linear(store, load, extents), "i", "j")
    read, write = accesses_in(nest[0])
    iterations = list(product(*(range(extent) for extent in extents)))
    clashes = {
        relation_of(first, second)
        for first, second in product(iterations, iterations)
        if touched(write, first, nest) == touched(read, second, nest)
    }
    for directions in clashes:
        relations = [Relation(loop, loop, d) for loop, d in zip(nest, directions, strict=True)]
        assert may_clash(write, read, relations)


@given(store=SUBSCRIPTS, load=SUBSCRIPTS, extents=st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_where_loops_separate_accesses_one_element_is_of_one_iteration(store, load, extents):
    nest = loops(linear(store, load, extents), "i", "j")
    accesses = accesses_in(nest[0])
    found = [
        position for position, loop in enumerate(nest) if loop in separated(accesses, nest, set())
    ]
    iterations = list(product(*(range(extent) for extent in extents)))
    elements: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for access, index in product(accesses, iterations):
        seen = elements.setdefault(touched(access, index, nest), set())
        seen.add(tuple(index[position] for position in found))
    assert all(len(each) == 1 for each in elements.values())


def test_unrolled_stores_to_tiles_separate_the_loops_over_tiles():
    def body(b: LoopBuilder, x, y):
        with b.loops([8, 8, 16], "ijk") as (i, j, k):
            for row, column in product(range(2), range(2)):
                b.store(y, [i * 2 + row, j * 2 + column], b.load(x, [k]))

    nest = loops(kernel(body, x=[16], y=[16, 16]), "i", "j", "k")
    assert separated(stores_in(nest[0]), nest, set()) == {nest[0], nest[1]}


STARTING_ELSEWHERE = """
loop.kernel @k(%x: !loop.buffer<[2], f32>, %y: !loop.buffer<[16], f32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = %i to %i + 8 step 4 {
      %v = loop.load %x[%i] : !loop.buffer<[2], f32>
      loop.store %v, %y[%j] : !loop.buffer<[16], f32>
      loop.store %v, %y[%j + 1] : !loop.buffer<[16], f32>
    }
  }
}
"""


def test_a_loop_that_starts_elsewhere_separates_single_elements_alone():
    nest = loops(parse_module(STARTING_ELSEWHERE, "<test>").ops.first, "i", "j")
    stores = stores_in(nest[0])
    assert separated(stores, nest, set()) == set()
    assert separated(stores, nest[1:], {nest[0].index}) == {nest[1]}
    assert separated(stores[:1], nest, set()) == {nest[1]}


@given(index=SUBSCRIPTS, extents=st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_clashes_of_equal_subscripts_are_found_in_any_iterations(index, extents):
    nest = loops(linear(index, index, extents), "i", "j")
    read, write = accesses_in(nest[0])
    iterations = list(product(*(range(extent) for extent in extents)))
    clashes = {
        relation_of(first, second)
        for first, second in product(iterations, iterations)
        if touched(write, first, nest) == touched(read, second, nest)
    }
    for directions in product("<=>*", repeat=2):
        asked = ["<=>" if each == "*" else each for each in directions]
        relations = [Relation(loop, loop, d) for loop, d in zip(nest, directions, strict=True)]
        found = may_clash(write, read, relations)
        assert found or not clashes & {"".join(each) for each in product(*asked)}


def test_a_single_loop_that_moves_on_keeps_equal_subscripts_apart():
    nest = loops(
        linear([(2, 0, 1, 1), (0, 0, 0, 1)], [(2, 0, 1, 1), (0, 0, 0, 1)], (4, 4)), "i", "j"
    )
    read, write = accesses_in(nest[0])
    for first, second, clash in ((*"<*", False), (*">=", False), (*"=<", True), (*"**", True)):
        relations = [Relation(nest[0], nest[0], first), Relation(nest[1], nest[1], second)]
        assert may_clash(write, read, relations) == clash


@given(
    factor=st.integers(1, 4),
    offset=st.integers(-9, 9),
    direction=st.sampled_from("<=>"),
    extent=st.integers(2, 5),
)
def test_clashes_of_one_subscript_are_decided_exactly(factor, offset, direction, extent):
    nest = loops(linear([(factor, 0, 0, 1)] * 2, [(factor, 0, offset, 1)] * 2, (extent, 2)), "i")
    read, write = accesses_in(nest[0])
    pairs = product(range(extent), repeat=2)
    expected = any(
        factor * first == factor * second + offset
        for first, second in pairs
        if relation_of((first, 0), (second, 0))[0] == direction
    )
    assert may_clash(write, read, [Relation(nest[0], nest[0], direction)]) == expected


@given(
    factor=st.integers(1, 4),
    starts=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_windows_of_two_inner_loops_clash_where_they_meet(factor, starts, lengths):
    """x[f i + j + a] is written and x[f i + k + b] read, by two loops in one."""

    def body(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            with b.loops([lengths[0]], "j") as (j,):
                b.store(x, [factor * i + j + starts[0]], b.load(y, [0]))
            with b.loops([lengths[1]], "k") as (k,):
                b.store(y, [i + 1], b.load(x, [factor * i + k + starts[1]]))

    (loop,) = loops(kernel(body, x=[99], y=[9]), "i")
    write, read = (each for each in accesses_in(loop) if each.buffer_type.shape[0] == 99)
    written, seen = (
        {here + start for here in range(length)}
        for start, length in zip(starts, lengths, strict=True)
    )
    for direction, sign in (("<", 1), (">", -1)):
        later = {factor * sign * step + place for step in range(1, 4) for place in seen}
        clashes = bool(written & later)
        assert may_clash(write, read, [Relation(loop, loop, direction)]) == clashes


def test_a_collapsed_loop_is_seen_through_its_quotients():
    op = pointwise("n", 8, ["n"])
    merged = collapse(*loops(op, "m", "n"))
    assert carried_pair(merged) is None


def test_a_collapsed_and_tiled_loop_is_seen_through():
    op = pointwise(6, 8)
    merged = collapse(*loops(op, "m", "n"))
    tiles = tile(merged, 16)
    assert carried_pair(tiles.outer) is None
    assert carried_pair(tiles.inner) is None


def test_three_collapsed_loops_are_seen_through():
    def cube(b: LoopBuilder, x, y):
        with b.loops([2, 3, 4], "ijk") as index:
            b.store(y, index, b.load(x, index))

    op = kernel(cube, x=[2, 3, 4], y=[2, 3, 4])
    i, j, k = loops(op, "i", "j", "k")
    assert carried_pair(collapse(collapse(i, j), k)) is None


def test_tiles_that_divide_a_collapsed_row_are_seen_through_beside_another_loop():
    """Of x[o, t floordiv 4, 7 * (t mod 4) + i] no dim alone tells tiles apart, and not the address,
    in which `o` may differ too.
    """

    def planes(b: LoopBuilder, x, y):
        with b.loops([3, 5, 28], "ohw") as index:
            b.store(y, index, b.load(x, index))

    op = kernel(planes, x=[3, 5, 28], y=[3, 5, 28])
    o, h, w = loops(op, "o", "h", "w")
    outer, inner, _ = tile(collapse(h, w), 7)
    assert carried_pair(reorder(outer, o, inner)[0]) is None


def test_tiles_of_planes_collapsed_with_rows_are_seen_through():
    """x[16 * (t floordiv 5) + i, t mod 5, w]."""

    def planes(b: LoopBuilder, x, y):
        with b.loops([32, 5, 3], "ohw") as index:
            b.store(y, index, b.load(x, index))

    op = kernel(planes, x=[32, 5, 3], y=[32, 5, 3])
    o, h, w = loops(op, "o", "h", "w")
    outer, inner, _ = tile(o, 16)
    reorder(outer, h, inner, w)
    assert carried_pair(collapse(outer, h)) is None


def test_a_symbolic_main_part_and_remainder_do_not_overlap():
    op = pointwise("n", 3, ["n"])
    tiles = tile(loops(op, "i")[0], 4)
    (main,) = [a for a in accesses_in(tiles.outer) if a.buffer.name_hint == "t"]
    (rest,) = [a for a in accesses_in(tiles.remainder) if a.buffer.name_hint == "t"]
    assert not may_clash(main, rest, [])


@pytest.mark.parametrize(("ahead", "apart"), [(1, True), (2, False), (3, True)])
def test_two_copies_take_turns(ahead, apart):
    def turns(b: LoopBuilder, x, y):
        with b.loops([8], "c") as (c,):
            b.store(y, (c,), b.load(x, (c % 2,)))
            b.store(x, ((c + ahead) % 2,), b.load(y, (c,)))

    (loop,) = loops(kernel(turns, x=[2], y=[8]), "c")
    read, written = (a for a in accesses_in(loop) if a.buffer.name_hint == "x")
    assert may_clash(read, written, [Relation(loop, loop, "=")]) is not apart


def test_arguments_are_distinct():
    def copy(b: LoopBuilder, x, y):
        with b.loops([4], "i") as (i,):
            b.store(y, (i,), b.load(x, (3 - i,)))

    (loop,) = loops(kernel(copy, x=[4], y=[4]), "i")
    assert carried_pair(loop) is None
