"""Samples of reductions, searches and pooling: several element types, axes, windows and pads."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, floats, shapes
from tests.support.samples_elementwise import elements, numbers
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.types import BF16, F16, F32, F64, I32, UI8
from weft.dialects.graph.ops import lp_norm, pool, reduce, search


@st.composite
def some_axes(draw, rank: int, least: int = 0) -> list[int]:
    """Axes that differ, some counted from the end."""
    chosen = draw(st.lists(st.integers(0, rank - 1), min_size=least, unique=True))
    return [axis - rank if draw(st.booleans()) else axis for axis in chosen]


OF_NOTHING = (
    reduce.ReduceSumOp,
    reduce.ReduceProdOp,
    reduce.ReduceL1Op,
    reduce.ReduceL2Op,
    reduce.ReduceSumSquareOp,
)
"""Reductions that are finite over no elements."""


@st.composite
def reduction(draw, cls: type[reduce.ReduceOp], low: float = -2) -> Sample:
    """A tensor and axes; where that is finite, there may be nothing along an axis."""
    least = draw(st.sampled_from([0, 1, 1])) if cls in OF_NOTHING else 1
    shape = draw(shapes(1, 3, min_side=least, max_side=3))
    operand = draw(numbers(shape, draw(elements(cls)), low, 2))
    attributes = {"axes": draw(some_axes(len(shape))), "keepdims": draw(st.booleans())}
    return Sample([operand], attributes)


@st.composite
def position(draw) -> Sample:
    """A tensor with ties, and perhaps a NaN, to be searched along an axis."""
    shape = draw(shapes(1, 3))
    operand = draw(numbers(shape, draw(st.sampled_from([F32, F16, I32, UI8])), -2, 2))
    operand = np.round(operand).astype(operand.dtype)
    if operand.dtype.kind == "f" and draw(st.booleans()):
        operand.flat[draw(st.integers(0, operand.size - 1))] = np.nan
    attributes = {
        "axis": draw(st.integers(-len(shape), len(shape) - 1)),
        "keepdims": draw(st.booleans()),
        "select_last_index": draw(st.booleans()),
    }
    return Sample([operand], attributes)


@st.composite
def window(draw, *names: str) -> Sample:
    """An image and a window that fits it; `names` are further flags of the operator."""
    rank = draw(st.integers(1, 3))
    largest = 3 if rank < 3 else 2
    kernel = [draw(st.integers(1, largest)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    spatial = [size + draw(st.integers(0, 3 if rank < 3 else 1)) for size in reach]
    element = draw(st.sampled_from([F32, F64, F16, BF16]))
    operand = draw(numbers((draw(st.integers(1, 2)), 2, *spatial), element))
    attributes: dict[str, object] = {
        "kernel": kernel,
        "dilations": dilations,
        "strides": [draw(st.integers(1, 3)) for _ in range(rank)],
        "ceil_mode": draw(st.booleans()),
        **{name: draw(st.booleans()) for name in names},
    }
    if draw(st.booleans()):
        attributes["pads"] = pads
    return Sample([operand], attributes)


def norm_of(samples: SearchStrategy[Sample]) -> SearchStrategy[Sample]:
    """The samples with an exponent `p`."""

    def extend(sample: Sample) -> SearchStrategy[Sample]:
        exponents = st.integers(1, 3)
        return exponents.map(lambda p: Sample(sample.operands, {**sample.attributes, "p": p}))

    return samples.flatmap(extend)


def image(least: int = 2) -> SearchStrategy[Sample]:
    """A tensor `[n, c, spatial...]`."""
    return shapes(least, 4, max_side=3).flatmap(floats).map(lambda array: Sample([array]))


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    **{op: reduction(op) for op in reduce.OPS},
    reduce.ReduceLogSumOp: reduction(reduce.ReduceLogSumOp, low=1),
    search.ArgMaxOp: position(),
    search.ArgMinOp: position(),
    pool.MaxPoolOp: window(),
    pool.MaxPoolIndicesOp: window("column_major", "per_plane"),
    pool.AveragePoolOp: window("count_include_pad"),
    lp_norm.LpPoolOp: norm_of(window()),
    pool.GlobalAveragePoolOp: image(3),
    pool.GlobalMaxPoolOp: image(3),
    lp_norm.GlobalLpPoolOp: norm_of(image(3)),
}
