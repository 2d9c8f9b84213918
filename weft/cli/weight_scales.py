"""How far random weights may spread for a convolutional graph's activations to keep their scale.

The graph is walked once with an estimate of every tensor's power, the mean of its squares. A
layer's weights are spread such that its result has the power that its reader wants; estimates are
rough, and a factor of two is harmless.
"""

from collections.abc import Iterator
from functools import cached_property
from math import prod, sqrt

from msgspec import Struct
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

SCALE_KEEPING = (
    "Relu",
    "MaxPool",
    "GlobalAveragePool",
    "AveragePool",
    "Dropout",
    "Reshape",
    "Identity",
)
"""Ops behind which a layer looks for the reader that decides about its result's power."""
POWER_FACTORS = {"Relu": 0.5, "MaxPool": 2.0, "AveragePool": 0.8, "GlobalAveragePool": 0.6}
LOGIT_POWER = 9.0
"""Logits of standard deviation 3: the largest probabilities stand out and none takes all."""


class Spread(Struct, frozen=True):
    """A weight's shape and its range: uniform in [centre - radius, centre + radius)."""

    shape: tuple[int, ...]
    centre: float
    radius: float


def weight_spreads(graph: GraphProto) -> dict[str, Spread]:
    """Return the spread of each float weight that a node of `graph` reads, by name."""
    weights = _Weights(graph)
    powers: dict[str, float] = {}
    spreads: dict[str, Spread] = {}
    for node in graph.node:
        if node.output[0] in weights.shapes:
            continue
        wanted = weights.wanted_power(node)
        power = powers.get(node.input[0], 1.0)
        for position, name in enumerate(node.input):
            source = weights.source(name)
            if source is not None:
                shape = weights.shapes[source]
                spreads[source] = _spread(node, position, shape, power, wanted)
        powers[node.output[0]] = _result_power(node, powers, wanted)
    return spreads


class _Weights:
    """The float constants of a graph (initialisers, ConstantOfShape nodes) and who reads them."""

    def __init__(self, graph: GraphProto):
        self._graph = graph
        self.shapes: dict[str, tuple[int, ...]] = dict(self._shapes())

    @cached_property
    def _readers(self) -> dict[str, list[NodeProto]]:
        readers: dict[str, list[NodeProto]] = {}
        for node in self._graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        return readers

    @cached_property
    def _producers(self) -> dict[str, NodeProto]:
        return {name: node for node in self._graph.node for name in node.output}

    def _shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        tensors = {tensor.name: tensor for tensor in self._graph.initializer}
        for tensor in self._graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                yield tensor.name, tuple(tensor.dims)
        for node in self._graph.node:
            if node.op_type == "ConstantOfShape" and node.input[0] in tensors:
                extents = numpy_helper.to_array(tensors[node.input[0]])
                yield node.output[0], tuple(int(extent) for extent in extents)

    def source(self, name: str) -> str | None:
        """Return the weight that `name` is or reshapes; None for an activation."""
        if name in self.shapes:
            return name
        producer = self._producers.get(name)
        if producer is not None and producer.op_type in ("Unsqueeze", "Reshape"):
            return self.source(producer.input[0])
        return None

    def wanted_power(self, node: NodeProto) -> float:
        """Return the power that `node`'s result should have for the first reader that minds."""
        readers = self._readers.get(node.output[0], [])
        if not readers or readers[0].op_type == "Softmax":
            return LOGIT_POWER
        if readers[0].op_type == "LRN":
            return 2.0 * _attribute(readers[0], "bias", 1.0) / _attribute(readers[0], "alpha", 1e-4)
        if readers[0].op_type in SCALE_KEEPING:
            return self.wanted_power(readers[0])
        return 1.0


def _spread(
    node: NodeProto, position: int, shape: tuple[int, ...], power: float, wanted: float
) -> Spread:
    """Return the spread of `node`'s weight at `position`, next to an activation of `power`."""
    match node.op_type, position:
        case (("Conv" | "Gemm"), 1):
            return Spread(shape, 0.0, sqrt(3.0 * wanted / (_fan_in(node, shape) * power)))
        case (("Conv" | "Gemm"), 2):
            return Spread(shape, 0.0, 0.3 * sqrt(wanted))
        case (("BatchNormalization" | "Mul"), 1):
            return Spread(shape, 1.0, 0.4)
        case ("BatchNormalization", 2) | ("Add", 1):
            return Spread(shape, 0.0, 0.3)
        case "BatchNormalization", 3:
            return Spread(shape, 0.0, 0.3 * sqrt(power))
        case "BatchNormalization", 4:
            return Spread(shape, power, 0.4 * power)
        case _:
            return Spread(shape, 0.0, 1.0)


def _fan_in(node: NodeProto, shape: tuple[int, ...]) -> int:
    """Return how many products each element of `node`'s result sums."""
    if node.op_type == "Gemm":
        return shape[-1] if _attribute(node, "transB", 0) else shape[-2]
    return prod(shape[1:])


def _result_power(node: NodeProto, powers: dict[str, float], wanted: float) -> float:
    """Estimate the power of `node`'s result; what has no estimate is the image or a weight."""
    operands = [powers.get(name, 1.0) for name in node.input] or [1.0]
    match node.op_type:
        case "Conv" | "Gemm":
            return wanted
        case "BatchNormalization":
            return (
                1.18  # a variance of [0.6, 1.4) is divided by, and the mean and the bias add theirs
            )
        case "Mul":
            return 1.05 * operands[0]
        case "Add":
            return operands[0] + 0.03
        case "Sum":
            return 1.6 * sum(
                operands
            )  # the half that the next Relu takes is less: one operand is positive
        case "Concat":
            return sum(operands) / len(operands)
        case "LRN":
            alpha, bias = _attribute(node, "alpha", 1e-4), _attribute(node, "bias", 1.0)
            return operands[0] / (bias + alpha * operands[0]) ** (
                2.0 * _attribute(node, "beta", 0.75)
            )
        case _:
            return operands[0] * POWER_FACTORS.get(node.op_type, 1.0)


def _attribute(node: NodeProto, name: str, default: float) -> float:
    values = [
        helper.get_attribute_value(attribute)
        for attribute in node.attribute
        if attribute.name == name
    ]
    return float(values[0]) if values else default
