"""A perceptron from onnx.helper to a call: compile in process, run, export, load again."""

import tempfile
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import weft


def perceptron() -> ModelProto:
    """y = relu(x W + b), for any number of rows."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.standard_normal((4, 3)).astype(np.float32), "W")
    bias = numpy_helper.from_array(np.float32([0.1, 0.2, 0.3]), "b")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "W", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])],
        [weight, bias],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    exe = weft.compile(perceptron(), threads=2)
    print(exe)
    x = np.ones((2, 4), np.float32)
    (y,) = exe(x)
    print(y)
    with tempfile.TemporaryDirectory() as folder:
        exe.export(Path(folder) / "libperceptron.so")
        again = weft.load(Path(folder) / "libperceptron.so")
    assert np.array_equal(again.run({"x": x})["y"], y)


if __name__ == "__main__":
    main()
