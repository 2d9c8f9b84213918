"""Generators and bounded recursion of a program that is read from its source."""

import numpy as np
import pytest

import weft
from weft.dialects.errors import SourceError

X = np.array([1.0, 2.0, 3.0])


def multiples(x, count):
    try:
        for number in range(count):
            yield x * number
    finally:
        x = None


def joined(x):
    yield from multiples(x, 2)
    yield x
    yield from [x * 2, x * 3]


def fibonacci(most):
    a, b = 0, 1
    while True:
        if a > most:
            return
        yield a
        a, b = b, a + b


def nested(x):
    total = x * 0
    for value in joined(x):
        for other in multiples(value, 3):
            total = total + other
    return total


def left_early(x):
    total, count = x * 0, 0
    for value in multiples(x, 50):
        count += 1
        if count == 2:
            continue
        if count == 5:
            break
        total = total + value
    else:
        total = total - 100
    for value in multiples(x, 50):
        return total + value + 1
    return None


def taken_whole(x):
    values = list(joined(x))
    pairs = [a + b * n for a in joined(x) for n, b in enumerate(list(multiples(a, 2))) if n < 9]
    named = {n: sum(each * n for each in multiples(x, n)) for n in fibonacci(3)}
    return sum(multiples(x, 4)) + values[0] + len(values) + sum(pairs) * len(pairs) + named[3]


def without_end(x):
    total = 0
    for number in fibonacci(20):
        total = total * 2 + number
    return x * total


def in_turns(x):
    log = []

    def numbers():
        for number in range(3):
            log.append("generator")
            yield number
        log.append("end")

    for number in numbers():
        x = x * len(log) + number
        log.append("loop")
    return x + len(log)


def in_a_loop_of_the_graph(x):
    total = x * 0
    for step in range(1000):
        for value in multiples(x, 3):
            total = total + value * step
    return total


@pytest.mark.parametrize(
    "function",
    [nested, left_early, taken_whole, without_end, in_turns, in_a_loop_of_the_graph],
)
def test_takes_turns_with_the_loop_over_it(function):
    np.testing.assert_allclose(weft.jit(function)(X), function(X))


def decided(x):
    def positive():
        if x.sum() > 0:
            yield x

    for value in positive():
        x = x + value
    return x


def ended(x):
    for value in multiples(x, 3):
        if value.sum() > 2:
            break
    return x


def twice(x):
    values = multiples(x, 3)
    for value in values:
        x = x + value
    for value in values:
        x = x + value
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (decided, "yields that no tensor decides"),
        (ended, "an end that no tensor decides"),
        (twice, "one loop over it, got two"),
        (lambda x: next(multiples(x, 3)), "a loop over it, got next"),
        (lambda x: multiples(x, 3), "values, got the generator"),
    ],
)
def test_refuses_with_the_line(function, message: str):
    with pytest.raises(SourceError, match=rf"test_generators\.py:\d+: .*{message}"):
        weft.jit(function)(X)


def divisor(a, b):
    if b == 0:
        return a
    return divisor(b, a % b)


def test_recursion_that_a_tensor_ends_has_a_bound():
    found = weft.jit(divisor, max_recursion=6)
    for a, b in ((48, 36), (7, 3), (5, 0)):
        assert found(np.array(a), np.array(b)) == divisor(a, b)
    with pytest.raises(RecursionError, match="more than 6 calls"):
        found(np.array(144), np.array(89))
    with pytest.raises(SourceError, match="bound it with max_recursion="):
        weft.jit(divisor)(np.array(48), np.array(36))
