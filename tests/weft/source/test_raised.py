"""`raise` that hangs on a tensor: the call ends with an error of that class, at the user's line."""

import warnings

import numpy as np
import pytest

import weft
from weft.dialects.errors import InputError, RaisedError


class OwnError(Exception):
    """An exception that weft does not know."""


def root(x):
    if np.any(x < 0):
        raise ValueError("negative")
    return np.sqrt(x)


def chosen(x, n):
    if x.sum() > 100:
        raise KeyError(f"{x} is much")
    y = x * 2
    parts = [y, 3]
    if x.sum() > 0:
        kept = y + 1
    else:
        raise TypeError("little")
    for i in range(n):
        if y[i] > 40:
            raise OwnError
        if y[i] > 10:
            break
        y = y + root(y)
    return y, parts, i, kept


def test_values_are_those_of_the_way_that_raises_nothing():
    x = np.array([1.0, 2, 3])
    found, expected = weft.jit(chosen)(x, 3), chosen(x, 3)
    for mine, other in zip(found[::3], expected[::3], strict=True):
        np.testing.assert_allclose(mine, other)
    np.testing.assert_allclose(found[1][0], expected[1][0])
    assert found[2] == expected[2]


@pytest.mark.parametrize(
    ("x", "error_type", "text"),
    [
        ([1.0, 2, 300], KeyError, "raise KeyError"),
        ([1.0, -2, 3], ValueError, r"raise ValueError\('negative'\), at .*test_raised.py:18"),
        ([30.0, 2, 3], RaisedError, "raise OwnError"),
    ],
)
def test_the_error_is_of_the_class_that_is_raised(x, error_type, text):
    with pytest.raises(error_type, match=text) as caught:
        weft.jit(chosen)(np.array(x), 3)
    assert isinstance(caught.value, InputError)


def test_both_ways_within_a_branch_may_raise():
    def parted(x):
        if x > 1:
            if x > 2:
                raise ValueError("large")
            raise TypeError("middling")
        return x + 1

    compiled = weft.jit(parted)
    assert compiled(np.float64(0.5)) == 1.5
    with pytest.raises(ValueError, match="large"):
        compiled(np.float64(3))
    with pytest.raises(TypeError, match="middling"):
        compiled(np.float64(1.5))


def test_settings_of_warnings_are_read():
    def quiet(x):
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return 1 / x

    before = list(warnings.filters)
    np.testing.assert_array_equal(weft.jit(quiet)(np.array([0.0, 2])), [np.inf, 0.5])
    assert warnings.filters == before
