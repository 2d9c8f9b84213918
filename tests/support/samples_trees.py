"""Samples of ensembles of trees: tables that are trees, and such as are not."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, seeds
from weft.compiler.frontend.onnx.ops.classical.tree_tables import (
    Forest,
    Leaves,
    Questions,
    masked_forest,
)
from weft.dialects.graph import GraphOp
from weft.dialects.graph.classical.tree_ensemble import TreeEnsembleOp


@st.composite
def ensembles(draw) -> Sample:
    """A few trees of random forms; few rows or more than a block; NaN among the features."""
    rng = np.random.default_rng(draw(seeds()))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    count = draw(st.sampled_from([1, 2, 5]))
    width = draw(st.sampled_from([1, count]))
    features = draw(st.integers(1, 3))
    tables = grown([draw(st.integers(0, 4)) for _ in range(draw(st.integers(1, 3)))], features, rng)
    form = draw(st.sampled_from(["trees", "masks", "none"]))
    (codes, thresholds, leads, roots, depths, leaves), masks = tables, []
    if form == "masks":
        codes, thresholds, leads, roots, *masks = masked(tables)
    if form == "none":
        leads = rng.integers(-9, 99, leads.shape, dtype=np.int32)
    rows = rng.integers(-6, 7, (draw(st.sampled_from([1, 3, 70])), features)) / 4
    if missing := draw(st.booleans()):
        rows[rng.random(rows.shape) < 0.2] = np.nan
    weights = rng.integers(-20, 20, (leaves, width)).astype(dtype) / 8
    targets = rng.integers(-1, count + 1, len(roots), dtype=np.int32)
    return Sample(
        [
            rows.astype(dtype),
            codes,
            thresholds.astype(dtype),
            leads,
            roots,
            depths,
            weights,
            targets,
            *masks,
        ],
        {
            "count": count,
            "combiner": draw(st.sampled_from(["add", "min", "max"])),
            "missing": missing,
        },
    )


def grown(questions: list[int], features: int, rng):
    """Tables of trees with so many questions each, grown at leaves drawn at random."""
    trees, asked, leaves = [], 0, 0
    for count in questions:
        tree = ["leaf"]
        for _ in range(count):
            position = rng.choice([i for i, each in enumerate(tree) if each == "leaf"])
            tree[position] = (len(tree), len(tree) + 1)
            tree += ["leaf", "leaf"]
        trees.append(tree)
        asked, leaves = asked + count, leaves + count + 1
    numbers = iter(range(asked)), iter(range(asked, asked + leaves))
    named = [[next(numbers[each == "leaf"]) for each in tree] for tree in trees]
    leads = np.repeat(np.arange(asked + leaves, dtype=np.int32)[:, None], 2, 1)
    for tree, names in zip(trees, named, strict=True):
        for each, name in zip(tree, names, strict=True):
            if each != "leaf":
                leads[name] = [names[end] for end in each]
    codes = rng.integers(0, 2 * features, asked + leaves, dtype=np.int32)
    thresholds = rng.integers(-6, 7, asked + leaves) / 4
    roots = np.array([names[0] for names in named], np.int32)
    depths = np.array([len(tree) // 2 for tree in trees], np.int32)
    return codes, thresholds, leads, roots, depths, leaves


def masked(tables):
    """The same trees in the order of their answers, with masks and spans."""
    codes, thresholds, leads, roots, _, leaves = tables
    asked = len(codes) - leaves
    numbers = np.arange(leaves)
    questions = Questions(
        codes[:asked], np.arange(asked), thresholds[:asked], codes[:asked] & 1, *leads[:asked].T
    )
    whole = Forest(questions, roots, Leaves(leaves, 1, numbers, 0 * numbers, 0.0 * numbers))
    found = masked_forest(whole)
    assert found is not None, "small trees have masks"
    ordered, ends = found.forest.questions, np.arange(asked, asked + leaves, dtype=np.int32)
    leads = np.stack([np.append(ordered.true, ends), np.append(ordered.false, ends)], 1)
    return [
        np.append(ordered.feature, codes[asked:]).astype(np.int32),
        np.append(ordered.split, thresholds[asked:]),
        leads.astype(np.int32),
        found.forest.roots.astype(np.int32),
        found.masks,
        found.spans,
    ]


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {TreeEnsembleOp: ensembles()}
