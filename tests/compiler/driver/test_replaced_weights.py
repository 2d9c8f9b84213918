"""Weights that a caller hands to an artifact are the model's own tensors, whatever graph passes
compute of them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

import weft
from tests.models.graph_writer import GraphWriter
from weft.compiler.machine.artifact.artifact import read_metadata

Arrays = dict[str, np.ndarray]


def convolutions() -> ModelProto:
    """Batch normalisations behind and before convolutions, one by Winograd's filtering, and a
    transposed one.
    """
    net = GraphWriter("convolutions", seed=2)
    x = net.input("x", (1, 16, 30, 30))
    parameters = [net.weight(f"norm.{n}", (24,), 0.2) for n in range(3)]
    variance = net.stored("norm.variance", np.linspace(0.5, 1.5, 24, dtype="f4"))
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = net.op("Conv", x, net.weight("first", (24, 16, 3, 3), 0.1), **pads)
    x = net.op("Relu", net.op("BatchNormalization", x, *parameters, variance))
    x = net.op("BatchNormalization", x, *parameters, variance)
    x = net.op("Conv", x, net.weight("second", (16, 24, 1, 1), 0.2), net.weight("bias", (16,), 0.3))
    up = net.weight("up", (16, 5, 3, 3), 0.1), net.weight("up.bias", (5,), 0.3)
    x = net.op("ConvTranspose", x, *up, strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1])
    net.output(x, "y", (1, 5, 60, 60))
    return net.model


def products() -> ModelProto:
    """Products of one operand that are joined, constants that are moved, and small tensors."""
    net = GraphWriter("products", seed=3)
    x = net.input("x", (4, 64))
    parts: list[str] = []
    for name, columns in (("q", 32), ("k", 32), ("v", 48)):
        product = net.op("MatMul", x, net.weight(f"{name}.weight", (64, columns), 0.1))
        parts.append(net.op("Add", product, net.weight(f"{name}.bias", (columns,), 0.1)))
    x = net.op("Concat", *parts, axis=1)
    turned = net.op("Transpose", x, perm=[1, 0])
    turned = net.op("Mul", turned, net.weight("scale", (112, 1), 1.0))
    x = net.op("Transpose", net.op("Relu", turned), perm=[1, 0])
    doubled = net.op("Mul", net.weight("last", (112, 3), 0.1), net.stored("two", np.float32(2.0)))
    x = net.op("Add", net.op("MatMul", x, doubled), net.weight("last.bias", (3,), 0.1))
    net.output(x, "y", (4, 3))
    return net.model


def normalized() -> ModelProto:
    """Equal tensors that may differ later, and a table that is the model's own."""
    net = GraphWriter("normalized", seed=4)
    x = net.input("x", (2, 40))
    ones, zeros = np.ones(40, np.float32), np.zeros(40, np.float32)
    for n in range(2):
        x = net.op(
            "LayerNormalization", x, net.stored(f"scale.{n}", ones), net.stored(f"b.{n}", zeros)
        )
    places = net.stored("places", np.arange(40)[::-1].copy())
    net.output(net.op("Gather", x, places, axis=1), "y", (2, 40))
    return net.model


MODELS = (convolutions, products, normalized)


def tensors(model: ModelProto) -> Arrays:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def with_others(model: ModelProto, seed: int) -> ModelProto:
    """The model with other values in all weights."""
    rng, other = np.random.default_rng(seed), ModelProto()
    other.CopyFrom(model)
    for each in other.graph.initializer:
        array = numpy_helper.to_array(each)
        if array.dtype == np.float32 and array.size > 1:
            mixed = array * rng.uniform(0.5, 1.5, array.shape) + rng.uniform(0, 0.2, array.shape)
            each.CopyFrom(numpy_helper.from_array(mixed.astype(np.float32), each.name))
    return other


def example(model: ModelProto) -> np.ndarray:
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(5).standard_normal(dims).astype(np.float32)


def exported(model: ModelProto, folder: Path, **options: object) -> Path:
    path = folder / f"lib{model.graph.name}.so"
    weft.compile(model, weights="caller", cache=False, **options).export(path)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("build", MODELS)
def test_tensors_of_the_model_take_the_place_of_others(
    build: Callable[[], ModelProto], tmp_path: Path
):
    model = build()
    path = exported(model, tmp_path)
    wanted = {each["name"] for each in read_metadata(path)["logical_weights"]}
    weights = {name for name, a in tensors(model).items() if a.dtype == np.float32 and a.size > 1}
    assert wanted == weights
    for seed in (1, 2):
        other = with_others(model, seed)
        got = weft.load(path, weights=tensors(other))(example(model))[0]
        want = weft.compile(other, cache=False)(example(model))[0]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_what_the_model_was_compiled_with_gives_the_same_bits(tmp_path: Path):
    model = products()
    loaded = weft.load(exported(model, tmp_path), weights=tensors(model))
    same = weft.compile(model, cache=False, weights="caller")
    assert loaded(example(model))[0].tobytes() == same(example(model))[0].tobytes()


def test_several_levels_and_buckets_share_what_is_prepared(tmp_path: Path):
    model = products()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    path = exported(model, tmp_path, isa=("v2", "v3"), buckets=("rows=2,40",))
    other = with_others(model, 1)
    loaded = weft.load(path, weights=tensors(other))
    for rows in (2, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
        want = weft.compile(other, cache=False)(x)[0]
        np.testing.assert_allclose(loaded(x)[0], want, rtol=1e-4, atol=1e-5)


def test_values_that_decide_something_stay(tmp_path: Path):
    net = GraphWriter("resized", seed=1)
    x = net.input("x", (1, 1, 4, 4))
    scales = net.stored("scales", np.array([1, 1, 2, 2], np.float32))
    weight = net.weight("weight", (8, 1), 1.0)
    net.output(net.op("Mul", net.op("Resize", x, "", scales), weight), "y", (1, 1, 8, 8))
    path = exported(net.model, tmp_path)
    assert [each["name"] for each in read_metadata(path)["logical_weights"]] == ["weight"]
    given = tensors(net.model)
    assert np.isfinite(weft.load(path, weights=given)(np.ones((1, 1, 4, 4), np.float32))[0]).all()
    given["scales"] = np.array([1, 1, 4, 4], np.float32)
    with pytest.raises(weft.InputError, match="'scales' as it was compiled with"):
        weft.load(path, weights=given)
