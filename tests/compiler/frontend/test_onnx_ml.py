"""Operators of training and of classical machine learning: values by NumPy, and refusals."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from weft.compiler.adapters.onnx_backend import prepare
from weft.dialects.errors import BudgetError, ModelError, UnsupportedError

Array = np.ndarray[Any, Any]
TRAINING, ML = "ai.onnx.preview.training", "ai.onnx.ml"
RNG = np.random.default_rng(11)


def model_of(
    op_type: str, operands: list[Array], outputs: int = 1, domain: str = "", **attributes: Any
) -> ModelProto:
    names = [f"x{position}" for position in range(len(operands))]
    results = [f"y{position}" for position in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, operands, strict=True)
    ]
    values = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "g", inputs, values)
    imports = [
        helper.make_opsetid("", 25),
        helper.make_opsetid(domain, {ML: 5, TRAINING: 1}.get(domain, 25)),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def results(op_type: str, operands: list[Array], *args: Any, **attributes: Any) -> Any:
    return prepare(model_of(op_type, operands, *args, **attributes)).run(operands)


def numbers(*shape: int) -> Array:
    return np.asarray(RNG.standard_normal(shape), np.float32)


@pytest.mark.parametrize("updates", [0, 3])
@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_of_two_parameters(mode: str, updates: int) -> None:
    rate, count = np.array(0.1, np.float32), np.array(updates, np.int64)
    x, g, v = ([numbers(2), numbers(3)] for _ in range(3))
    kinds = {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.01, "mode": mode}
    got = results("Momentum", [rate, count, *x, *g, *v], 4, TRAINING, **kinds)
    for position in range(2):
        slope = 0.01 * x[position] + g[position]
        velocity = 0.9 * v[position] + (0.5 if updates else 1) * slope
        step = velocity if mode == "standard" else slope + 0.9 * velocity
        np.testing.assert_allclose(got[position], x[position] - rate * step, 1e-5, 1e-6)
        np.testing.assert_allclose(got[position + 2], velocity, 1e-5, 1e-6)


@pytest.mark.parametrize("updates", [0, 3])
def test_adam_corrects_for_the_start(updates: int) -> None:
    rate, count = np.array(0.1, np.float32), np.array(updates, np.int64)
    x, g, v, h = numbers(3), numbers(3), numbers(3), np.abs(numbers(3))
    kinds = {"norm_coefficient_post": 0.25}
    moved, mean, squares = results("Adam", [rate, count, x, g, v, h], 3, TRAINING, **kinds)
    np.testing.assert_allclose(mean, 0.9 * v + 0.1 * g, 1e-5, 1e-6)
    np.testing.assert_allclose(squares, 0.999 * h + 0.001 * g * g, 1e-5, 1e-6)
    corrected = rate
    if updates:
        corrected = rate * np.sqrt(1 - 0.999**updates) / (1 - 0.9**updates)
    want = 0.75 * (x - corrected * mean / (np.sqrt(squares) + 1e-6))
    np.testing.assert_allclose(moved, want, 1e-4, 1e-5)


def test_optimisers_refuse_what_does_not_fit() -> None:
    rate, count = np.array(0.1, np.float32), np.array(0, np.int64)
    with pytest.raises(
        ModelError, match="requires 3 operands for each parameter behind two, got 2"
    ):
        prepare(model_of("Adagrad", [rate, count, numbers(2), numbers(2)], 1, TRAINING))
    operands = [rate, count, *[numbers(2)] * 3]
    kinds = {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.0, "mode": "heavy"}
    with pytest.raises(ModelError, match="a mode of standard or nesterov, got heavy"):
        prepare(model_of("Momentum", operands, 2, TRAINING, **kinds))


def test_batch_norm_in_training_moves_its_statistics() -> None:
    x, scale, bias, mean, var = numbers(4, 3, 5), *(numbers(3) for _ in range(4))
    operands = [x, scale, bias, mean, var]
    kinds = {"training_mode": 1, "momentum": 0.75}
    y, new_mean, new_var = results("BatchNormalization", operands, 3, **kinds)
    batch_mean, batch_var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - batch_mean[:, None]) / np.sqrt(batch_var[:, None] + 1e-5)
    np.testing.assert_allclose(y, normal * scale[:, None] + bias[:, None], 1e-4, 1e-5)
    np.testing.assert_allclose(new_mean, 0.75 * mean + 0.25 * batch_mean, 1e-5, 1e-6)
    np.testing.assert_allclose(new_var, 0.75 * var + 0.25 * batch_var, 1e-5, 1e-6)


@pytest.mark.parametrize("ratio", [0.25, None])
def test_training_drops_a_share_and_scales_the_rest(ratio: float | None) -> None:
    x, given = 1 + np.abs(numbers(40, 50)), np.array(0.5 if ratio is None else ratio, np.float32)
    operands = [x, given, np.array(True)]
    y, mask = results("Dropout", operands, 2, seed=3)
    np.testing.assert_allclose(y, np.where(mask, x / (1 - given), 0), 1e-6)
    assert abs((~mask).mean() - given) < 0.05
    np.testing.assert_array_equal(results("Dropout", operands, 2, seed=3)[1], mask)
    assert (results("Dropout", operands, 2, seed=4)[1] != mask).any()


@pytest.mark.parametrize("threads", [1, 3])
def test_seeds_draw_the_numbers_of_the_reference(threads: int) -> None:
    """More numbers than the generator's state, and probabilities at which nothing is open."""
    x, ratio = numbers(30, 29), np.array(0.3, np.float32)
    chances = np.abs(numbers(30, 29)) % 1
    chances[:2], chances[2:4], chances[4:6] = 0, 1, 0.5
    for op_type, outputs, operands, kinds in (
        ("Dropout", 2, [x, ratio, np.array(True)], {"seed": 2**32 - 3}),
        ("Bernoulli", 1, [chances], {"seed": 7.9, "dtype": 11}),
    ):
        model = model_of(op_type, operands, outputs, **kinds)
        names = [value.name for value in model.graph.input]
        wanted = ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True)))
        got = prepare(model, threads=threads).run(operands)
        for array, expected in zip(got, wanted, strict=True):
            np.testing.assert_allclose(array, expected, 1e-6)


