"""Samples of every operator: `SAMPLES` maps its class to a strategy of operands and attributes."""

from __future__ import annotations

from hypothesis.strategies import SearchStrategy

from tests.support import (
    samples_blocks,
    samples_contraction,
    samples_coupling,
    samples_elementwise,
    samples_movement,
    samples_normalize,
    samples_reduce,
    samples_sampling,
    samples_strings,
    samples_trees,
)
from tests.support.sample import Sample
from weft.dialects.graph import GraphOp

SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {
    **samples_elementwise.SAMPLES,
    **samples_movement.SAMPLES,
    **samples_reduce.SAMPLES,
    **samples_contraction.SAMPLES,
    **samples_blocks.SAMPLES,
    **samples_coupling.SAMPLES,
    **samples_normalize.SAMPLES,
    **samples_sampling.SAMPLES,
    **samples_trees.SAMPLES,
    **samples_strings.SAMPLES,
}
"""By family; `tests/dialects/graph/test_ops.py` runs every facet of an operator on its samples."""
