"""Weights of equal bytes are stored once: in the artifact, in this process and in the cache."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

ROWS, COLUMNS = 96, 160


def _model(copies: int) -> bytes:
    """Products with copies of one weight, and a sum with the last under another shape."""
    weight = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    nodes, tensors = [], []
    for n in range(3):
        name = f"w{n if n < copies else 0}"
        nodes.append(helper.make_node("MatMul", [f"x{n}", name], [f"y{n}"]))
        if n < copies:
            tensors.append(numpy_helper.from_array(weight, name))
    last = numpy_helper.from_array(weight.reshape(1, -1), "flat")
    nodes.append(helper.make_node("Add", ["x3", "flat"], ["y3"]))
    shapes = [[4, ROWS]] * 3 + [[2, ROWS * COLUMNS]]
    results = [[4, COLUMNS]] * 3 + [[2, ROWS * COLUMNS]]
    value, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [value(f"x{n}", kind, shape) for n, shape in enumerate(shapes)]
    outputs = [value(f"y{n}", kind, shape) for n, shape in enumerate(results)]
    graph = helper.make_graph(nodes, "copies", inputs, outputs, [*tensors, last])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize(("naive", "forms"), [(True, 1), (False, 2)])
def test_copies_of_a_weight_take_no_space(tmp_path: Path, naive: bool, forms: int):
    sizes: list[int] = []
    for copies in (1, 3):
        exe = weft.compile(_model(copies), naive=naive, cache=False)
        path = tmp_path / f"lib{copies}.so"
        exe.export(path)
        sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1]
    assert sizes[0] < (forms + 1.5) * ROWS * COLUMNS * 4


def test_shared_weights_compute_the_same_from_everywhere(tmp_path: Path):
    rng = np.random.default_rng(1)
    x = [rng.standard_normal((4, ROWS)).astype(np.float32) for _ in range(3)]
    x.append(rng.standard_normal((2, ROWS * COLUMNS)).astype(np.float32))
    cache = weft.Cache(tmp_path / "cache")
    weight = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    expected = [*(each @ weight for each in x[:3]), x[3] + weight.reshape(1, -1)]
    first = weft.compile(_model(3), cache=cache)
    again = weft.compile(_model(3), cache=cache)
    first.export(tmp_path / "libmodel.so")
    for exe in (first, again, weft.load(tmp_path / "libmodel.so")):
        for got, wanted in zip(exe(*x), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
