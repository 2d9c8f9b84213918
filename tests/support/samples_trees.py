"""Samples of ensembles of trees: tables that are trees, and such as are not."""
# pyright: basic

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.support.sample import Sample, seeds
from weft.compiler.frontend.onnx.ops.classical.forest import tables_of
from weft.compiler.frontend.onnx.ops.classical.tree_tables import (
    Forest,
    Leaves,
    Questions,
    masks_of,
    ordered,
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
    forest, depths = grown(
        [draw(st.integers(0, 4)) for _ in range(draw(st.integers(1, 3)))], features, rng
    )
    form = draw(st.sampled_from(["trees", "masks", "none"]))
    order = ordered(forest)
    tables, bits = tables_of(forest.questions, order)
    masks = masks_of(forest, order) if form == "masks" else None
    codes, thresholds, leaves = tables
    if form == "none":
        codes = rng.integers(-99, 999, codes.shape, dtype=np.int32)
    if draw(st.booleans()):
        codes = codes.astype(np.int64)
    rows = rng.integers(-6, 7, (draw(st.sampled_from([1, 3, 70])), features)) / 4
    if missing := draw(st.booleans()):
        rows[rng.random(rows.shape) < 0.2] = np.nan
    weights = rng.integers(-20, 20, (forest.leaves.count, width)).astype(dtype) / 8
    targets = rng.integers(-1, count + 1, len(depths), dtype=np.int32)
    found = () if masks is None else (masks.masks, masks.places, masks.spans)
    ends = (order.roots.astype(np.int32), depths, weights, targets, *found)
    return Sample(
        [rows.astype(dtype), codes, thresholds.astype(dtype), leaves, *ends],
        {
            "count": count,
            "combiner": draw(st.sampled_from(["add", "min", "max"])),
            "missing": missing,
            "bits": bits,
        },
    )


def grown(questions: list[int], features: int, rng):
    """Trees with so many questions each, grown at leaves drawn at random, and their depths."""
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
    leads = np.zeros((asked, 2), np.int64)
    for tree, names in zip(trees, named, strict=True):
        for each, name in zip(tree, names, strict=True):
            if each != "leaf":
                leads[name] = [names[end] for end in each]
    feature, missing = rng.integers(0, features, asked), rng.integers(0, 2, asked)
    split, mode = rng.integers(-6, 7, asked) / 4, np.zeros(asked, np.int64)
    roots = np.array([names[0] for names in named])
    depths = np.array([len(tree) // 2 for tree in trees], np.int32)
    none = np.zeros(leaves, np.int64)
    all_leaves = Leaves(leaves, 1, np.arange(leaves), none, 0.0 * none)
    return Forest(Questions(feature, mode, split, missing, *leads.T), roots, all_leaves), depths


SAMPLES: dict[type[GraphOp], SearchStrategy[Sample]] = {TreeEnsembleOp: ensembles()}
