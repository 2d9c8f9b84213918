"""The models that other tests compile: well formed, reproducible, sensitive to their input."""

from zlib import crc32

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, checker, numpy_helper

from tests.models import light, networks
from tests.models.peer import run_onnxruntime
from weft.cli import demo_model
from weft.dialects.errors import ModelError

LIGHT_ENOUGH = tuple(name for name in light.LIGHT if name not in light.HEAVY)


def relative_difference(answer, expected) -> float:
    """Return the largest deviation from `expected`, as a fraction of its largest magnitude."""
    return float(np.abs(answer - expected).max() / np.abs(expected).max())


def weighted(name):
    return light.with_random_weights(light.load_light(name), light.SEED)


def test_uniform_has_pinned_bits():
    assert crc32(demo_model.uniform(100_000, 1, "conv1").tobytes()) == 0xC84F8819


def test_uniform_is_spread_evenly():
    values = demo_model.uniform(1_000_000, 1, "conv1")
    assert values.min() >= -1.0
    assert values.max() < 1.0
    counts, _ = np.histogram(values, bins=64, range=(-1.0, 1.0))
    assert np.abs(counts - counts.mean()).max() < 6.0 * np.sqrt(counts.mean())


def test_uniform_streams_are_uncorrelated():
    streams = [
        demo_model.uniform(200_000, seed, name)
        for seed, name in ((1, "conv1"), (1, "conv2"), (2, "conv1"))
    ]
    streams.append(np.roll(streams[0], 1))
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 0.02


def test_uniform_does_not_depend_on_count():
    longer = demo_model.uniform(demo_model.BLOCK + 100, 1, "conv1")
    np.testing.assert_array_equal(demo_model.uniform(500, 1, "conv1"), longer[:500])


def test_load_light_refuses_unknown_name():
    with pytest.raises(ModelError, match="lenet_9000 requires the light models"):
        light.load_light("lenet_9000")


def test_light_names_every_light_model():
    files = sorted(path.stem for path in light.LIGHT_FOLDER.glob("*.onnx"))
    assert files == [f"light_{name}" for name in light.LIGHT]


def test_shipped_output_is_what_onnxruntime_answers_to_the_ramp():
    answer = light.onnxruntime_answer(light.load_light("squeezenet"), light.shipped_input())
    np.testing.assert_allclose(answer, light.shipped_output("squeezenet"), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", light.LIGHT)
def test_shipped_outputs_have_a_thousand_classes(name):
    assert light.shipped_output(name).size == 1000
    assert light.reference(name).shape == light.shipped_output(name).shape


@pytest.mark.parametrize("name", LIGHT_ENOUGH)
def test_random_weights_leave_the_graph_alone(name):
    original, model = light.load_light(name), weighted(name)
    checker.check_model(model)
    kept = [node for node in original.graph.node if node.op_type != "ConstantOfShape"]
    assert list(model.graph.node) == kept
    assert len(model.graph.input) == 1


@pytest.mark.parametrize("name", LIGHT_ENOUGH)
def test_no_random_weight_is_constant(name):
    for tensor in weighted(name).graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor)
            assert values.size == 1 or values.std() > 0.0, tensor.name


@pytest.mark.parametrize("name", LIGHT_ENOUGH)
def test_stored_reference_is_onnxruntimes_answer(name):
    answer = light.onnxruntime_answer(weighted(name), light.seeded_input())
    assert relative_difference(answer, light.reference(name)) < 1e-4


@pytest.mark.parametrize("name", LIGHT_ENOUGH)
def test_answer_depends_on_the_order_of_pixels(name):
    permuted = light.with_permuted_pixels(light.seeded_input())
    answer = light.onnxruntime_answer(weighted(name), permuted)
    assert relative_difference(answer, light.reference(name)) > 0.02


@pytest.mark.parametrize("name", light.LIGHT)
def test_stored_reference_is_not_saturated(name):
    reference = light.reference(name)
    assert np.isfinite(reference).all()
    logits_limit, probability_limit = 100.0, 0.9  # densenet121 alone ends without a softmax
    assert np.abs(reference).max() < (logits_limit if reference.min() < 0.0 else probability_limit)


