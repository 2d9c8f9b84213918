"""Writes ONNX graphs node by node, with torch's names and seeded random weights."""

from collections.abc import MutableSequence
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, TensorProto, helper, numpy_helper

from weft.cli.demo_model import uniform

Dim = int | str
"""A static extent, or the name of a symbolic one."""


class GraphWriter:
    """Appends nodes and weights to one ONNX model; a tensor is its name.

    A node at `path` "layer1.0.conv1" is called "/layer1.0/conv1/Conv" and its weights
    "layer1.0.conv1.weight", as torch's exporter does.
    """

    def __init__(self, name: str, seed: int, opset: int = 17):
        self.seed = seed
        self.model = ModelProto(ir_version=8, producer_name="weft-tests")
        self.model.opset_import.add(domain="", version=opset)
        self.graph = self.model.graph
        self.graph.name = name
        self._taken: set[str] = set()

    def input(self, name: str, shape: tuple[Dim, ...], dtype: int = TensorProto.FLOAT) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def op(self, op_type: str, *operands: str, path: str = "", **attributes: Any) -> str:
        """Append a node; return the name of its only result."""
        (result,) = self.op_with_results(1, op_type, *operands, path=path, **attributes)
        return result

    def op_with_results(
        self, count: int, op_type: str, *operands: str, path: str = "", **attributes: Any
    ) -> list[str]:
        """Append a node of `count` results; return their names."""
        name = self._unique(f"/{path.replace('.', '/')}/{op_type}".replace("//", "/"))
        results = [f"{name}_output_{position}" for position in range(count)]
        self.graph.node.append(
            helper.make_node(op_type, operands, results, name=name, **attributes)
        )
        return results

    def constant(self, value: ArrayLike, dtype: type = np.int64, path: str = "") -> str:
        """Append a Constant node."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype))
        return self.op("Constant", path=path, value=tensor)

    def stored(self, name: str, values: np.ndarray) -> str:
        """Append an initialiser of given values."""
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, name: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> str:
        """Append a random float initialiser, uniform about `mean`, of standard deviation `std`."""
        values = uniform(prod(shape), self.seed, name)
        values *= np.float32(sqrt(3.0) * std)
        values += np.float32(mean)
        self.graph.initializer.add(
            name=name,
            data_type=TensorProto.FLOAT,
            dims=shape,
            raw_data=values.astype("<f4", copy=False).tobytes(),
        )
        return name

    def output(self, tensor: str, name: str, shape: tuple[Dim, ...]) -> None:
        """Make `tensor`, the last node's result or an earlier one's, the float output `name`."""
        for node in self.graph.node:
            _rename(node.output, tensor, name)
            _rename(node.input, tensor, name)
        self.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def dense(self, x: str, path: str, fan_in: int, fan_out: int, gain: float = 1.0) -> str:
        """x (rows, fan_in) -> (rows, fan_out) by a Gemm with torch's transposed weight."""
        weight = self.weight(f"{path}.weight", (fan_out, fan_in), sqrt(gain / fan_in))
        bias = self.weight(f"{path}.bias", (fan_out,), 0.1)
        return self.op("Gemm", x, weight, bias, path=path, transB=1)

    def _unique(self, name: str) -> str:
        """Return `name`, numbered where it is taken: names identify nodes in error messages."""
        candidate, count = name, 0
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate


def _rename(names: MutableSequence[str], old: str, new: str) -> None:
    for position, name in enumerate(names):
        if name == old:
            names[position] = new
