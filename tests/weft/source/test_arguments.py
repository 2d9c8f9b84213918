"""A compiled function changes its arguments as Python does, or refuses the call."""

import numpy as np
import pytest

import weft
from weft import InputError, SourceError, Spec


def changing(x, y, out=None):
    x[0] = 5.5
    x *= 2
    row = y[1]
    row += x[0]
    if x.sum() > 3:
        y[0, 0] = 1
    for i in range(60):
        x[1] += i
    np.add(x, 1, out=out)
    return x + y.sum()


def changing_global(x):
    Y[0] = x


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arguments_are_changed(dtype):
    y = np.arange(12, dtype=dtype).reshape(4, 3)[::2]
    ours = [np.arange(3.0), y.copy(), np.zeros(3)]
    theirs = [each.copy() for each in ours]
    compiled = weft.jit(changing)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*ours), changing(*theirs), rtol=1e-6)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6)
    assert len(compiled.compilations) == 1


def test_an_argument_that_is_a_part_of_an_array_changes_it():
    whole = np.zeros((3, 4))

    @weft.jit
    def filled(x):
        x[...] = np.arange(3.0)

    assert filled(whole[:, 1]) is None
    np.testing.assert_array_equal(whole[:, 1], [0, 1, 2])
    assert whole.sum() == 3


Y = np.zeros((2, 3))
LOCKED = np.zeros(3)
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((Y[0], Y, np.zeros(3)), "memory of its own, got one that shares it"),
        ((weft.Tensor(np.zeros(3)), Y, np.zeros(3)), "that may be changed, got another value"),
        ((LOCKED, Y, np.zeros(3)), "got one that is read only"),
    ],
)
def test_arguments_that_cannot_be_changed_are_refused_with_the_line(arguments, text):
    before = Y.copy()
    with pytest.raises(InputError, match=rf"test_arguments.py:11: .*{text}"):
        weft.jit(changing)(*arguments)
    np.testing.assert_array_equal(Y, before)


def test_artifacts_and_captured_arrays_are_not_changed():
    with pytest.raises(SourceError, match="got the caller's"):
        weft.compile(changing, [Spec("float64", (3,)), Spec("float64", (2, 3))])
    with pytest.raises(SourceError, match="which is outside"):
        weft.jit(changing_global)(np.zeros(3))
