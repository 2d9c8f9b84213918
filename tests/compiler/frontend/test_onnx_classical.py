"""Operators of classical machine learning beside onnxruntime: many nodes in one model, which is
compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import weft
from tests.models.peer import run_onnxruntime
from weft.dialects.errors import ModelError, UnsupportedError, WeftError

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
RNG = np.random.default_rng(5)


def node_of(op_type: str, number: int, inputs: Sequence[str], outputs: int, **given: Any) -> Any:
    names = [f"y{number}_{position}" for position in range(outputs)]
    return helper.make_node(op_type, inputs, names, name=f"n{number}", domain=ML, **given)


def model_of(
    nodes: Sequence[Any], inputs: dict[str, Array], outputs: Sequence[Any] = ()
) -> ModelProto:
    """A model whose inputs' first dim varies, and that gives all outputs of its nodes."""
    typed = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), ["rows", *x.shape[1:]]
        )
        for name, x in inputs.items()
    ]
    names = [name for node in nodes for name in node.output]
    declared = outputs or [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(nodes, "classical", typed, declared)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def agree(nodes: Sequence[Any], inputs: dict[str, Array]) -> None:
    """Compares each output of each node with onnxruntime's."""
    model = model_of(nodes, inputs)
    expected = run_onnxruntime(model, inputs)
    given = weft.compile(model, threads=1)(**inputs)
    names = [f"{node.op_type} {name}" for node in nodes for name in node.output]
    for name, ours, theirs in zip(names, given, expected, strict=True):
        assert ours.dtype == theirs.dtype, name
        if ours.dtype == np.object_:
            assert ours.tolist() == theirs.tolist(), name
            continue
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6, err_msg=name)


def refusal(op_type: str, outputs: int = 1, dtype: Any = np.float32, **given: Any) -> WeftError:
    """The error of a node on two features."""
    x = np.ones((3, 2), dtype)
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        weft.compile(model_of([node_of(op_type, 0, ["x"], outputs, **given)], {"x": x}))
    return caught.value


TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")

TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 7, 7, 7, 3],
    "nodes_nodeids": [4, 1, 2, 8, 3, 0, 1, 2, 5],
    "nodes_modes": [
        "BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF", "LEAF",
    ],
    "nodes_featureids": [0, 0, 1, 0, 0, 1, 0, 0, 0],
    "nodes_values": [0.1, 0.0, -0.3, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 8, 0, 0, 1, 0, 0, 0],
    "nodes_falsenodeids": [2, 0, 3, 0, 0, 2, 0, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0, 0],
}  # fmt: skip
"""Three trees: of two questions, of one, and of a leaf alone; nodes are not numbered in order."""

LEAVES = [(0, 1), (0, 8), (0, 3), (7, 1), (7, 2), (3, 5)]


