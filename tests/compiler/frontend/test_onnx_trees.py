"""Ensembles of trees beside onnxruntime: every comparison on special floats, sums in its order, few
rows and many, many targets, more nodes than caches hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import weft
from tests.models.peer import run_onnxruntime

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
SPECIAL = (-np.inf, -1.5, -1e-42, -0.0, 0.0, 1e-42, 0.25, 3e38, np.inf, np.nan)


def model_of(trees: dict[str, Any], features: int, dtype: Any = np.float32) -> ModelProto:
    """A regressor over rows of any number."""
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=ML, **trees)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", element, ["rows", features])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", trees["n_targets"]])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(
        helper.make_graph([node], "trees", [x], [y]), opset_imports=opsets, ir_version=9
    )


def grown(counts: list[int], features: int, rng: Any) -> dict[str, Any]:
    """Trees with so many questions, each asked by a leaf of before that is drawn at random."""
    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "modes", "featureids", "values", "trueids", "falseids")
    }
    leaves: list[tuple[int, int]] = []
    for tree, count in enumerate(counts):
        ends, children = [0], dict[int, tuple[int, int]]()
        for question in range(count):
            asking = ends.pop(rng.integers(len(ends)))
            children[asking] = 2 * question + 1, 2 * question + 2
            ends += children[asking]
        for number in range(2 * count + 1):
            true, false = children.get(number, (0, 0))
            row = (tree, number, "BRANCH_LEQ" if true else "LEAF", int(rng.integers(features)),
                   float(rng.normal()), true, false)  # fmt: skip
            for column, value in zip(nodes.values(), row, strict=True):
                column.append(value)
        leaves += [(tree, end) for end in ends]
    return {
        "nodes_treeids": nodes["treeids"], "nodes_nodeids": nodes["nodeids"],
        "nodes_modes": nodes["modes"], "nodes_featureids": nodes["featureids"],
        "nodes_values": nodes["values"], "nodes_truenodeids": nodes["trueids"],
        "nodes_falsenodeids": nodes["falseids"],
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [end for _, end in leaves],
        "target_weights": rng.normal(size=len(leaves)).astype(np.float32).tolist(),
    }  # fmt: skip


def equal(model: ModelProto, rows: Array, counts: tuple[int, ...] = (1, 5, 90)) -> None:
    """Compares bits with onnxruntime's, for so many rows, which are repeated."""
    executable = weft.compile(model, threads=1)
    for count in counts:
        x = np.resize(rows, (count, rows.shape[1]))
        np.testing.assert_array_equal(executable(x)[0], run_onnxruntime(model, {"x": x})[0])


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_comparisons_of_special_floats_are_onnxruntimes(dtype: Any, tracks: int) -> None:
    asked = [(mode, split) for mode in MODES for split in SPECIAL]
    count = len(asked)
    trees: dict[str, Any] = {
        "nodes_treeids": np.repeat(np.arange(count), 3).tolist(),
        "nodes_nodeids": [0, 1, 2] * count,
        "nodes_modes": [x for mode, _ in asked for x in (f"BRANCH_{mode}", "LEAF", "LEAF")],
        "nodes_featureids": [0] * 3 * count,
        "nodes_truenodeids": [1, 0, 0] * count,
        "nodes_falsenodeids": [2, 0, 0] * count,
        "nodes_missing_value_tracks_true": [tracks, 0, 0] * count,
        "target_treeids": np.repeat(np.arange(count), 2).tolist(),
        "target_nodeids": [1, 2] * count,
        "target_ids": np.repeat(np.arange(count), 2).tolist(),
        "n_targets": count,
    }
    splits = np.array([x for _, split in asked for x in (split, 0, 0)], dtype)
    weights = np.array([1, -1] * count, dtype)
    if dtype == np.float64:
        trees["nodes_values_as_tensor"] = numpy_helper.from_array(splits)
        trees["target_weights_as_tensor"] = numpy_helper.from_array(weights)
    else:
        trees |= {"nodes_values": splits.tolist(), "target_weights": weights.tolist()}
    rows = np.array(SPECIAL, dtype).reshape(-1, 1)
    equal(model_of(trees, 1, dtype), rows, (10, 40))


