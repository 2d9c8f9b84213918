"""Samples of softmax and the normalisations: axes from either end, lines of one element, groups."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, shapes
from tests.support.samples_elementwise import numbers
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.types import BF16, F16, F32, F64
from weft.dialects.graph.ops import lp_norm as norms
from weft.dialects.graph.ops import normalize, softmax

ELEMENTS = st.sampled_from([F32, F32, F64, F64, F16, BF16])
EPSILON = st.sampled_from([1e-5, 1e-2])


@st.composite
def along_axis(draw) -> Sample:
    """A tensor and one of its axes."""
    shape = draw(shapes(1, 3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return Sample([draw(numbers(shape, draw(ELEMENTS)))], {"axis": axis})


@st.composite
def lp_norm(draw) -> Sample:
    """Lines of which one may hold zeros alone."""
    sample = draw(along_axis())
    if draw(st.booleans()):
        sample.present[0][0] = 0
    return Sample(sample.operands, {**sample.attributes, "p": draw(st.integers(1, 2))})


@st.composite
def layer(draw, parameters: int, optional: int = 0) -> Sample:
    """A tensor whose dims from an axis on are normalised, with parameters of these dims."""
    sample = draw(along_axis())
    (operand,), axis = sample.present, sample.attributes["axis"]
    assert isinstance(axis, int)
    count = parameters + (optional if draw(st.booleans()) else 0)
    element = draw(ELEMENTS)
    operand = draw(numbers(operand.shape, element))
    scale_and_bias = [draw(numbers(operand.shape[axis:], element)) for _ in range(count)]
    return Sample([operand, *scale_and_bias], {**sample.attributes, "epsilon": draw(EPSILON)})


@st.composite
def channels(draw, least: int, *, groups: bool = False) -> Sample:
    """A tensor `[n, c, spatial...]` with a scale and a bias for each channel."""
    shape = draw(shapes(least, 4, max_side=3))
    attributes = {"epsilon": draw(EPSILON)}
    if groups:
        attributes["groups"] = draw(st.integers(1, 2))
        shape = (shape[0], attributes["groups"] * shape[1], *shape[2:])
    # Of groups ONNX's evaluator takes the statistics in f32, whatever the element type is.
    element = draw(ELEMENTS.filter(lambda element: not (groups and element == F64)))
    scale, bias = (draw(numbers(shape[1:2], element)) for _ in range(2))
    return Sample([draw(numbers(shape, element)), scale, bias], attributes)


@st.composite
def batch_norm(draw) -> Sample:
    """Given statistics, perhaps of another element type than the operand."""
    sample = draw(channels(2))
    operand, scale, bias = sample.present
    mean = draw(numbers(scale.shape, F32)).astype(scale.dtype)
    variance = draw(numbers(scale.shape, F32, 0, 2)).astype(scale.dtype)
    if operand.dtype == np.float16:
        scale, bias, mean, variance = (x.astype(np.float32) for x in (scale, bias, mean, variance))
    return Sample([operand, scale, bias, mean, variance], sample.attributes)


@st.composite
def mean_variance(draw) -> Sample:
    """Axes in any order, of a tensor of rank 2 or more."""
    shape = draw(shapes(2, 4, max_side=3))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    return Sample([draw(numbers(shape, draw(ELEMENTS)))], {"axes": axes})


@st.composite
def neighbourhood(draw) -> Sample:
    """An image of up to six channels; ONNX's evaluator takes no other rank."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 6)), 2, draw(st.integers(1, 3)))
    attributes = {"size": draw(st.integers(1, 5)), "alpha": 0.25, "beta": 0.75, "bias": 1.5}
    return Sample([draw(numbers(shape, draw(ELEMENTS)))], attributes)


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    softmax.SoftmaxOp: along_axis(),
    softmax.LogSoftmaxOp: along_axis(),
    softmax.HardmaxOp: along_axis(),
    normalize.LayerNormOp: layer(1, optional=1),
    normalize.RmsNormOp: layer(1),
    normalize.LayerNormStatisticsOp: layer(0),
    normalize.InstanceNormOp: channels(3),
    normalize.GroupNormOp: channels(2, groups=True),
    normalize.BatchNormOp: batch_norm(),
    normalize.MeanVarianceNormOp: mean_variance(),
    norms.LpNormOp: lp_norm(),
    normalize.LrnOp: neighbourhood(),
}
