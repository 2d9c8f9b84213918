"""Products of long sums and of few columns: right for sizes that no block divides, and the same
bits for any number of threads.
"""

import numpy as np
import pytest

import weft

SHAPES = {
    "a prime number of terms": ((16411, 72), (16411, 5), "float32"),
    "sums in registers": ((100_003, 8), (100_003, 5), "float64"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_long_sums(name):
    *shapes, dtype = SHAPES[name]
    draw = np.random.default_rng(0)
    x, y = (draw.standard_normal(shape).astype(dtype) for shape in shapes)
    _check(lambda x, y: 2.0 * (x.T @ y), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_columns(dtype):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((83, 752)).astype(dtype)
    y = draw.standard_normal((752, 7)).astype(dtype)
    _check(lambda x, y: x @ y + 1.0, x, y)


def test_few_columns_of_a_batch():
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((3, 83, 752)), draw.standard_normal((3, 752, 5))
    _check(lambda x, y: x @ y, x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_few_columns_of_open_rows(rows):
    draw = np.random.default_rng(0)
    specs = weft.Spec("float32", ("rows", 512)), weft.Spec("float32", (512, 3))
    program = weft.trace(lambda x, y: x @ y, *specs)
    x, y = (draw.standard_normal(shape).astype(np.float32) for shape in ((rows, 512), (512, 3)))
    np.testing.assert_allclose(program(x, y), x.astype(np.float64) @ y, atol=1e-4)


def _check(function, x, y):
    one, two = (weft.trace(function, x, y, threads=n)(x, y) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    exact = function(x.astype(np.float64), y.astype(np.float64))
    limit = 1e-5 if x.dtype == np.float32 else 1e-12
    assert np.abs(one - exact).max() <= limit * np.abs(exact).max()
