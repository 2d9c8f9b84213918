"""weft compare: how far two forms of a model differ, and where they part."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.weft.cli.command import Command
from weft.probing.differences import difference


@pytest.fixture
def changed(dense_folder: Path, tmp_path: Path) -> Path:
    """The model with one element of its last weight changed."""
    model = onnx.load(dense_folder / "dense.onnx")
    node = [each for each in model.graph.node if each.op_type in ("MatMul", "Gemm")][-1]
    tensor = next(each for each in model.graph.initializer if each.name in node.input)
    array = numpy_helper.to_array(tensor).copy()
    array.flat[0] += 100
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, tmp_path / "changed.onnx")
    return tmp_path / "changed.onnx"


RANDOM = ("--random", "--dim", "rows=3", "--threads", "1")


def test_artifact_and_model_agree(weft_command: Command, dense_folder: Path):
    forms = (dense_folder / "libdense.so", dense_folder / "dense.onnx")
    facts = json.loads(weft_command.succeeds("compare", *forms, *RANDOM, "--json"))
    assert [each["absolute"] for each in facts["outputs"]] == [0.0]


@pytest.mark.parametrize("other", ["onnxruntime", "naive"])
def test_engines_agree(other: str, weft_command: Command, dense_folder: Path):
    text = weft_command.succeeds("compare", dense_folder / "dense.onnx", other, *RANDOM)
    assert text.startswith("output  absolute  relative")


@pytest.mark.parametrize("other", ["onnxruntime", "naive"])
def test_engines_run_models_alone(other: str, weft_command: Command, dense_folder: Path):
    message = weft_command.fails("compare", dense_folder / "libdense.so", other, *RANDOM)
    assert f"{other} requires a model to run" in message


def test_bisection_names_the_node(weft_command: Command, dense_folder: Path, changed: Path):
    model = dense_folder / "dense.onnx"
    outcome = weft_command("compare", model, changed, *RANDOM, "--bisect")
    assert outcome.status == 1
    node = [each for each in onnx.load(model).graph.node if each.op_type in ("MatMul", "Gemm")][-1]
    assert f"parts at {node.output[0]} of node '{node.name}" in outcome.output


def test_artifacts_have_no_values_inside(weft_command: Command, dense_folder: Path, changed: Path):
    arguments = ("compare", changed, dense_folder / "libdense.so", *RANDOM, "--bisect")
    assert "--bisect requires two models" in weft_command.fails(*arguments)


def test_refuses_an_engine_in_front(weft_command: Command):
    said = weft_command.fails("compare", "onnxruntime", "naive")
    assert said == "compare requires a model or an artifact first, got onnxruntime"


def test_differences_count_neighbours_and_forgive_equal_infinities():
    one = np.array([1.0, np.inf, np.nan, 2.0], np.float32)
    other = np.array([np.nextafter(np.float32(1), np.float32(2)), np.inf, np.nan, 2.0], np.float32)
    found = difference("y", one, other)
    assert (found.ulp, found.scale, found.absolute) == (1.0, 2.0, np.spacing(np.float32(1)))
    assert difference("y", one, np.full(4, 3, np.float32)).absolute == np.inf
