"""Samples of operators on strings: short ones that repeat, empty ones, and spans that are none."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, integers, seeds
from weft.dialects.graph import GraphOp
from weft.dialects.graph.classical.automaton import FindMatchesOp, MatchStringsOp
from weft.dialects.graph.classical.strings import (
    ArgsortStringsOp,
    CopyStringsOp,
    EqualStringsOp,
    HashStringsOp,
)


def strings(draw, count: int):
    """Starts, ends and bytes; now and then in disorder, or outside of the bytes."""
    rng = np.random.default_rng(draw(seeds()))
    lengths = rng.integers(0, 4, count)
    data = rng.integers(0, 2, max(1, int(lengths.sum())), dtype=np.uint8)
    ends = np.cumsum(lengths)
    if draw(st.booleans()):
        starts, ends = rng.integers(-2, len(data) + 3, (2, count))
        return [starts, ends, data]
    return [ends - lengths, ends, data]


@st.composite
def hashed(draw) -> Sample:
    """A few strings, and any seed."""
    seed = draw(st.integers(-(2**63), 2**63 - 1))
    return Sample(strings(draw, draw(st.integers(1, 6))), {"seed": seed})


@st.composite
def compared(draw) -> Sample:
    """Two lists of strings, one beside the other."""
    count = draw(st.integers(1, 6))
    return Sample([*strings(draw, count), *strings(draw, count)])


@st.composite
def copied(draw) -> Sample:
    """Strings, and where they are to end, with and without room for them."""
    count = draw(st.integers(1, 6))
    starts, ends, data = strings(draw, count)
    targets = np.cumsum(np.maximum(ends - starts, 0))
    if draw(st.booleans()):
        targets = draw(integers((count,), -2, 9))
    return Sample([starts, ends, data, targets], {"size": [draw(st.integers(0, 8))]})


@st.composite
def ordered(draw) -> Sample:
    """A few strings."""
    return Sample(strings(draw, draw(st.integers(1, 9))))


def automaton(draw):
    """A few states that only the bytes 0 and 1 lead to, now and then some that there are not."""
    rng = np.random.default_rng(draw(seeds()))
    states = draw(st.integers(1, 4))
    table = rng.integers(-2, states + draw(st.booleans()), (states, 256)).astype(np.int32)
    return [table, rng.integers(0, 2, states).astype(bool)]


@st.composite
def matched(draw) -> Sample:
    """Strings of an automaton's language or not."""
    return Sample([*strings(draw, draw(st.integers(1, 5))), *automaton(draw)])


@st.composite
def searched(draw) -> Sample:
    """Matches or the pieces between them, with and without room for all."""
    attributes = {
        "count": [draw(st.integers(0, 9))],
        "between": draw(st.booleans()),
        "most": draw(st.integers(-1, 2)),
        "lookahead": draw(st.integers(0, 3)),
    }
    return Sample([*strings(draw, draw(st.integers(1, 5))), *automaton(draw)], attributes)


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    HashStringsOp: hashed(),
    EqualStringsOp: compared(),
    CopyStringsOp: copied(),
    ArgsortStringsOp: ordered(),
    MatchStringsOp: matched(),
    FindMatchesOp: searched(),
}
