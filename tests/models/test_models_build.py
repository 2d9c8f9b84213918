"""The models that other tests compile: well formed, reproducible, sensitive to their input."""

from zlib import crc32

import numpy as np
import pytest
from onnx import TensorProto, checker, numpy_helper

from compiler.cli import demo_model
from dialects.errors import ModelError
from tests.models import light

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


def test_shipped_output_is_what_onnxruntime_answers_to_the_ramp():
    answer = light.run_onnxruntime(light.load_light("squeezenet"), light.shipped_input())
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
    answer = light.run_onnxruntime(weighted(name), light.seeded_input())
    assert relative_difference(answer, light.reference(name)) < 1e-4


@pytest.mark.parametrize("name", LIGHT_ENOUGH)
def test_answer_depends_on_the_order_of_pixels(name):
    permuted = light.with_permuted_pixels(light.seeded_input())
    answer = light.run_onnxruntime(weighted(name), permuted)
    assert relative_difference(answer, light.reference(name)) > 0.02


@pytest.mark.parametrize("name", light.LIGHT)
def test_stored_reference_is_not_saturated(name):
    reference = light.reference(name)
    assert np.isfinite(reference).all()
    logits_limit, probability_limit = 100.0, 0.9  # densenet121 alone ends without a softmax
    assert np.abs(reference).max() < (logits_limit if reference.min() < 0.0 else probability_limit)


def test_demo_reference_belongs_to_demo_model():
    answer = light.run_onnxruntime(demo_model.demo_model(), demo_model.demo_input())
    assert relative_difference(answer, demo_model.demo_reference()) < 1e-4
