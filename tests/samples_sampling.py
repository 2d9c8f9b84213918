"""Samples of operators that read between elements: resampling along an axis, points anywhere."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from dialects.graph import GraphOp
from dialects.graph.dtypes import numpy_dtype
from dialects.graph.resample import ResampleOp
from dialects.graph.types import BF16, F16, F32, F64
from dialects.loop.scalar import compute_type
from tests.sample import Sample, floats, integers, shapes

FLOAT = st.sampled_from([F32, F32, F64, F16, BF16])


@st.composite
def resamples(draw) -> Sample:
    """Indices of either sign, a few taps, any axis."""
    element = draw(FLOAT)
    shape = draw(shapes(1))
    axis = draw(st.integers(0, len(shape) - 1))
    batch = draw(st.integers(0, axis))
    table = (*shape[:batch], draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    dim = shape[axis]
    indices = draw(integers(table, -dim, dim - 1, draw(st.sampled_from([np.int32, np.int64]))))
    weights = draw(floats(table, dtype=numpy_dtype(compute_type(element))))
    x = draw(floats(shape, dtype=numpy_dtype(element)))
    attributes = {"axis": axis - draw(st.sampled_from([0, len(shape)])), "batch_dims": batch}
    return Sample([x, indices, weights], attributes)


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {ResampleOp: resamples()}