def test_training_that_drops_nothing_keeps_the_operand() -> None:
    operands = [numbers(3), np.array(0, np.float32), np.array(True)]
    y, mask = results("Dropout", operands, 2)
    np.testing.assert_array_equal(y, operands[0])
    assert mask.all()


def test_columns_thresholds_and_scales() -> None:
    x, columns = numbers(2, 4), np.array([3, 1], np.int64)
    got = results("ArrayFeatureExtractor", [x, columns], 1, ML)[0]
    np.testing.assert_array_equal(got, x[:, [3, 1]])
    got = results("ArrayFeatureExtractor", [x[0], columns], 1, ML)[0]
    np.testing.assert_array_equal(got, x[:1, [3, 1]])
    got = results("Binarizer", [x], 1, ML, threshold=0.5)[0]
    np.testing.assert_array_equal(got, (x > 0.5).astype(np.float32))
    offset, scale = [1.0, 2.0, 3.0, 4.0], [2.0]
    got = results("Scaler", [x], 1, ML, offset=offset, scale=scale)[0]
    np.testing.assert_array_equal(got, (x - np.float32(offset)) * 2)
    with pytest.raises(ModelError, match="one offset, or one for each column, got 3"):
        prepare(model_of("Scaler", [x], 1, ML, offset=[1.0] * 3, scale=scale))


NGRAMS: dict[str, Any] = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "ngram_counts": [0, 2],
    "pool_int64s": [5, 7, 5, 6, 6, 6],
    "ngram_indexes": [3, 0, 1, 4],
}


@pytest.mark.parametrize("mode", ["TF", "IDF"])
def test_sequences_are_counted_with_gaps(mode: str) -> None:
    x = np.array([5, 6, 6, 5, 5, 6, 7], np.int64)
    kinds = NGRAMS | {"mode": mode, "weights": [1.0, 2.0, 3.0, 4.0]}
    got = results("TfIdfVectorizer", [x], **kinds)[0]
    counts = {5: 3, 7: 1, (5, 6): 4, (6, 6): 1}
    want = np.zeros(5, np.float32)
    for column, weight, key in zip([3, 0, 1, 4], [1, 2, 3, 4], counts, strict=True):
        want[column] = counts[key] if mode == "TF" else weight
    np.testing.assert_array_equal(got, want)
    assert want[2] == 0


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mode": "FT"}, ModelError, "a mode of TF, IDF or TFIDF, got FT"),
        ({"max_skip_count": -1}, ModelError, "a max_skip_count of at least 0, got -1"),
        ({"ngram_indexes": [0, 1, 4, 2**62]}, BudgetError, "max_bytes"),
        ({"ngram_indexes": [0]}, ModelError, "one index for each sequence"),
        ({"ngram_indexes": [0, 1, 1, 2]}, ModelError, "requires different indices"),
        ({"ngram_counts": [0, 3]}, ModelError, "cut the pool into sequences"),
        ({"weights": [1.0], "mode": "IDF"}, ModelError, "a weight for each sequence, got 1"),
    ],
)
def test_pools_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepare(model_of("TfIdfVectorizer", [np.arange(4)], **({"mode": "TF"} | NGRAMS | changes)))


