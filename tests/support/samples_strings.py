"""Samples of operators on strings: short ones that repeat, empty ones, and ends that are none."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, integers, seeds
from weft.dialects.graph import GraphOp
from weft.dialects.graph.classical.strings import EqualStringsOp, HashStringsOp


def strings(draw, count: int):
    """Ends and bytes; now and then in disorder, or outside of the bytes."""
    rng = np.random.default_rng(draw(seeds()))
    lengths = rng.integers(0, 4, count)
    data = rng.integers(0, 2, max(1, int(lengths.sum())), dtype=np.uint8)
    ends = np.cumsum(lengths)
    if draw(st.booleans()):
        ends = rng.integers(-2, len(data) + 3, count)
    return [ends, data]


@st.composite
def hashed(draw) -> Sample:
    """A few strings, and any seed."""
    seed = draw(st.integers(-(2**63), 2**63 - 1))
    return Sample(strings(draw, draw(st.integers(1, 6))), {"seed": seed})


@st.composite
def compared(draw) -> Sample:
    """Two lists of strings, and which to compare."""
    count, others = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    indices = draw(integers((count,), -2, others + 1))
    return Sample([*strings(draw, count), *strings(draw, others), indices])


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    HashStringsOp: hashed(),
    EqualStringsOp: compared(),
}
