"""Rounds that go from one buffer to the other and back leave what copies would."""

import numpy as np
import pytest

import weft


def spread(x, steps):
    x = x.copy()
    for _ in range(steps):
        x[1:-1] = x[1:-1] + 0.25 * (x[:-2] - 2.0 * x[1:-1] + x[2:])
    return x


def turns(x, y, steps):
    for step in range(steps):
        x, y = x[::-1] + y + step, x * 0.5
    return x, y


@pytest.mark.parametrize("steps", [0, 1, 40, 41])
def test_a_known_number_of_rounds(steps):
    x = np.random.default_rng(0).random((40, 64))
    np.testing.assert_allclose(weft.jit(spread)(x, steps), spread(x, steps), rtol=1e-13)


def test_an_unknown_number_of_rounds():
    draw = np.random.default_rng(0)
    compiled = weft.jit(turns, specs={"steps": weft.Spec("int64", ())})
    for steps in (0, 1, 2, 5):
        x, y = draw.random((2, 4096))
        given = compiled(x, y, np.int64(steps))
        for one, other in zip(given, turns(x, y, steps), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)
