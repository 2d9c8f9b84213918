"""Models of ONNX on a mesh: `weft.compile(model, mesh=..., shard=...)` and the command line."""
# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from weft.compiler.machine.python.communication import REACHED


def perceptron() -> onnx.ModelProto:
    """Two layers whose weights are inputs, so that ranks hold parts of them."""
    numbers = [("x", (4, 6)), ("w1", (6, 8)), ("w2", (8, 4))]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in numbers
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, 4))
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=1),
    ]
    graph = helper.make_graph(nodes, "perceptron", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def arrays():
    numbers = np.random.default_rng(5)
    return [numbers.normal(size=dims).astype(np.float32) for dims in ((4, 6), (6, 8), (8, 4))]


def test_a_tensor_parallel_model_computes_what_one_rank_does():
    x, w1, w2 = arrays()
    model = perceptron()
    (expected,) = weft.compile(model)(x, w1, w2)

    def run():
        rows, half = divmod(weft.rank(), 2)
        REACHED.table = 0  # as where nothing has asked yet which rank this is
        shard = {"x": "data", "w1": ",model", "w2": "model"}
        made = weft.compile(model, mesh="data=2,model=2", shard=shard, threads=1)
        parts = np.split(x, 2)[rows], np.split(w1, 2, 1)[half], np.split(w2, 2)[half]
        own = [np.array(each, order="C") for each in parts]
        return made(*own)[0], made.metadata["mesh"]

    for result, mesh in weft.simulate(4, run):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        assert (mesh["axes"], mesh["inputs"], mesh["outputs"]) == (
            "data=2,model=2",
            ["data,", ",model", "model,"],
            [""],
        )
        done = [(each["operation"], each["ranks"], each["bytes"]) for each in mesh["collectives"]]
        assert done == [("all_reduce", 2, 32), ("all_gather", 2, 64)]


def test_an_artifact_has_its_mesh(tmp_path: Path):
    """Written by the command line, and loaded by each rank."""
    from weft.cli.main import main

    onnx.save(perceptron(), tmp_path / "net.onnx")
    path = tmp_path / "net.so"
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(path)]
    assert main([*words, "--mesh", "data=2", "--shard", "x=data", "--shard", "y=data"]) == 0
    x, w1, w2 = arrays()
    (expected,) = weft.compile(perceptron())(x, w1, w2)

    def run():
        own = np.array(np.split(x, 2)[weft.rank()], order="C")
        return weft.load(path, threads=1)(own, w1, w2)[0]

    found = np.concatenate(weft.simulate(2, run))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # Rows need nothing of other ranks, but a program for two is not run by one.
    with pytest.raises(weft.RankError, match="run requires communication of 2 ranks, got 0"):
        weft.load(path, threads=1)(x[:2], w1, w2)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"mesh": "data"}, "a mesh requires names of axes with their sizes"),
        ({"mesh": "data=2", "shard": ["x"]}, "a sharding requires a name and the axes"),
        ({"mesh": "data=3", "shard": ["x=data"]}, r"the sharding of x requires a dim that is a"),
        ({"mesh": "data=2", "shard": ["q=data"]}, "shardings require inputs or outputs"),
        ({"shard": ["x=data"]}, "shardings require a mesh"),
        ({"mesh": "data=2", "buckets": ["n=1"]}, "a mesh requires no buckets"),
    ],
)
def test_wrong_meshes_and_shardings_are_refused(options, rule: str):
    with pytest.raises(weft.OptionError, match=rule):
        weft.compile(perceptron(), cache=False, **options)
