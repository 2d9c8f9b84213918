"""Buckets: copies of a program for some sizes in one artifact."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import weft
from tests.models.networks import bert_inputs, build_bert
from weft.compiler.driver.named_sizes import Bucket, parse_bucket


def dense() -> ModelProto:
    """Softmax of a product of `x[batch, length, 8]` with a weight."""
    dims = ["batch", "length", 8]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = np.random.default_rng(0).standard_normal((8, 24), np.float32)
    product = helper.make_node("MatMul", ["x", "w"], ["p"])
    nodes = [product, helper.make_node("Softmax", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "dense", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph)


def noise(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(length).standard_normal((batch, length, 8), np.float32)


def test_each_bucket_computes_what_the_model_does(tmp_path: Path) -> None:
    alone = weft.compile(dense())
    run = weft.compile(dense(), buckets=["batch=1,2", "length=3,16"])
    run.export(tmp_path / "dense.so")
    loaded = weft.load(tmp_path / "dense.so")
    for sizes in ((1, 3), (1, 16), (2, 3), (2, 16)):
        (expected,) = alone(noise(*sizes))
        for each in (run, loaded):
            np.testing.assert_allclose(each(noise(*sizes))[0], expected, rtol=1e-6)


def test_sizes_of_no_bucket_are_refused() -> None:
    run = weft.compile(dense(), buckets=["batch,length=1x3,2x16"])
    with pytest.raises(weft.InputError, match="batch, length to be the sizes of a bucket, got 1 a"):
        run(noise(1, 16))


def test_sizes_of_no_bucket_run_the_dynamic_copy() -> None:
    alone = weft.compile(dense())
    run = weft.compile(dense(), buckets=["length=3,16"], bucket_else="dynamic")
    for sizes in ((1, 3), (5, 16), (1, 4), (0, 9)):
        np.testing.assert_allclose(run(noise(*sizes))[0], alone(noise(*sizes))[0], rtol=1e-6)


def test_buckets_share_weights() -> None:
    run = weft.compile(dense(), buckets=["length=16,32,64"])
    assert [weight["bytes"] for weight in run.metadata["weights"]] == [8 * 32 * 4]


def test_buckets_of_few_and_of_many_rows_share_weights() -> None:
    bert = build_bert(layers=1, hidden=32, heads=2, vocabulary=50, positions=64, batch=1)
    alone = weft.compile(bert)
    run = weft.compile(bert, buckets=["sequence=16,64"])
    assert len(run.metadata["weights"]) == len(alone.metadata["weights"])


FIXED = """<ir_version: 9, opset_import: ["" : 18]>
agraph (float[batch, length] x) => (float[] y, float[p, q] z) {
  y = Squeeze (x)
  two = Constant <value = int64[1] {2}> ()
  dims = Concat <axis = 0> (two, two)
  z = Tile (x, dims)
}"""
"""Of a named batch and length, nobody knows which of them Squeeze leaves."""


def test_what_compiles_with_the_sizes_of_buckets_alone_compiles_in_them() -> None:
    model = parser.parse_model(FIXED)
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_param="n")
    with pytest.raises(weft.UnsupportedError, match="requires axes, or a declared rank"):
        weft.compile(model, cache=False)
    run = weft.compile(model, buckets=["batch=1", "length=3,5"], cache=False)
    assert [str(spec.dims) for spec in run.outputs] == ["('length',)", "(2, '2 * length')"]
    for length in (3, 5):
        x = noise(1, length)[..., 0]
        squeezed, tiled = run(x)
        np.testing.assert_array_equal(squeezed, x[0])
        np.testing.assert_array_equal(tiled, np.tile(x, (2, 2)))
    with pytest.raises(weft.InputError, match="to be the sizes of a bucket"):
        run(noise(1, 4)[..., 0])


def test_the_artifact_lists_its_buckets() -> None:
    run = weft.compile(dense(), buckets=["length=16,32"])
    assert run.metadata["buckets"] == [{"length": 16}, {"length": 32}]


def test_a_bucket_of_several_sizes_is_read() -> None:
    assert parse_bucket("h,w=2x3,4x5") == Bucket(("h", "w"), ((2, 3), (4, 5)))


@pytest.mark.parametrize("text", ["h", "h=", "h=a", "h,w=3", "h=3x4", "=3", "h=1,,2"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(weft.OptionError, match="requires a text such as"):
        parse_bucket(text)


def test_buckets_are_of_sizes_of_the_inputs() -> None:
    with pytest.raises(weft.OptionError, match=r"sizes of the inputs \(batch, length\), got width"):
        weft.compile(dense(), buckets=["width=3"])


def test_lesser_sizes_are_padded_to_the_least_bucket(tmp_path: Path) -> None:
    alone = weft.compile(dense())
    buckets = ["batch=4,2", "length=4,16"]
    run = weft.compile(dense(), buckets=buckets, bucket_fit="pad")
    run.export(tmp_path / "dense.so")
    loaded = weft.load(tmp_path / "dense.so")
    for sizes in ((1, 3), (2, 4), (3, 5), (4, 16), (3, 16), (1, 9)):
        (expected,) = alone(noise(*sizes))
        for each in (run, loaded):
            np.testing.assert_allclose(each(noise(*sizes))[0], expected, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(5, 3), (0, 3), (2, 17)])
def test_sizes_within_no_bucket_are_refused(sizes: tuple[int, int]) -> None:
    run = weft.compile(dense(), buckets=["batch,length=2x4,4x16"], bucket_fit="pad")
    with pytest.raises(weft.InputError, match="batch, length to be within a bucket, got"):
        run(noise(*sizes))


def test_sizes_within_no_bucket_run_the_dynamic_copy() -> None:
    alone = weft.compile(dense())
    run = weft.compile(dense(), buckets=["batch=4"], bucket_fit="pad", bucket_else="dynamic")
    for batch in (0, 3, 4, 5):
        np.testing.assert_allclose(run(noise(batch, 3))[0], alone(noise(batch, 3))[0], rtol=1e-6)


def test_a_masked_size_is_padded_on_the_callers_word() -> None:
    bert = build_bert(layers=1, hidden=32, heads=2, vocabulary=50, positions=16)
    options = {"buckets": ["batch=2", "sequence=8,16"], "bucket_fit": "pad"}
    with pytest.raises(weft.UnsupportedError, match="got sequence: node '.*Softmax', which comb"):
        weft.compile(bert, **options)
    run = weft.compile(bert, **options, bucket_masks=["sequence=attention_mask"])
    alone = weft.compile(bert)
    for batch, length in ((1, 5), (2, 8), (1, 12)):
        inputs = bert_inputs(1, batch, length, 50)
        for given, wanted in zip(run(**inputs), alone(**inputs), strict=True):
            np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("masks", "message"),
    [(["length=y"], "an input with the dim length, got y"), (["width=x"], "got width")],
)
def test_masks_are_inputs_with_sizes_that_are_padded(masks: list[str], message: str) -> None:
    with pytest.raises(weft.OptionError, match=message):
        weft.compile(dense(), buckets=["length=3"], bucket_fit="pad", bucket_masks=masks)


def test_masks_without_padding_are_refused() -> None:
    with pytest.raises(weft.OptionError, match="require buckets that are padded to"):
        weft.compile(dense(), buckets=["length=3"], bucket_masks=["length=x"])