def leaves(role: str, ids: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    """Numbers of the leaves, one for each of the ids in turn."""
    count = len(weights) // len(LEAVES)
    places = [place for place in LEAVES for _ in range(count)]
    return {
        f"{role}_treeids": [tree for tree, _ in places],
        f"{role}_nodeids": [node for _, node in places],
        f"{role}_ids": list(ids) * len(LEAVES),
        f"{role}_weights": list(weights),
    }


def rows_with_gaps() -> Array:
    grid = [np.nan, -1.0, -0.3, 0.1, 0.2, 0.5]
    return np.array([[a, b] for a in grid for b in grid], np.float32)


POSITIVE = [0.05, 0.3, 0.2, 0.1, 0.25, 0.125]
MIXED = [-0.4, 0.3, 0.2, -0.1, 0.25, 0.125]
THREE = [0.3, 0.2, 0.1, 0.0, 0.5, 0.25, 0.1, 0.6, 0.2, 0.3, 0.1, 0.4, 0.2, 0.2, 0.3, 0.1, 0.0, 0.2]


def test_trees_whose_leaves_are_nodes_agree_with_onnxruntime() -> None:
    nodes: list[Any] = []

    def add(op_type: str, outputs: int, **given: Any) -> None:
        nodes.append(node_of(op_type, len(nodes), ["x"], outputs, **TREES, **given))

    for weights in (POSITIVE, MIXED):
        for transform in TRANSFORMS[:4]:
            of_one = leaves("class", [0], weights)
            kinds = {"classlabels_int64s": [5, -9], "post_transform": transform}
            add("TreeEnsembleClassifier", 2, **of_one, **kinds)
            add("TreeEnsembleClassifier", 2, **of_one, **kinds, base_values=[0.05])
    for transform in TRANSFORMS:
        of_three = leaves("class", [0, 1, 2], THREE)
        kinds = {"classlabels_int64s": [5, -9, 2], "post_transform": transform}
        add("TreeEnsembleClassifier", 2, **of_three, **kinds)
        add("TreeEnsembleClassifier", 2, **of_three, **kinds, base_values=[0.1, 0.2, 0.0])
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        one, three = leaves("target", [0], MIXED), leaves("target", [0, 1, 2], THREE)
        add("TreeEnsembleRegressor", 1, **one, n_targets=1, aggregate_function=how)
        add(
            "TreeEnsembleRegressor", 1, **three, n_targets=3, aggregate_function=how,
            base_values=[1.0, 2.0, 3.0],
        )  # fmt: skip
    agree(nodes, {"x": rows_with_gaps()})


def test_linear_models_agree_with_onnxruntime() -> None:
    inputs: dict[str, Array] = {
        "x": np.asarray(RNG.standard_normal((9, 2)), np.float32),
        "i": np.array([[1, -2], [0, 3], [2, 2]]),
    }
    inputs["i"] = np.tile(inputs["i"], (3, 1))
    weights, bias = [0.5, -1.0, 1.0, 0.25, -0.75, 0.5], [0.1, -0.2, 0.3]
    nodes: list[Any] = []

    def add(op_type: str, outputs: int, name: str, **given: Any) -> None:
        nodes.append(node_of(op_type, len(nodes), [name], outputs, **given))

    for transform in TRANSFORMS[:4]:
        for name in inputs:
            kinds: dict[str, Any] = {
                "coefficients": weights,
                "intercepts": bias,
                "post_transform": transform,
            }
            add("LinearClassifier", 2, name, **kinds, classlabels_ints=[4, 7, 1])
            if name == "x":
                add("LinearRegressor", 1, name, **kinds, targets=3)
    for transform in TRANSFORMS[:2]:
        of_one = {"coefficients": weights[:2], "intercepts": [0.1], "post_transform": transform}
        add("LinearClassifier", 2, "x", **of_one, classlabels_ints=[4, 7])
    add("LinearRegressor", 1, "x", coefficients=weights[:2])
    agree(nodes, inputs)


def test_support_vectors_agree_with_onnxruntime() -> None:
    x = np.asarray(RNG.standard_normal((40, 2)), np.float32)
    vectors = np.asarray(RNG.standard_normal((7, 2)), np.float32).reshape(-1).tolist()
    nodes: list[Any] = []

    def add(op_type: str, outputs: int, **given: Any) -> None:
        nodes.append(node_of(op_type, len(nodes), ["x"], outputs, **given))

    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        shared = {
            "kernel_type": kernel, "kernel_params": [0.5, 0.25, 2.0], "support_vectors": vectors,
        }  # fmt: skip
        numbers = [float(number) for number in RNG.standard_normal(14)]
        regression = {"coefficients": numbers[:7], "rho": [0.2], "n_supports": 7}
        add("SVMRegressor", 1, **shared, **regression)
        add("SVMRegressor", 1, **shared, **regression, one_class=1)
        three = {"coefficients": numbers, "rho": [0.1, -0.2, 0.05], "vectors_per_class": [3, 2, 2]}
        add("SVMClassifier", 2, **shared, **three, classlabels_ints=[3, 1, 8])
        two = {"coefficients": numbers[:7], "rho": [0.1], "vectors_per_class": [3, 4]}
        add("SVMClassifier", 2, **shared, **two, classlabels_ints=[3, 8])
        sure = {"prob_a": [-1.5, -0.5, 0.25], "prob_b": [0.1, 0.0, -0.3]}
        add("SVMClassifier", 2, **shared, **three, **sure, classlabels_ints=[3, 1, 8])
        sure = {"prob_a": [-1.5], "prob_b": [0.1], "post_transform": "LOGISTIC"}
        add("SVMClassifier", 2, **shared, **two, **sure, classlabels_strings=["no", "yes"])
    plain = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    add("SVMRegressor", 1, **plain, coefficients=[0.5, -0.25], rho=[0.1])
    for rows in ([0.5, -0.25, 0.1, 1.0, -0.5, 0.3], [0.5, 0.25, 0.1, 1.0], [0.5, -0.25, 0.1, 1.0]):
        linear = {
            "coefficients": rows,
            "rho": [-0.2],
            "classlabels_ints": [3, 1, 8][: len(rows) // 2],
        }
        add("SVMClassifier", 2, **plain, **linear)
    add("SVMClassifier", 2, **plain, **linear, post_transform="SOFTMAX")
    agree(nodes, {"x": x})


def test_features_agree_with_onnxruntime() -> None:
    x = np.array([[1, -2.5, 0], [np.nan, 4, 2], [0, 0, 0], [-3, -4, -1e-8]], np.float32)
    inputs: dict[str, Array] = {"x": np.nan_to_num(x), "gaps": x}
    inputs["i"] = np.array([[1, -2, 0], [7, 4, 2], [0, 0, 0], [3, 100, 5]])
    nodes: list[Any] = []

    def add(op_type: str, names: Sequence[str], **given: Any) -> None:
        nodes.append(node_of(op_type, len(nodes), names, 1, **given))

    for norm in ("MAX", "L1", "L2"):
        add("Normalizer", ["x"], norm=norm)
        add("Normalizer", ["i"], norm=norm)
    for missing in (float("nan"), 4.0):
        add("Imputer", ["gaps"], imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=missing)
    add("Imputer", ["gaps"], imputed_value_floats=[9.0])
    add("Imputer", ["i"], imputed_value_int64s=[9], replaced_value_int64=7)
    add("FeatureVectorizer", ["x", "gaps"], inputdimensions=[3, 3])
    for name in ("x", "i"):
        add("OneHotEncoder", [name], cats_int64s=[4, 0, -2])
    many = list(range(-20, 30, 2))
    for keys in ([4, 0, -2], many):
        values = [key * key + 1 for key in keys]
        floats = [key + 0.5 for key in keys]
        add("LabelEncoder", ["i"], keys_int64s=keys, values_int64s=values)
        add("LabelEncoder", ["i"], keys_int64s=keys, values_floats=floats, default_float=-7.0)
        add(
            "LabelEncoder", ["gaps"], keys_floats=[float(key) for key in keys], values_int64s=values
        )
    agree(nodes, inputs)


def test_zip_maps_are_the_arrays_that_they_wrap() -> None:
    x = np.asarray(RNG.random((4, 2)), np.float32)
    nodes = [
        node_of("ZipMap", 0, ["x"], 1, classlabels_strings=["a", "b"]),
        node_of("ZipMap", 1, ["x"], 1, classlabels_int64s=[3, 1]),
    ]
    outputs: list[Any] = []
    for name, key in (("y0_0", TensorProto.STRING), ("y1_0", TensorProto.INT64)):
        value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        row = helper.make_map_type_proto(key, value)
        outputs.append(helper.make_value_info(name, helper.make_sequence_type_proto(row)))
    model = model_of(nodes, {"x": x}, outputs)
    for array, maps in zip(
        weft.compile(model, threads=1)(x), run_onnxruntime(model, {"x": x}), strict=True
    ):
        keys = ["a", "b"] if "a" in maps[0] else [3, 1]
        np.testing.assert_array_equal(array, [[row[key] for key in keys] for row in maps])


def test_elements_that_are_no_category_end_a_call_where_none_may_be() -> None:
    node = node_of("OneHotEncoder", 0, ["x"], 1, cats_int64s=[1, 2], zeros=0)
    run = weft.compile(model_of([node], {"x": np.ones((2, 2), np.int64)}), threads=1)
    np.testing.assert_array_equal(run(np.array([[1, 2]]))[0], [[[1, 0], [0, 1]]])
    with pytest.raises(weft.InputError, match="requires elements that are categories, got another"):
        run(np.array([[1, 3]]))


def test_a_repeated_key_has_one_value_and_nan_is_a_key() -> None:
    nan = float("nan")
    node = node_of(
        "LabelEncoder", 0, ["x"], 1, keys_floats=[nan, 1.0, 1.0], values_int64s=[4, 5, 5]
    )
    run = weft.compile(model_of([node], {"x": np.ones((2, 2), np.float32)}), threads=1)
    assert run(np.array([[nan, 1.0, 2.0]], np.float32)[:, :2])[0].tolist() == [[4, 5]]
    keys = {"keys_floats": [1.0, 1.0], "values_int64s": [4, 5]}
    assert "one value for each key, got two for 1.0" in str(refusal("LabelEncoder", **keys))


def tree_of(**changes: Any) -> dict[str, Any]:
    return TREES | leaves("class", [0], POSITIVE) | {"classlabels_int64s": [0, 1]} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_modes": ["BRANCH_XOR"] * 9}, "requires a mode of BRANCH_LEQ"),
        ({"nodes_truenodeids": [9] * 9}, "requires a node out of its tree, got 9 in tree 0"),
        ({"nodes_treeids": [0] * 9}, "nodes that differ in tree or number"),
        ({"nodes_values": [0.0]}, "nodes of equally many parts"),
        ({"nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0, 0]}, "a root for each of 3 trees, got 4"),
        ({"class_nodeids": [4, 8, 3, 1, 2, 5]}, "weights of leaves, got one of a node"),
        ({"class_ids": [1] * 6}, "name both classes or the first, got the other"),
        ({"class_ids": [2] * 5 + [0]}, "requires a class from 0 to 1"),
        ({"base_values": [1.0, 2.0]}, "a base value for each of 1 scores, got 2"),
        ({"classlabels_int64s": [1]}, "requires two labels at least, got 1"),
        ({"post_transform": "PROBIT"}, "not PROBIT for one score"),
        ({"nodes_featureids": [2] * 9}, "requires features out of 2, got 2"),
    ],
)
def test_trees_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    assert message in str(refusal("TreeEnsembleClassifier", 2, **tree_of(**changes)))


VECTORS: dict[str, Any] = {
    "coefficients": [1.0] * 2,
    "rho": [0.5],
    "support_vectors": [1.0] * 4,
    "vectors_per_class": [1, 1],
    "classlabels_ints": [0, 1],
    "kernel_params": [0.5, 0.0, 3.0],
}


@pytest.mark.parametrize(
    ("op_type", "outputs", "given", "message"),
    [
        ("LinearClassifier", 2, {"coefficients": [1.0] * 3, "intercepts": [0.0]}, "got 3"),
        ("LinearRegressor", 1, {"coefficients": [1.0] * 2, "post_transform": "SOFTMAX"}, "for one"),
        ("LinearRegressor", 1, {"coefficients": [1.0] * 2, "intercepts": [1.0] * 2}, "intercept"),
        ("SVMClassifier", 2, VECTORS | {"prob_a": [1.0], "prob_b": [1.0] * 2}, "got 1 and 2"),
        ("SVMClassifier", 2, VECTORS | {"coefficients": [1.0]}, "requires 2 coefficients, got 1"),
        ("SVMClassifier", 2, VECTORS | {"rho": [1.0] * 2}, "requires 1 numbers as rho, got 2"),
        ("SVMClassifier", 2, VECTORS | {"kernel_type": "COSINE"}, "a kernel of LINEAR, POLY"),
        ("SVMClassifier", 2, VECTORS | {"support_vectors": [1.0] * 5}, "2 support vectors, got 5"),
        ("Normalizer", 1, {"norm": "L3"}, "a norm of MAX, L1 or L2, got L3"),
        ("Imputer", 1, {"imputed_value_floats": [1.0] * 3}, "one for each column, got 3"),
        ("Imputer", 1, {"imputed_value_int64s": [1]}, "imputed values of the type of"),
        ("FeatureVectorizer", 1, {"inputdimensions": [1]}, "an operand of 1 columns"),
        ("ZipMap", 1, {"classlabels_int64s": [1]}, "a column for each of 1 keys, got 2"),
        ("LabelEncoder", 1, {"keys_int64s": [1], "values_int64s": [1]}, "type of its operand"),
        ("LabelEncoder", 1, {"keys_floats": [1.0], "values_int64s": [1, 2]}, "got 1 and 2"),
        ("OneHotEncoder", 1, {"cats_strings": ["a"]}, "categories of the type of its"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(
    op_type: str, outputs: int, given: dict[str, Any], message: str
) -> None:
    assert message in str(refusal(op_type, outputs, **given))
