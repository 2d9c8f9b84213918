"""Programs give the same results run by Python and compiled from their source."""

import numpy as np
import pytest

import weft
from tests.programs import networks, recurrences, searching
from weft.source.trees import flatten

PROGRAMS = [*recurrences.PROGRAMS, *searching.PROGRAMS, *networks.PROGRAMS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_program(program):
    function, *calls = program
    compiled = weft.jit(function)
    for arguments in calls:
        expected, expected_form = flatten(function(*arguments))
        got, form = flatten(compiled(*arguments))
        assert form == expected_form
        for value, wanted in zip(got, expected, strict=True):
            assert np.shape(value) == np.shape(wanted)
            assert np.asarray(value).dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12)
