"""Weights of a model that ranks cut: each reads its part where it is stored."""
# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

NUMBERS = np.random.default_rng(5)
ROWS, INNER, HIDDEN, OUT = 8, 48, 96, 40


def normal(*dims: int):
    return NUMBERS.normal(0, 0.2, dims).astype(np.float32)


WEIGHTS = {"up": normal(INNER, HIDDEN), "bias": normal(HIDDEN), "down": normal(OUT, HIDDEN)}
X = normal(ROWS, INNER)
EXPECTED = np.maximum(X @ WEIGHTS["up"] + WEIGHTS["bias"], 0) @ WEIGHTS["down"].T


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two layers; the second has its weight as PyTorch has it, and it is transposed while compiling
    where ranks do not cut it.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["m"], "/up"),
        helper.make_node("Add", ["m", "bias"], ["a"], "/bias"),
        helper.make_node("Relu", ["a"], ["h"], "/relu"),
        helper.make_node("Gemm", ["h", "down"], ["y"], "/down", transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", (ROWS, INNER)), ("y", (ROWS, OUT)))
    ]
    weights = [numpy_helper.from_array(each, name) for name, each in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("mesh", "shard", "summed"),
    [
        ("model=2", ["up=,model", "down=,model"], 1),
        ("data=2,model=2", ["up=data,model", "down=data,model"], 2),
    ],
)
def test_ranks_compute_with_their_parts(model, mesh: str, shard: list[str], summed: int):
    def run():
        executable = weft.compile(model, threads=1, mesh=mesh, shard=shard, cache=False)
        np.testing.assert_allclose(executable(X)[0], EXPECTED, rtol=1e-4, atol=1e-5)
        return executable.metadata

    found = weft.simulate(2 ** len(mesh.split(",")), run)[0]
    ways = [each["operation"] for each in found["mesh"]["collectives"]]
    assert ways.count("all_reduce") == summed
    assert not any("gather" in name for name in found["kernels"])


@pytest.mark.parametrize("place", ["file", "caller"])
def test_an_artifact_has_the_parts_of_all_ranks(model, place: str, tmp_path: Path):
    options = {"mesh": "model=2", "shard": ["up=,model", "down=,model"]}
    weft.compile(model, weights=place, cache=False, **options).export(tmp_path / "net.so")

    def run():
        given = None if place == "file" else WEIGHTS
        return weft.load(tmp_path / "net.so", threads=1, weights=given)(X)[0]

    for found in weft.simulate(2, run):
        np.testing.assert_allclose(found, EXPECTED, rtol=1e-4, atol=1e-5)


def test_a_weight_that_is_not_there_is_named(model):
    with pytest.raises(weft.OptionError, match="or weights, got upper"):
        weft.compile(model, mesh="model=2", shard=["upper=,model"])
