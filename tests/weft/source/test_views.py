"""Parts of arrays that are changed, and what bools choose from several arrays."""

import numpy as np
import pytest

import weft
from weft import InputError, SourceError

X = np.arange(9.0).reshape(3, 3)


def changing_transposed(x, c):
    y = np.dot(x, x.T).T
    y += c
    a = x * 2
    a = a.T
    a[0] = 5.0
    b = np.moveaxis(x * 3, 0, 1)
    row = b[1]
    row *= 2
    return y, a, b, row


def test_a_part_that_nothing_else_shows_may_be_changed():
    found, expected = weft.jit(changing_transposed)(X, X[0] + 1), changing_transposed(X, X[0] + 1)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other)


def of_a_name(x):
    a = x * 2
    b = a.T
    b += 1
    return a


def of_a_list(x):
    parts = [x * 2]
    b = parts[0].T
    b += 1
    return parts


def of_another_part(x):
    a = x * 2
    b, c = a.T, a.reshape(-1)
    a = None
    b += 1
    return c


def of_an_argument(x):
    x = x.T
    x += 1
    return x


@pytest.mark.parametrize("function", [of_a_name, of_a_list, of_another_part, of_an_argument])
def test_a_part_of_what_is_shown_elsewhere_is_refused(function):
    with pytest.raises(SourceError, match="a part that an index names"):
        weft.jit(function)(X.copy())


def by_masks(x, y):
    small = x < 4
    w = np.zeros(x.shape)
    w[~small] = np.log(x[~small]) + y[~(x < 4)]
    w[small & (y > 1)] = x[small & (y > 1)] * 2
    return w


def test_bools_that_are_computed_again_choose_as_many():
    np.testing.assert_allclose(weft.jit(by_masks)(X, X.T), by_masks(X, X.T))


def test_other_bools_have_to_choose_as_many():
    def chosen(x, least):
        w = np.stack([x[0], x[1]])
        w[:, x[2] > least] = w[:, x[2] > 6.5]
        w[w > 2.5] = x[1]
        return w

    compiled = weft.jit(chosen)
    np.testing.assert_allclose(compiled(X, np.float64(6.9)), chosen(X, 6.9))
    with pytest.raises(InputError, match="requires sizes 3 = count_2, got 3 and 4"):
        compiled(X + 1, np.float64(6.9))
    with pytest.raises(InputError, match="requires sizes count = count_1, got 2 and 1"):
        compiled(X, np.float64(7.9))
