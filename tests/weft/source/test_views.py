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


def written_through(x):
    parts = [x * 2]
    b = parts[0].T
    b += 1
    row = np.flip(np.moveaxis(parts[0], 0, 1)[1:], 1)[0]
    row[::2] = x[0, 1:3]
    z = np.zeros((3, 4))
    flat, column = z.reshape(12), np.expand_dims(z, 0).T[2]
    flat[5:7] = x[2, :2]
    z.ravel()[::5] += x.sum()
    z[1:].reshape(-1)
    column[...] -= flat[5]
    for k in range(3):
        z.swapaxes(0, 1)[k + 1] += k * x[k]
    v = x[1] + 0
    v.reshape(3, 1)[1:] = np.array([[7.0], [x[0, 0]]])
    w = x.T.copy()
    w.ravel()[::4] = x[0, 1]
    c = (x + 1j).T.copy()
    c.T[0] *= 1j
    x = x.T
    x[1:] += 1
    return parts[0], b, w, z, flat, column, v, c.real, c.imag


def total(x):
    return sum(np.sum(np.sin(each)) for each in written_through(x + 0))


def test_writes_through_transposes_and_certain_reshapes_reach_the_array():
    ours, theirs = X.copy(), X.copy()
    found, expected = weft.jit(written_through)(ours), written_through(theirs)
    for mine, other in zip((*found, ours), (*expected, theirs), strict=True):
        np.testing.assert_allclose(mine, other)
    slopes = weft.jit(weft.grad(total))(X)
    for place in ((0, 0), (0, 2), (2, 1)):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        slope = (total(X + step) - total(X - step)) / 2e-6
        np.testing.assert_allclose(slopes[place], slope, rtol=1e-5, atol=1e-7)


def of_another_part(x):
    a = x * 2
    b, c = a.T, a.reshape(-1)
    a = None
    b += 1
    return c


def of_a_reshape(x):
    a = x * 2
    a.reshape(-1)[0] = 5
    return a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_another_part, "that the array stays as it is"),
        (of_a_reshape, "to be known which part"),
    ],
)
def test_parts_that_nothing_may_change_or_know_are_refused(function, message: str):
    with pytest.raises(SourceError, match=message):
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
