"""Models that compile in a fraction of a second, for tests of what surrounds the compiler."""

import numpy as np
from onnx import ModelProto

from tests.models.graph_writer import Dim, GraphWriter


def add_model(shape: tuple[Dim, ...] = (8,), dtype: int = 1) -> ModelProto:
    """z = x + y."""
    net = GraphWriter("add", seed=1)
    x, y = net.input("x", shape, dtype), net.input("y", shape, dtype)
    net.output(net.op("Add", x, y), "z", shape)
    net.graph.output[0].type.tensor_type.elem_type = dtype
    return net.model


def dense_model(rows: Dim = 64, bias: float = 0.0) -> ModelProto:
    """y = relu(x W + b) with x (rows, 96) and y (rows, 80): enough work for two threads."""
    net = GraphWriter("dense", seed=1)
    x = net.input("x", (rows, 96))
    weight = net.weight("weight", (96, 80), 0.1)
    added = net.op("Add", net.op("MatMul", x, weight), net.stored("bias", np.full(80, bias, "f4")))
    net.output(net.op("Relu", added), "y", (rows, 80))
    return net.model


def rows_of(count: int, seed: int = 1) -> np.ndarray:
    """An input of `dense_model`."""
    return np.random.default_rng(seed).standard_normal((count, 96)).astype(np.float32)


def dense_reference(model: ModelProto, x: np.ndarray) -> np.ndarray:
    """What `dense_model` gives, in float64."""
    arrays = {
        tensor.name: np.frombuffer(tensor.raw_data, np.float32).reshape(tensor.dims)
        for tensor in model.graph.initializer
    }
    product = x.astype(np.float64) @ arrays["weight"].astype(np.float64)
    return np.maximum(product + arrays["bias"].astype(np.float64), 0.0)
