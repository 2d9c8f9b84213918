"""Samples of probabilities of each class against each other."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, seeds
from weft.dialects.graph import GraphOp
from weft.dialects.graph.classical.coupling import CoupleProbabilitiesOp


@st.composite
def squares(draw) -> Sample:
    """A few rows of two to four classes."""
    rng = np.random.default_rng(draw(seeds()))
    classes = draw(st.integers(2, 4))
    pairs = rng.integers(1, 16, (draw(st.integers(1, 3)), classes, classes)) / 16
    lower = np.tril(pairs, -1)
    upper = np.triu(1 - lower.swapaxes(1, 2), 1)
    return Sample([(lower + upper).astype(np.float32)], {"classes": [classes]})


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {CoupleProbabilitiesOp: squares()}
