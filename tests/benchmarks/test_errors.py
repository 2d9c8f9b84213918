"""Errors against float64: models widened, errors by their outputs' scale, the table."""

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from benchmarks.errors import (
    error,
    measure_case,
    recorded,
    samples_of,
    table,
    together,
    widened,
    worst_ratio,
)
from benchmarks.models import MORE_MODELS, find_cases


@pytest.mark.parametrize("name", ["lenet_b1", "lstm_2x512"])
def test_widened_models_have_no_float32(name: str):
    model = widened(find_cases([name])[0].build())
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    values = (*model.graph.input, *model.graph.output)
    kinds |= {value.type.tensor_type.elem_type for value in values}
    assert TensorProto.DOUBLE in kinds
    assert TensorProto.FLOAT not in kinds


def test_widening_keeps_the_model_and_its_values():
    case = next(case for case in MORE_MODELS if case.name == "lstm_2x512")
    model = case.build()
    before = model.SerializeToString()
    wide = widened(model)
    assert model.SerializeToString() == before
    for old, new in zip(model.graph.initializer, wide.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(old), numpy_helper.to_array(new))


def test_errors_are_relative_to_each_output():
    exact = [np.array([3.0, -4.0]), np.array([0.0]), np.array([1])]
    got = [np.array([3.0, -3.0], np.float32), np.array([0.0], np.float32), np.array([2])]
    assert error(got, exact)["max"] == 0.25
    assert error(got, exact)["rms"] == pytest.approx(np.sqrt((0.5 / 12.5 + 0) / 2), rel=1e-3)


def test_samples_have_the_same_floats_in_other_orders():
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.arange(4)}
    first, *others = samples_of(inputs)
    assert first is inputs
    for other in others:
        np.testing.assert_array_equal(np.sort(other["x"], axis=None), np.arange(6))
        assert other["x"].shape == (2, 3)
        np.testing.assert_array_equal(other["n"], np.arange(4))
    assert any((other["x"] != inputs["x"]).any() for other in others)


def test_errors_of_samples_together():
    found = together([{"rms": 3.0, "max": 1.0}, {"rms": 4.0, "max": 7.0}])
    assert found == {"rms": pytest.approx(np.sqrt(12.5), rel=1e-3), "max": 7.0}


def test_a_model_is_measured_against_onnxruntime(tmp_path):
    row = measure_case(find_cases(["lenet_b1"])[0])
    assert "direct" not in row
    assert 0 < worst_ratio(row) < 10
    assert row["weft"]["rms"] < 1e-5
    assert table([row]).splitlines()[-1].startswith("| lenet_b1 | ")
    assert recorded(tmp_path / "none.jsonl") == {}
