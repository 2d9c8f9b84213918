"""weft quantize: what it writes, for onnxruntime and for weft, and what it says of it."""
# pyright: basic

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.weft.cli.command import Command

RNG = np.random.default_rng(3)
WEIGHTS = {"w1": (100, 72), "w2": (40, 72), "b2": (40,), "w3": (72, 9), "small": (9, 9)}
NODES = [
    helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
    helper.make_node("Relu", ["a"], ["r"]),
    helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="second", transB=1),
    helper.make_node("MatMul", ["r", "w3"], ["t"]),
    helper.make_node("MatMul", ["t", "small"], ["z"], name="third"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """Two layers that have a smooth range, one that is rounded away beside large weights."""
    arrays = {name: RNG.standard_normal(shape) * 0.1 for name, shape in WEIGHTS.items()}
    arrays["w3"][::32] = 0.8
    stored = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()]
    graph = helper.make_graph(
        NODES,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 100])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", size])
            for name, size in (("y", 40), ("z", 9))
        ],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path_factory.mktemp("quantize") / "model.onnx"
    onnx.save(model, path)
    return path


def results(path: Path) -> list[np.ndarray]:
    """Of onnxruntime, and of weft that are the same."""
    x = np.linspace(-1, 1, 300, dtype=np.float32).reshape(3, 100)
    theirs = onnxruntime.InferenceSession(path).run(None, {"x": x})
    for ours, other in zip(weft.compile(path)(x), theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-5)
    return theirs


@pytest.mark.parametrize(("bits", "least", "most"), [(4, 18, 25), (8, 42, 50)])
def test_written_model_runs_here_and_in_onnxruntime(
    weft_command: Command, path: Path, tmp_path: Path, bits: int, least: float, most: float
):
    output = tmp_path / "small.onnx"
    text = weft_command.succeeds("quantize", path, "--bits", bits, "-o", output, "--json")
    facts = json.loads(text)
    layers = {each["node"]: each for each in facts["layers"]}
    assert list(layers)[0] == "t", "the worst is first"
    assert least < layers["first"]["snr_db"] < most
    assert [each["node"] for each in facts["kept"]] == ["third"]
    for exact, actual in zip(results(path), results(output), strict=True):
        assert np.abs(exact - actual).max() < 8 * 2.0**-bits * np.abs(exact).max()
    held = {each.name: each.data_type for each in onnx.load(output).graph.initializer}
    floats = sorted(name for name, each in held.items() if each == TensorProto.FLOAT)
    assert floats == ["b2", "small", "w1_scales", "w2_scales", "w3_scales"]


def test_report_names_the_codes_that_are_kept(weft_command: Command, path: Path, tmp_path: Path):
    output = tmp_path / "kept.onnx"
    arguments = ("--bits", "4", "--block", "64", "-o", output, "--keep", "first", "--keep", "t")
    text = weft_command.succeeds("quantize", path, *arguments)
    assert "72 x 40  second" in text
    assert "first  --keep" in text
    assert "third  its sums are of 9 terms, less than a block" in text
    assert "w1" in [each.name for each in onnx.load(output).graph.initializer]


def test_rounded_weights_are_the_nearest_of_their_block():
    from weft.compiler.adapters.quantize_weights import Format, round_to_nearest

    matrix = RNG.standard_normal((3, 70)).astype(np.float32)
    blocks, real = round_to_nearest(matrix, Format(4, 32))
    assert blocks.codes.shape == (3, 3, 16)
    steps = np.repeat(np.abs(blocks.scales), 32, 1)[:, :70]
    largest = np.sign(np.repeat(blocks.scales, 32, 1)[:, :70]) * matrix > 7 * steps
    assert (np.abs(matrix - real)[~largest] <= steps[~largest] / 2 * 1.001).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--block", "24"], "--block requires a power of two, 16 or more, got 24"),
        (["--keep", "q"], "--keep requires the name of a MatMul or Gemm (first, second, t, third)"),
        (["--block", "128"], "first: its sums are of 100 terms, less than a block"),
        (["-o", "no/such.onnx"], "-o requires a folder that exists, got no"),
    ],
)
def test_mistakes_are_explained(
    weft_command: Command, path: Path, arguments: list[str], message: str
):
    assert message in weft_command.fails("quantize", path, "--bits", "4", *arguments)


def test_the_model_is_not_overwritten(weft_command: Command, path: Path):
    message = weft_command.fails("quantize", path, "--bits", "4", "-o", path)
    assert "-o requires another file than the model" in message
