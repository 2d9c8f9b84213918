"""Division and known indices in every mode: NumPy's results, or an error with the line."""

import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import Spec, Tensor
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.source.interpret import read_function
from weft.tracing.trace import record

INTEGERS = ("int8", "int32", "int64", "uint8", "uint64")
FLOATS = np.array([0.0, 1.0, -1.0, 0.1, -0.7, 3.0, 5.5, np.inf, -np.inf, np.nan])


def pairs(values):
    """All values over all."""
    return (each.ravel().copy() for each in np.meshgrid(values, values))


def extremes(name):
    info = np.iinfo(name)
    small = [0, 1, 2, 3, 7, *([-1, -2, -3, -7] if info.min else [])]
    return np.array([info.min, info.min + 1, *small, info.max - 1, info.max], name)


GIVEN = [each for name in INTEGERS for each in pairs(extremes(name))] + [*pairs(FLOATS)]


def divided(*operands):
    found = []
    for x, y in zip(operands[::2], operands[1::2], strict=True):
        found += [x // y, x % y]
    return found


def check(found):
    with np.errstate(all="ignore"):
        wanted = divided(*GIVEN)
    for got, right in zip(found, wanted, strict=True):
        assert np.asarray(got).dtype == right.dtype
        np.testing.assert_array_equal(np.asarray(got), right)


def test_w6_division_is_numpys_on_tensors():
    """w6: integers over zero are zero, the least one over -1 wraps, floats are rounded down."""
    with np.errstate(all="ignore"):
        check(divided(*map(Tensor, GIVEN)))


@pytest.mark.parametrize("naive", [True, False])
def test_w6_division_is_numpys_in_compiled_programs(naive):
    """w6"""
    check(weft.jit(divided, naive=naive)(*GIVEN))
    if naive:
        check(weft.trace(divided, *GIVEN, naive=True)(*GIVEN))


def test_w6_numbers_of_a_program_divide_as_integers_do():
    """w6"""
    program = weft.jit(lambda x, y: (int(x[0]) // int(y[0]), int(x[0]) % int(y[0])), naive=True)
    given = [(7, 2), (-7, 2), (7, -2), (4, 0), (-(2**63), -1)]
    found = [program(np.array([x]), np.array([y])) for x, y in given]
    assert found == [(3, 1), (-4, 1), (-4, -1), (0, 0), (-(2**63), 0)]


def test_w6_numpys_settings_decide_what_a_zero_does():
    """w6"""
    x, y = Tensor(np.array([4, 0])), Tensor(np.array([0, 0]))
    divisions = (
        lambda: x // y, lambda: x % y, lambda: 4 // y, lambda: x // 0, lambda: divmod(x, y),
    )  # fmt: skip
    for divide in divisions:
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            divide()
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            divide()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (x // 3).tolist() == [1, 0]
        with np.errstate(divide="ignore"):
            assert (x // y).tolist() == [0, 0]


def test_w6_a_rounded_quotient_has_no_slope():
    """w6"""
    x, y = Tensor(np.array([5.5, 1.0])), Tensor(np.array([2.0, 0.0]))
    gradient = weft.grad(lambda x: (x // y * wnp.asarray([1.0, 0.0])).sum() + x.sum())
    assert gradient(x).tolist() == [1.0, 1.0]


V = np.arange(6.0)
M = V.reshape(2, 3)

OUTSIDE = {
    "a number": lambda x: x[6],
    "a negative number": lambda x: x[-7],
    "a list": lambda x: x[[0, 6]],
    "an array": lambda x: x[np.array([[-7]])],
    "one of several": lambda x: x.reshape(2, 3)[:, 3],
    "a list beside a slice": lambda x: x.reshape(2, 3)[:, [0, 3]],
    "two lists": lambda x: x.reshape(2, 3)[[0, 1], [0, 3]],
    "take": lambda x: wnp.take(x, np.array([0, 6])),
    "NumPy's take": lambda x: np.take(x, [6]),
    "the method take": lambda x: x.take([6]),
    "take_along_axis": lambda x: wnp.take_along_axis(x, np.array([-7]), 0),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_w6_known_indices_out_of_range_are_refused_with_the_line(what):
    """w6"""
    call = OUTSIDE[what]
    with pytest.raises(IndexError):
        call(V)
    for run in (
        lambda: call(Tensor(V)),
        lambda: weft.grad(lambda x: call(x).sum())(Tensor(V)),
        lambda: record(call, V),
        lambda: read_function(call, [Spec("float64", V.shape)], {}),
    ):
        with pytest.raises(
            (IndexError, weft.SourceError), match=r"test_division.py:\d+: "
        ) as error:
            run()
        assert any(text in str(error.value) for text in ("requires", "out of bounds"))


WITHIN = {
    "a list of rows": lambda x: x[[1, 0]],
    "a list and a number": lambda x: x[[0, 1], 2],
    "places": lambda x: x[np.array([[1, -1], [0, -2]])],
}


@pytest.mark.parametrize("what", WITHIN)
def test_w6_lists_are_one_part_of_an_index_in_every_mode(what):
    """w6: a trace took the elements of a list for an index each."""
    call = WITHIN[what]
    traced = record(call, M)
    block = traced.module.body.block.first_op.body.block
    (found,) = evaluate_block(block, [M], {}, traced.recording.weights)
    np.testing.assert_array_equal(found, call(M))
    np.testing.assert_array_equal(call(Tensor(M)), call(M))


AXES = {
    "sum": lambda x: x.sum(2),
    "softmax": lambda x: wnp.softmax(x, 2),
    "concat": lambda x: wnp.concat([x, x], 2),
    "stack": lambda x: wnp.stack([x, x], 3),
    "take": lambda x: wnp.take(x, np.array([0]), 2),
    "sort": lambda x: wnp.sort(x, 2),
    "cumulative_sum": lambda x: wnp.cumulative_sum(x, axis=-3),
    "flip": lambda x: wnp.flip(x, 2),
    "moveaxis": lambda x: wnp.moveaxis(x, 2, 0),
    "expand_dims": lambda x: wnp.expand_dims(x, 3),
    "argmax": lambda x: wnp.argmax(x, 2),
}


@pytest.mark.parametrize("what", AXES)
def test_w6_axes_that_are_not_there_are_refused_as_by_numpy(what):
    """w6: they were taken modulo the number of axes."""
    for run in (lambda: AXES[what](Tensor(M)), lambda: record(AXES[what], M)):
        with pytest.raises(
            np.exceptions.AxisError, match=r"test_division.py:\d+: an axis requires"
        ):
            run()
