"""Programs give the same results run by Python, on arrays and tensors, and compiled."""

import numpy as np
import pytest

import weft
from tests.weft.source.programs import networks, recurrences, searching
from weft import Tensor
from weft.trees import flatten_exactly, unflatten

PROGRAMS = [*recurrences.PROGRAMS, *searching.PROGRAMS, *networks.PROGRAMS]


def same(found, wanted):
    (got, form), (expected, expected_form) = flatten_exactly(found), flatten_exactly(wanted)
    assert form == expected_form
    for value, each in zip(got, expected, strict=True):
        assert np.shape(value) == np.shape(each)
        assert np.asarray(value).dtype == np.asarray(each).dtype
        np.testing.assert_allclose(np.asarray(value), np.asarray(each), rtol=1e-9, atol=1e-12)


def as_tensors(arguments):
    leaves, form = flatten_exactly(list(arguments))
    arrays = np.ndarray | np.generic
    return unflatten(form, [Tensor(x) if isinstance(x, arrays) else x for x in leaves])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_program(program):
    function, *calls = program
    compiled = weft.jit(function)
    for arguments in calls:
        same(compiled(*arguments), function(*arguments))
    tensors = as_tensors(calls[0])
    before = len(compiled.compilations)
    same(compiled(*tensors), function(*tensors))
    assert len(compiled.compilations) == before