def test_pools_of_strings_for_numbers_are_refused() -> None:
    kinds = {key: value for key, value in NGRAMS.items() if key != "pool_int64s"}
    x = [np.arange(4)]
    model = model_of("TfIdfVectorizer", x, mode="TF", pool_strings=["a"] * 6, **kinds)
    with pytest.raises(ModelError, match="a pool of the type of its operand, got another"):
        prepare(model)


def forest_of(**changes: Any) -> dict[str, Any]:
    """Two trees over two features: a question of each mode but membership, and one of that."""
    tensors = {
        "nodes_modes": np.array([0, 1, 2, 3, 4, 5, 6], np.uint8),
        "nodes_splits": np.array([0, -1, 1, 0.5, 2, 2, 0], np.float32),
        "leaf_weights": np.array([1, 2, 4, 8, 16, 32, 64, 128], np.float32),
        "membership_values": np.array([1, 3, 5, np.nan], np.float32),
    }
    lists: dict[str, Any] = {
        "tree_roots": [0, 4],
        "nodes_featureids": [0, 1, 1, 0, 0, 1, 1],
        "nodes_truenodeids": [1, 0, 3, 2, 5, 4, 6],
        "nodes_trueleafs": [0, 1, 0, 1, 0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 3, 6, 5, 7],
        "nodes_falseleafs": [0, 1, 1, 1, 0, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 0, 1, 0, 0, 1],
        "leaf_targetids": [0, 1, 2, 0, 1, 2, 0, 1],
        "n_targets": 3,
        **changes,
    }
    return lists | {key: helper.make_tensor(*_stored(key, x)) for key, x in tensors.items()}


def _stored(name: str, array: Array) -> tuple[Any, ...]:
    return name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array


def leaves_of(row: Array) -> list[int]:
    """The leaves that a row comes to, written out."""
    a, b = (float(x) for x in row)
    nan = np.isnan
    first = (1 - (b < -1)) if (a <= 0 or nan(a)) else (3 - (a > 0.5)) if b >= 1 else 3
    second = (5 - (b != 2)) if a == 2 else 6 if (b in (1, 3, 5) or nan(b)) else 7
    return [int(first), int(second)]


@pytest.mark.parametrize("how", [0, 1, 2, 3])
def test_trees_are_walked_to_their_leaves(how: int) -> None:
    grid = [np.nan, -2, -1, 0, 0.5, 1, 2, 3, 4, 5]
    x = np.array([[a, b] for a in grid for b in grid], np.float32)
    got = results("TreeEnsemble", [x], 1, ML, **forest_of(aggregate_function=how))[0]
    limits = np.finfo(np.float32)
    want = np.full((len(x), 3), [0, 0, limits.max, limits.min][how], np.float32)
    for values, row in zip(want, x, strict=True):
        for leaf in leaves_of(row):
            target, weight = leaf % 3, float(2**leaf)
            old = values[target]
            values[target] = [old + weight / 2, old + weight, min(old, weight), max(old, weight)][
                how
            ]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"nodes_truenodeids": [0] * 7}, ModelError, "nodes that lead back to themselves"),
        ({"nodes_falsenodeids": [9] * 7}, ModelError, r"requires a (node|leaf) out of \d, got 9"),
        ({"nodes_featureids": [2] * 7}, ModelError, "requires features out of 2, got 2"),
        ({"nodes_featureids": [0] * 6}, ModelError, "nodes of equally many parts"),
        ({"leaf_targetids": [0]}, ModelError, "a target for each leaf, got 1"),
        ({"leaf_targetids": [3] * 8}, ModelError, "targets of leaves from 0 to 2, got"),
        ({"leaf_targetids": [-1] * 8}, ModelError, "targets of leaves from 0 to 2, got"),
        ({"n_targets": 2**62}, BudgetError, "max_bytes"),
        ({"nodes_trueleafs": [0] * 8}, ModelError, "a node or leaf for each answer true"),
        ({"aggregate_function": 4}, ModelError, "aggregate_function from 0 to 3, got 4"),
        ({"post_transform": 1}, UnsupportedError, "no post_transform, got one"),
    ],
)
def test_trees_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepare(model_of("TreeEnsemble", [numbers(2, 2)], 1, ML, **forest_of(**changes)))
