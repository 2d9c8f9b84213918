"""NumPy's indices in every mode: arrays with values, traces and programs that are read."""

import numpy as np
import pytest

import weft
from weft import Spec, Tensor
from weft import numpy as wnp

X = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
ONE, TWO = np.array([1, -1, 0]), np.array([[0, 1, 1], [1, 0, -2]])
MASK = X[0, :, :, 0] % 20 > 5

INDICES = {
    "integers": lambda x: (x[-1, 2], x[np.int64(1), 0, -1, np.array(2)]),
    "slices": lambda x: (x[::-1, :-1, 1::2], x[-9:9, :, 4:]),
    "new axes": lambda x: (x[:, None, 1], x[None, ..., 2, None]),
    "ellipsis": lambda x: (x[...], x[1, ..., 2], x[0, 1, 2, ..., 3]),
    "one array": lambda x: (x[..., ONE], x[1:, :, TWO, 1:3]),
    "lists": lambda x: (x[[], 1], x[:, [[0, 2]]], x[(0, 1), 1]),
    "together": lambda x: (x[:, ONE, TWO], x[ONE, 0, ONE]),
    "with an integer": lambda x: (x[0, ONE], x[1, :, ONE, -1]),
    "apart": lambda x: (x[TWO, :, ONE], x[ONE, ..., 1], x[0:1, ONE, TWO, ..., TWO]),
    "masks": lambda x: (x[x > 30], x[:, MASK, 1], x[..., x[0, 0, 0] > 1]),
}  # fmt: skip
"""Parts of an array; NumPy's own answer each."""

REFUSED = [
    (lambda x: x[2], "index 2 is out of bounds for a"),
    (lambda x: x[:, -4], "index -4 is out of bounds for a"),
    (lambda x: x[:, [0, 3]], "index 3 is out of bounds for a"),
    (
        lambda x: x[0, 0, 0, 0, 0],
        "too many indices for array: array is 4-dimensional, but 5 were indexed",
    ),
    (lambda x: x[..., 0, ...], r"an index can only have a single ellipsis \('...'\)"),
    (lambda x: x["name"], "only integers, slices .* are valid indices"),
    (lambda x: x[[0.5]], "(only|arrays used as) .*integer"),
    (lambda x: x[:, np.ones((3, 2), bool)], "boolean index did not match .* along axis 2; size"),
]


def in_every_mode(function):
    yield lambda x: function(Tensor(x))
    yield lambda x: weft.trace(function, x)(x)
    yield weft.jit(function, specs=[Spec("float64", ("a", "b", "c", "d"))])


@pytest.mark.parametrize("function", INDICES.values(), ids=INDICES)
def test_an_index_names_in_every_mode_what_numpy_says(function):
    wanted = function(X)
    for mode in in_every_mode(function):
        for got, want in zip(mode(X), wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_what_is_no_index_is_refused_in_every_mode_in_the_words_of_numpy(function, message):
    with pytest.raises(IndexError, match=message):
        function(X)
    eager, traced, _ = in_every_mode(function)
    modes = (eager, IndexError), (traced, IndexError), (weft.jit(function), weft.WeftError)
    for mode, error in modes:
        with pytest.raises(error, match=rf"test_indexing\.py:\d+: {message}"):
            mode(X)


def test_ends_of_slices_may_be_beyond_an_axis_whose_size_a_call_brings():
    def parts(x, y):
        return x[5:], x[: y.shape[0]], x[:-5], x[2:-1:2], x[wnp.argmax(x) :]

    specs = Spec("float64", ("n",)), Spec("float64", ("m",))
    for compiled in (weft.trace(parts, *specs), weft.jit(parts, specs=specs)):
        for n, m in ((3, 4), (9, 2), (1, 1)):
            x, y = np.sin(np.arange(float(n))), np.zeros(m)
            for got, want in zip(compiled(x, y), parts(x, y), strict=True):
                np.testing.assert_array_equal(got, want)


def test_derivatives_go_through_arrays_that_choose_elements():
    def total(x):
        return sum((each * each).sum() for each in INDICES["apart"](x))

    wanted = weft.grad(total)(Tensor(X)).numpy()
    np.testing.assert_allclose(weft.trace(weft.grad(total), X)(X), wanted)
