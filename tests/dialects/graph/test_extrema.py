"""What `max` and `min` make of zeros of both signs, as definitions and as code."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.dialects.graph.ops.extremum import MaxOp, MinOp

ZEROS = np.array([0.0, -0.0, 0.0, -0.0], np.float32), np.array([-0.0, 0.0, 0.0, -0.0], np.float32)


@pytest.mark.parametrize(
    ("cls", "function", "negative"),
    [
        (MaxOp, wnp.maximum, [False, False, False, True]),
        (MinOp, wnp.minimum, [True, True, False, True]),
    ],
)
def test_zeros_of_both_signs_are_in_order(cls, function, negative):
    (defined,) = cls.reference(None, *ZEROS)
    computed = weft.trace(function, *ZEROS)(*ZEROS)
    for found in (defined, computed):
        assert np.signbit(np.asarray(found)).tolist() == negative
