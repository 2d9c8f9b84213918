"""Integer expressions against Python's integers, on random trees of operators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings
from xdsl.context import Context
from xdsl.parser import Parser

from weft.dialects.errors import WeftError
from weft.dialects.expr import (
    Atom,
    Equalities,
    Expr,
    Operand,
    Symbol,
    maximum,
    minimum,
    product,
    row_major_strides,
)
from weft.dialects.expr_text import parse_formal_expr
from weft.dialects.interval import Range
from weft.dialects.loop.equal_sizes import multiples

SYMBOLS = (Symbol("a"), Symbol("n"))
OPERANDS = (Operand(0), Operand(1))
MORE_EXAMPLES = settings(max_examples=300)

Values = Mapping[Atom, int]


@dataclass(frozen=True)
class Tree:
    """An expression, and how Python computes its value."""

    expr: Expr
    value: Callable[[Values], int]

    def __repr__(self) -> str:
        return str(self.expr)


def constant(number: int) -> Tree:
    return Tree(Expr.of(number), lambda values: number)


def leaf(atom: Atom) -> Tree:
    return Tree(Expr.atom(atom), lambda values: values[atom])


def combine(name: str, left: Tree, right: Tree) -> Tree:
    operators: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
        "+": (lambda x, y: x + y, lambda x, y: x + y),
        "-": (lambda x, y: x - y, lambda x, y: x - y),
        "*": (lambda x, y: x * y, lambda x, y: x * y),
        "max": (lambda x, y: maximum([x, y]), max),
        "min": (lambda x, y: minimum([x, y]), min),
        "floordiv": (lambda x, y: x // y, lambda x, y: x // y),
        "mod": (lambda x, y: x % y, lambda x, y: x % y),
        "ceildiv": (lambda x, y: x.ceildiv(y), lambda x, y: -(-x // y)),
    }
    build, compute = operators[name]
    return Tree(
        build(left.expr, right.expr),
        lambda values: compute(left.value(values), right.value(values)),
    )


DIVISIONS = ("floordiv", "mod", "ceildiv")
CONSTANTS = st.integers(-12, 12).map(constant)
LEAVES = st.sampled_from([leaf(atom) for atom in (*SYMBOLS, *OPERANDS)]) | CONSTANTS
DIVISORS = st.sampled_from(
    [
        *map(constant, (2, 3, 4, 8, -1, -3)),
        *map(leaf, SYMBOLS),
        combine("*", constant(2), leaf(SYMBOLS[1])),
        combine("-", constant(10), leaf(SYMBOLS[0])),  # 1 to 9
        combine("-", leaf(SYMBOLS[0]), constant(10)),  # -9 to -1
    ]
)


def extend(trees: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    plain = st.builds(combine, st.sampled_from(["+", "-", "*", "max", "min"]), trees, trees)
    return plain | st.builds(combine, st.sampled_from(DIVISIONS), trees, DIVISORS)


TREES = st.recursive(LEAVES, extend, max_leaves=8)


@st.composite
def values_in_ranges(draw: st.DrawFn) -> tuple[dict[Atom, Range], dict[Atom, int]]:
    """A range of each operand, half-open ones too, and a value of every atom; sizes above 0."""
    ranges: dict[Atom, Range] = {}
    values: dict[Atom, int] = {symbol: draw(st.integers(1, 9)) for symbol in SYMBOLS}
    for operand in OPERANDS:
        low, extent = draw(st.integers(-8, 8)), draw(st.integers(1, 12))
        values[operand] = draw(st.integers(low, low + extent - 1))
        ranges[operand] = draw(
            st.sampled_from([(low, low + extent - 1), (low, None), (None, low + extent - 1)])
        )
    return ranges, values


def parse(text: str) -> Expr:
    parser = Parser(Context(), text)
    expr = parse_formal_expr(parser)
    assert parser.parse_optional_identifier() is None, f"all of {text!r} is one expression"
    return expr


@MORE_EXAMPLES
@given(TREES, values_in_ranges())
def test_value_is_pythons(tree, drawn):
    _, values = drawn
    assert tree.expr.evaluate(values) == tree.value(values)


@MORE_EXAMPLES
@given(TREES, values_in_ranges())
def test_simplify_keeps_the_value_within_the_ranges(tree, drawn):
    ranges, values = drawn
    assert tree.expr.simplify(ranges).evaluate(values) == tree.value(values)


@MORE_EXAMPLES
@given(TREES, values_in_ranges())
def test_range_holds_the_value(tree, drawn):
    ranges, values = drawn
    low, high = tree.expr.range(ranges)
    value = tree.value(values)
    assert low is None or low <= value
    assert high is None or value <= high


@MORE_EXAMPLES
@given(TREES)
def test_text_is_parsed_to_the_same_expression(tree):
    assert parse(str(tree.expr)) == tree.expr


@given(TREES, TREES, values_in_ranges())
def test_substitute_puts_an_expression_in_place_of_an_atom(tree, inner, drawn):
    _, values = drawn
    replaced = tree.expr.substitute({OPERANDS[0]: inner.expr})
    expected = tree.value({**values, OPERANDS[0]: inner.value(values)})
    assert replaced.evaluate(values) == expected


@given(TREES, values_in_ranges())
def test_affine_expression_is_its_coefficient_times_the_atom_and_a_rest(tree, drawn):
    _, values = drawn
    (atom, _) = OPERANDS
    assume(tree.expr.is_affine_in(atom))
    coefficient = tree.expr.coefficient(atom)
    rest = tree.expr.substitute({atom: Expr.of(0)})
    assert coefficient * Expr.atom(atom) + rest == tree.expr
    assert atom not in set(coefficient.atoms())
    moved = {**values, atom: values[atom] + 1}
    step = tree.expr.evaluate(moved) - tree.expr.evaluate(values)
    assert step == coefficient.evaluate(values)


@given(TREES, TREES, TREES)
def test_sums_and_products_have_one_form(x, y, z):
    x, y, z = x.expr, y.expr, z.expr
    assert x + y == y + x
    assert hash(x + y) == hash(y + x)
    assert x * y == y * x
    assert x - x == 0
    assert -x + x == 0
    assert product([x, 1]) == x


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.data())
def test_row_major_strides_number_the_elements(dims, data):
    assume(0 not in dims)
    index = [data.draw(st.integers(0, dim - 1)) for dim in dims]
    strides = [stride.constant for stride in row_major_strides(map(Expr.of, dims))]
    number = reduce(lambda total, step: total * step[0] + step[1], zip(dims, index, strict=True), 0)
    assert sum(i * stride for i, stride in zip(index, strides, strict=True)) == number


D0, D1, A, N = (Expr.atom(atom) for atom in (*OPERANDS, *SYMBOLS))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (A * N + N * A, "2 * a * n"),
        ((8 * D0 + 3) // 4, "2 * d0"),
        ((8 * D0 + 3) % 4, "3"),
        (A * N // N, "a"),
        (A * N % N, "0"),
        (D0 // 4 * 4 + D0 % 4, "d0"),
        (D0 // A * A * N + D0 % A * N, "n * d0"),
        (D0 - 4 * (D0 // 4), "(d0 mod 4)"),
        (maximum([A, A + 1]), "a + 1"),
        (minimum([A, N, A + N]), "min(a, n)"),
        (maximum([D0, D1]), "max(d0, d1)"),
        ((A + 3).ceildiv(4) * 4, "-4 * ((-a + 1) floordiv 4) + 4"),
        (D0 % N, "(d0 mod n)"),
        (D0 // -3, "(-d0 floordiv 3)"),
    ],
)
def test_canonical_form(expr: Expr, text: str):
    assert str(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (D0 // 8, "0"),
        (D0 % 8, "d0"),
        ((D0 + 8) // 8, "1"),
        (D0 // 4, "(d0 floordiv 4)"),
        (maximum([D0, 7]), "7"),
        (minimum([D0, D1]), "d0"),
    ],
)
def test_ranges_resolve_what_they_decide(expr: Expr, text: str):
    assert str(expr.simplify({OPERANDS[0]: (0, 7), OPERANDS[1]: (7, None)})) == text


@pytest.mark.parametrize("divide", [Expr.__floordiv__, Expr.__mod__])
def test_division_by_zero_is_refused(divide: Callable[[Expr, int], Expr]):
    with pytest.raises(WeftError, match="requires a divisor other than zero, got a / 0"):
        divide(A, 0)


def test_evaluation_requires_a_value_of_every_atom():
    with pytest.raises(WeftError, match="requires a value for every atom"):
        (A + D0).evaluate({SYMBOLS[0]: 1})


# Equalities -------------------------------------------------------------------------------------


def halves(text: str, times: int) -> Expr:
    """`times * ceil(size / times)`."""
    return times * Expr.of(text).ceildiv(times)


PAIRS = st.lists(
    st.sampled_from(
        [
            (Expr.of("a"), halves("a", 2)),
            (halves("n", 4), Expr.of("n")),
            (Expr.of("n"), Expr.of("a")),
            (Expr.of("n"), 2 * Expr.of("a")),
            (Expr.of("n"), Expr.of("a") + 6),
            (Expr.of("n") * Expr.of("a"), 3 * halves("a", 2)),
            (maximum([Expr.of("a"), 3]), Expr.of("a")),
            (Expr.of("a"), Expr.of(4)),
        ]
    ),
    max_size=4,
)


@settings(max_examples=150)
@given(PAIRS, TREES)
def test_equal_sizes_rewrite_to_what_has_the_same_value(
    pairs: list[tuple[Expr, Expr]], tree: Tree
) -> None:
    equal = Equalities(pairs)
    normal = equal.normal(tree.expr)
    assert equal.normal(normal) == normal
    for a in range(1, 10):
        for n in range(1, 19):
            values: Values = {SYMBOLS[0]: a, SYMBOLS[1]: n, OPERANDS[0]: -3, OPERANDS[1]: 5}
            if all(one.evaluate(values) == other.evaluate(values) for one, other in pairs):
                assert normal.evaluate(values) == tree.value(values)


def test_equal_sizes_rewrite_from_the_greater_side_to_the_lesser() -> None:
    h, w, half = Expr.of("h"), Expr.of("w"), Expr.of("h").ceildiv(2)
    equal = Equalities([(half.ceildiv(2) * 2, half), (h, 2 * half), (w, h)])
    assert equal.normal(4 * w * half.ceildiv(2)) == h * h
    assert equal.normal((w + 5) // 3) == (h + 5) // 3
    assert equal.hold((w, 4 * half.ceildiv(2)))
    assert equal.normal(half) == half  # nothing equals a half
    assert not equal.hold((h, w + 1))


def test_multiples_are_what_equal_sizes_make_of_each_other() -> None:
    h, half = Expr.of("h"), Expr.of("h").ceildiv(2)
    pairs = [(half.ceildiv(2) * 2, half), (h, 2 * half), (Expr.of("n"), 6 * Expr.of("m") + 9)]
    assert multiples(pairs) == {"h": 4, "n": 3}
    assert multiples([(h, Expr.of("m") + 2), (Expr.of("k"), Expr.of(8))]) == {}


def test_terms_that_cancel_those_of_an_extremum_are_put_into_it() -> None:
    n, i = Expr.of("n"), Expr.of("i")
    least, greatest = minimum([16, n - 16 * i]), maximum([256, n])
    assert maximum([256 - n, 0]) + n == greatest
    assert maximum([256 - n, 0]) - greatest + n == 0
    assert greatest - (greatest - n) == n
    assert 16 * i + least == minimum([16 * i + 16, n])
    assert (greatest - n).range({}) == (0, 256)
    assert maximum([n, 5]) - minimum([n, 5]) != 0