def test_demo_reference_belongs_to_demo_model():
    answer = light.onnxruntime_answer(demo_model.demo_model(), demo_model.demo_input())
    assert relative_difference(answer, demo_model.demo_reference()) < 1e-4


@pytest.mark.parametrize("network", networks.NETWORKS, ids=lambda network: network.name)
def test_network_is_well_formed(network):
    model = network.build()
    checker.check_model(model, full_check=True)
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


@pytest.mark.parametrize("network", networks.NETWORKS, ids=lambda network: network.name)
def test_network_answers_other_inputs_otherwise(network):
    model = network.build()
    declared = [
        tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in model.graph.output
    ]
    first, second = (run_onnxruntime(model, network.make_inputs(seed)) for seed in (1, 2))
    for shape, answer, other in zip(declared, first, second, strict=True):
        assert all(
            extent in (0, actual) for extent, actual in zip(shape, answer.shape, strict=True)
        )
        assert np.isfinite(answer).all()
        assert 0.05 < np.abs(answer).max() < 100.0
        assert relative_difference(other, answer) > 0.1


def test_networks_are_the_same_each_time():
    first, second = networks.build_mlp(), networks.build_mlp()
    assert first.SerializeToString() == second.SerializeToString()
    assert first.graph.initializer[0] != networks.build_mlp(seed=2).graph.initializer[0]


def test_resnet50_answers_a_thousand_classes():
    (logits,) = run_onnxruntime(networks.build_resnet50(size=64), networks.image_inputs(1, size=64))
    assert logits.shape == (1, 1000)
    assert 0.1 < logits.std() < 10.0


def test_spelled_out_norm_means_the_same():
    sizes = {"layers": 1, "hidden": 64, "heads": 2, "vocabulary": 100, "sequence": 12}
    inputs = networks.bert_inputs(1, 1, 12, 100)
    expected, _ = run_onnxruntime(networks.build_bert(**sizes), inputs)
    spelled_out = networks.build_bert(**sizes, spelled_out=True)
    assert "LayerNormalization" not in {node.op_type for node in spelled_out.graph.node}
    assert relative_difference(run_onnxruntime(spelled_out, inputs)[0], expected) < 1e-5


def test_bert_ignores_masked_tokens():
    model = networks.build_bert(1, 64, 2, 100)
    inputs = networks.bert_inputs(1, 2, 16, 100)
    kept = inputs["attention_mask"].astype(bool)
    assert not kept.all()
    changed = np.where(kept, inputs["input_ids"], (inputs["input_ids"] + 1) % 100)
    expected, _ = run_onnxruntime(model, inputs)
    answer, _ = run_onnxruntime(model, inputs | {"input_ids": changed})
    np.testing.assert_allclose(answer[kept], expected[kept], atol=1e-5)
    assert np.abs(answer - expected)[~kept].max() > 0.1


def test_gpt2_ignores_later_tokens():
    model = networks.build_gpt2(1, 64, 2, 100, context=32)
    ids = networks.gpt2_inputs(1, 1, 16, 100)["input_ids"]
    changed = ids.copy()
    changed[:, 10:] = (ids[:, 10:] + 1) % 100
    (expected,), (answer,) = (
        run_onnxruntime(model, {"input_ids": tokens}) for tokens in (ids, changed)
    )
    np.testing.assert_allclose(answer[:, :10], expected[:, :10], atol=1e-5)
    assert np.abs(answer - expected)[:, 10:].max() > 0.1


def test_saved_weights_lie_beside_the_model(tmp_path):
    model = networks.build_mlp()
    path = networks.save_external(model, tmp_path)
    assert path.stat().st_size < 10_000
    assert (tmp_path / "weights.bin").stat().st_size > 2_000_000
    inputs = networks.image_inputs(1, channels=1, size=28)
    (expected,) = run_onnxruntime(model, inputs)
    (answer,) = onnxruntime.InferenceSession(path).run(None, inputs)
    np.testing.assert_array_equal(answer, expected)
