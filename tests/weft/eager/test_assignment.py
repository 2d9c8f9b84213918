"""`x[i] = v`, `x += v` and writes through views do what NumPy does for arrays of the program."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec, Tensor
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.trace import record

X = np.array([1.5, 2.0, 3.0])


def through_views(np, x):
    grid = np.zeros((4, 4), dtype="float64")
    row, column, corner = grid[1], grid[:, 2], grid[-1]
    row += 2.0
    column[0] = x[0]
    grid[2:, :2] = x[1]
    corner[::2] = x[:2]
    grid[[0, 3]] = grid[[3, 0]]
    np.multiply(grid, 2.0, out=grid)
    grid.T[0, 1] -= x[2]
    mask = grid > 1.25
    grid[mask] += x[0]
    np.add.at(grid, ([0, 0], [1, 1]), 1.0)
    flat = grid.reshape(-1)
    flat[5] = 7 * x[2]
    wide = grid[None]
    wide[0, 2] *= 3
    other = grid.copy()
    other[0] = 0
    return grid, row, column, corner, flat, other


def test_writes_reach_all_that_shows_an_array():
    wanted = through_views(np, X)
    for found in (
        through_views(wnp, Tensor(X)),
        weft.trace(lambda x: through_views(wnp, x), X)(X),
    ):
        for got, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), right, rtol=1e-15)


def test_derivatives_go_through_writes():
    def loss(x):
        return sum((wnp.sin(each) * each).sum() for each in through_views(wnp, x))

    weft.check_grad(loss, X)
    traced = weft.trace(weft.grad(loss), X)(X)
    np.testing.assert_allclose(traced, np.asarray(weft.grad(loss)(Tensor(X))), rtol=1e-12)


def test_the_last_of_equal_indices_is_written_and_has_the_derivative():
    def loss(x):
        y = wnp.zeros(3, dtype="float64")
        y[[0, 0, 1]] = x
        return (y * y).sum()

    np.testing.assert_array_equal(np.asarray(weft.grad(loss)(Tensor(X))), [0, 4, 6])


def test_what_was_computed_before_a_write_keeps_its_derivative():
    def loss(x):
        y = x * 2
        z = (y * y).sum()
        y[0] = 100.0
        return z + y.sum()

    weft.check_grad(loss, X)


RESULTS = (
    lambda np, a: np.asarray(a), lambda np, a: +a, lambda np, a: np.real(a),
    lambda np, a: a.astype(a.dtype, copy=False), lambda np, a: np.asarray(a, dtype=a.dtype),
    lambda np, a: np.floor(a), lambda np, a: np.round(a), lambda np, a: np.sum(a, ()),
    lambda np, a: np.diff(a, 0), lambda np, a: np.atleast_2d(a), lambda np, a: np.moveaxis(a, 0, 0),
    lambda np, a: np.stack(a), lambda np, a: np.linalg.matrix_power(a, 1), lambda np, a: a.ravel(),
    lambda np, a: np.meshgrid(a, a)[0], lambda np, a: np.diag(a), lambda np, a: np.rollaxis(a, 1),
    lambda np, a: np.nan_to_num(a, copy=False), lambda np, a: np.ascontiguousarray(a.T),
)  # fmt: skip
SQUARE = np.arange(9).reshape(3, 3)


def test_a_result_changes_with_the_array_where_numpys_does_or_is_refused():
    def program(np, call, x):
        a = x.copy()
        b = call(np, a)
        a[...] = 7
        return b

    refused = 0
    for call in RESULTS:
        wanted = program(np, call, SQUARE)
        for mode in (
            lambda call=call: program(wnp, call, Tensor(SQUARE)).numpy(),
            lambda call=call: evaluated(record(lambda x: program(wnp, call, x), SQUARE)),
            lambda call=call: evaluated(
                read_function(lambda x: program(np, call, x), [Spec("int64", (3, 3))], {})
            ),
        ):
            try:
                np.testing.assert_array_equal(mode(), wanted)
            except weft.WeftError:
                refused += 1
    assert refused <= 16


def evaluated(program):
    block = program.module.body.block.first_op.body.block
    inputs = [SQUARE, *[None] * (len(block.args) - 1)]
    return evaluate_block(block, inputs, {}, program.recording.weights)[0]


def refused(function, text):
    with pytest.raises(weft.WeftError, match=rf"test_assignment.py:\d+: .*{text}"):
        function()


def change(x):
    x[0] = 1.0
    return x.sum()


def test_arguments_stay_as_they_are():
    refused(lambda: weft.grad(change)(Tensor(X)), "got an argument")
    refused(lambda: weft.trace(change, X), "got an argument")
    refused(lambda: weft.trace(lambda x: change(x[1:]), X), "got an argument")


def test_arrays_from_outside_a_trace_get_no_traced_element():
    outside = wnp.zeros(3)

    def function(x):
        outside[0] = x[0]
        return x

    with pytest.raises(weft.WeftError, match="got one from outside"):
        weft.trace(function, X)


def test_a_reshape_that_may_be_a_copy_is_used_no_more_after_a_write():
    x = Tensor(np.ones((2, 3))) + 1
    flat = x.reshape(-1)
    flat[0] = 5.0
    assert float(flat[0]) == 5.0
    refused(lambda: x + 1, "a reshape shows")


def test_an_array_that_was_written_itself_stays_known_when_a_reshape_of_it_is_lost():
    x = Tensor(np.ones((2, 3))) + 1
    flat = x.reshape(-1)
    np.add.at(x, ([0, 0], [1, 1]), 3.0)
    assert x.tolist() == [[2, 8, 2], [2, 2, 2]]
    refused(lambda: flat + 1, "a reshape shows")


def test_broadcast_arrays_and_dtypes_that_do_not_fit_are_refused():
    refused(lambda: change(wnp.broadcast_to(Tensor(X), (2, 3))), "elements are its own")
    whole = Tensor(np.arange(3))
    with pytest.raises(weft.WeftError, match="in place requires int64"):
        whole += 0.5
