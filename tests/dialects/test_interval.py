"""Interval arithmetic: bounds hold for every value, and are the tightest where all are known."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.dialects import interval
from weft.dialects.interval import Range

BEYOND = 5
"""How far behind a missing bound values are tried."""

known = st.tuples(st.integers(-4, 4), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))
ranges = known | known.map(lambda pair: (pair[0], None)) | known.map(lambda pair: (None, pair[1]))

OPERATIONS = [
    (interval.add, lambda x, y: x + y),
    (interval.multiply, lambda x, y: x * y),
    (lambda left, right: interval.maximum([left, right]), max),
    (lambda left, right: interval.minimum([left, right]), min),
]


def members(bounds: Range) -> range:
    low, high = bounds
    if low is None:
        low = min(0, high or 0) - BEYOND
    return range(low, (max(0, low) + BEYOND if high is None else high) + 1)


def holds(bounds: Range, value: int) -> bool:
    low, high = bounds
    return (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize(("bounds", "value"), OPERATIONS)
@given(left=ranges, right=ranges)
def test_bounds_hold_for_every_value(
    bounds: Callable[[Range, Range], Range],
    value: Callable[[int, int], int],
    left: Range,
    right: Range,
):
    found = bounds(left, right)
    assert all(holds(found, value(x, y)) for x, y in product(members(left), members(right)))


@pytest.mark.parametrize(("bounds", "value"), OPERATIONS)
@given(left=known, right=known)
def test_known_bounds_are_reached(
    bounds: Callable[[Range, Range], Range],
    value: Callable[[int, int], int],
    left: Range,
    right: Range,
):
    values = [value(x, y) for x, y in product(members(left), members(right))]
    assert bounds(left, right) == (min(values), max(values))


@given(dividend=ranges, divisor=ranges)
def test_bounds_of_a_division_hold_for_every_value(dividend: Range, divisor: Range):
    quotient, remainder = interval.floordiv(dividend, divisor), interval.modulo(divisor)
    for x, y in product(members(dividend), members(divisor)):
        if y != 0:
            assert holds(quotient, x // y)
            assert holds(remainder, x % y)


def test_a_division_by_one_number_has_close_bounds():
    assert interval.floordiv((-5, 7), (3, 3)) == (-2, 2)
    assert interval.floordiv((0, None), (2, 2)) == (0, None)
    assert interval.modulo((3, 8)) == (0, 7)


@given(number=st.integers(-4, 4), bound=st.integers(-5, 5))
def test_a_multiple_of_what_has_one_bound_has_one(number: int, bound: int):
    low, high = interval.multiply((number, number), (None, bound))
    assert (low is None) == (number > 0)
    assert (high is None) == (number < 0)
    assert bound * number in (low, high)


@given(
    left=st.integers(0, 5),
    right=st.integers(0, 5),
    signs=st.tuples(*2 * [st.sampled_from((-1, 1))]),
)
def test_a_product_of_what_has_a_sign_has_one(left: int, right: int, signs: tuple[int, int]):
    """What is not below `left`, or not above `-left`, times the like."""
    factors = [
        (n, None) if sign > 0 else (None, -n) for n, sign in zip((left, right), signs, strict=True)
    ]
    low, high = interval.multiply(*factors)
    least = left * right if signs[0] == signs[1] else -left * right
    assert (low if signs[0] == signs[1] else high) == least