def test_sums_are_in_the_order_of_trees() -> None:
    rng = np.random.default_rng(1)
    trees = grown([30] * 90 + [1, 0, 200], 4, rng)
    trees |= {"target_ids": [0] * len(trees["target_weights"]), "n_targets": 1}
    equal(model_of(trees, 4), rng.normal(size=(90, 4)).astype(np.float32))


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 31), (np.float32, 63), (np.float64, 63)])
def test_leaves_that_are_bits_agree_with_onnxruntime(dtype: Any, most: int) -> None:
    rng = np.random.default_rng(5)
    trees = grown([most, 0, 1, 16, *range(most)], 4, rng)
    trees |= {"target_ids": [0] * len(trees["target_weights"]), "n_targets": 1}
    tracks = rng.integers(2, size=len(trees["nodes_modes"]))
    trees["nodes_missing_value_tracks_true"] = tracks.tolist()
    rows = rng.normal(size=(90, 4)).astype(dtype)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    if dtype == np.float64:
        for name in ("nodes_values", "target_weights"):
            trees[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(trees.pop(name), dtype))
    equal(model_of(trees, 4, dtype), rows, (1, 6, 7, 64, 90))


def test_trees_of_targets_of_their_own_agree_with_onnxruntime() -> None:
    rng = np.random.default_rng(2)
    trees = grown([6] * 40, 4, rng)
    targets = np.array(trees["target_treeids"]) % 3
    trees |= {"target_ids": targets.tolist(), "n_targets": 3}
    equal(model_of(trees, 4), rng.normal(size=(90, 4)).astype(np.float32))


def test_more_targets_than_a_stack_holds_agree_with_onnxruntime() -> None:
    rng = np.random.default_rng(3)
    trees = grown([6] * 4, 4, rng)
    targets = rng.integers(600, size=len(trees["target_weights"]))
    trees |= {"target_ids": targets.tolist(), "n_targets": 600}
    equal(model_of(trees, 4), rng.normal(size=(40, 4)).astype(np.float32), (1, 40))


def test_more_nodes_than_a_cache_holds_agree_with_onnxruntime() -> None:
    rng = np.random.default_rng(4)
    trees = grown([4000] * 9, 4, rng)
    trees |= {"target_ids": [0] * len(trees["target_weights"]), "n_targets": 1}
    equal(model_of(trees, 4), rng.normal(size=(700, 4)).astype(np.float32), (3, 700))


def test_a_node_to_which_several_questions_lead_is_one() -> None:
    """x <= 0 asks y <= 0 and otherwise y <= 1, whose yes is the same question: z <= 0. A question
    about NaN is answered by no alone.
    """
    trees = {
        "nodes_treeids": [0] * 8,
        "nodes_nodeids": [0, 1, 2, 3, 4, 5, 6, 7],
        "nodes_modes": ["BRANCH_LEQ"] * 4 + ["LEAF"] * 3 + ["BRANCH_LEQ"],
        "nodes_featureids": [0, 1, 1, 2, 0, 0, 0, 0],
        "nodes_values": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, np.nan],
        "nodes_truenodeids": [1, 3, 3, 4, 0, 0, 0, 5],
        "nodes_falsenodeids": [2, 6, 7, 5, 0, 0, 0, 4],
        "target_treeids": [0] * 3,
        "target_nodeids": [4, 5, 6],
        "target_ids": [0] * 3,
        "target_weights": [1.0, 2.0, 4.0],
        "n_targets": 1,
    }
    rows = np.stack(np.meshgrid(*[[-1.0, 0.5, 2.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
    x, y, z = rows.T
    asked = np.where(z <= 0, 1.0, 2.0)
    expected = np.where(x <= 0, np.where(y <= 0, asked, 4.0), np.where(y <= 1, asked, 1.0))
    executable = weft.compile(model_of(trees, 3), threads=1)
    for count in (1, 27, 81):
        result = executable(np.resize(rows, (count, 3)))[0]
        np.testing.assert_array_equal(result[:, 0], np.resize(expected, count))
