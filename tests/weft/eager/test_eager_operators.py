"""Every operator computes at once on tensors what its reference says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import weft
from tests.support import oracle
from tests.support.sample import Sample
from tests.support.samples import SAMPLES
from weft import Tensor
from weft.dialects.errors import WeftError
from weft.dialects.graph import OPS, GraphOp
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.elementwise import ElementwiseOp
from weft.dialects.graph.core.types import type_of
from weft.dialects.weights import Array

WHOLE = [
    cls for cls in OPS
    if cls.get_irdl_definition().operands and not issubclass(cls, ElementwiseOp)
]  # fmt: skip
"""Those whose operands are more than broadcast to each other."""

TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("cls", WHOLE, ids=lambda cls: cls.name.removeprefix("graph."))
@settings(max_examples=2)
@given(data=st.data())
def test_w5_operators_compute_at_once_what_their_references_say(cls: type[GraphOp], data: Any):
    """w5"""
    sample: Sample = data.draw(SAMPLES[cls])
    op = oracle.operator(cls, sample)
    tensors = [Tensor(each) for each in sample.present]
    attributes = dict(sample.attributes)
    if "to" in attributes:
        attributes["to"] = numpy_dtype(type_of(op.results[0]).element)
    assume(tensors and len(tensors) == len(sample.operands))
    got = tensors[0].results(cls.name.removeprefix("graph."), *tensors, **attributes)
    check([np.asarray(each) for each in got], op.reference(*sample.present))


def test_w5_what_no_pattern_of_sizes_fits_is_compiled_for_its_sizes():
    """w5"""

    def normal(images: Any, scale: Any, bias: Any) -> Any:
        return images.op("group_norm", images, scale, bias, groups=3, epsilon=1e-5)

    given = [np.arange(24.0).reshape(2, 6, 2), np.arange(6.0), np.arange(6.0) + 1]
    wanted = weft.jit(normal, naive=True)(*given)
    np.testing.assert_allclose(np.asarray(normal(*map(Tensor, given))), wanted, rtol=1e-12)


def test_w5_sizes_that_do_not_fit_are_refused_by_the_operator():
    """w5"""
    x, updates = Tensor(np.arange(4.0)), Tensor(np.ones(3))
    with pytest.raises(WeftError, match=r"insert_slice requires indices within an axis of 4"):
        x.op("insert_slice", x, updates, starts=[2], steps=[1])
    with pytest.raises(WeftError, match=r"to be at least 8, got 4"):
        x.op("slice", x, starts=(5,), sizes=(3,), steps=(1,))


@pytest.mark.parametrize("sequence", [list, tuple])
def test_w5_attributes_are_lists_or_tuples_of_any_integers(sequence: type):
    """w5"""
    x = Tensor(np.arange(4.0))
    one, two = sequence([np.int64(1)]), sequence([2])
    got = x.op("slice", x, starts=one, sizes=two, steps=one)
    np.testing.assert_array_equal(np.asarray(got), [1, 2])


def check(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for actual, expected in zip(got, wanted, strict=True):
        assert actual.dtype == expected.dtype
        tolerance = TOLERANCE.get(expected.dtype.name, 0)
        wide = expected.astype(np.float64) if tolerance else expected
        scale = np.abs(wide[np.isfinite(wide)]).max(initial=1.0) if tolerance else 0
        np.testing.assert_allclose(
            actual.astype(wide.dtype), wide, rtol=tolerance, atol=tolerance * scale
        )
