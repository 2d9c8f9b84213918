"""Graphs of as many operators as one asks for, of kinds that find different stages slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import weft
import weft.numpy as wnp
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.dialects.context import parse_module
from weft.dialects.weights import WeightStore
from weft.source.jit import read_model
from weft.tracing.donations import donating
from weft.tracing.trace import record

ROWS: Final = (8, 8)
"""Of tensors; kernels are to be few and small, for they grow with no graph."""

LATER: Final = 100
"""Operators after which residuals are read again."""


DEPTH: Final = 10
"""Of functions that call each other."""


class Nodes:
    """Appends nodes to an ONNX model; a tensor is its name. Each step takes the same time."""

    def __init__(self) -> None:
        self.model = ModelProto(ir_version=9, producer_name="weft-growth")
        self.model.opset_import.add(domain="", version=17)
        self.graph = self.model.graph
        self.graph.name = "grown"

    def input(self, name: str, shape: tuple[int | str, ...] = ROWS, dtype: int = 1) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def stored(self, name: str, array: np.ndarray) -> str:
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def op(self, op_type: str, *operands: str, **attributes: Any) -> str:
        name = f"n{len(self.graph.node)}"
        self.graph.node.append(helper.make_node(op_type, operands, [name], name=name, **attributes))
        return name

    def output(self, name: str, shape: tuple[int | str, ...] | None = ROWS) -> None:
        self.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def same(count: int) -> ModelProto:
    """A chain of one elementwise operator, which becomes groups."""
    net = Nodes()
    value = net.input("x")
    for _ in range(count):
        value = net.op("Sin", value)
    net.output(value)
    return net.model


def apart(count: int, rows: int | str = 8) -> ModelProto:
    """A chain of operators that are kernels of their own, which move, reduce and multiply."""
    net = Nodes()
    value = net.input("x", (rows, 8))
    weight = net.stored("w", np.eye(8, dtype=np.float32) + 1)
    axes = net.stored("axes", np.int64([1]))
    flat, square = net.stored("flat", np.int64([-1])), net.stored("square", np.int64([-1, 8]))
    steps: tuple[Callable[[str], str], ...] = (
        lambda x: net.op("Softmax", x),
        lambda x: net.op("MatMul", x, weight),
        lambda x: net.op("Add", net.op("ReduceMax", x, axes=[1]), x),
        lambda x: net.op("Relu", x),
        lambda x: net.op("Reshape", net.op("CumSum", net.op("Reshape", x, flat), zero), square),
        lambda x: net.op("Softmax", x, axis=0),
        lambda x: net.op("Transpose", net.op("Softmax", net.op("Transpose", x))),
        lambda x: net.op("Sub", x, net.op("ReduceSum", x, axes)),
    )
    zero = net.stored("zero", np.int64(0))
    while len(net.graph.node) < count:
        value = steps[len(net.graph.node) % len(steps)](value)
    net.output(value, (rows, 8))
    return net.model


def symbolic(count: int) -> ModelProto:
    """`apart`, with a size that only a call knows."""
    return apart(count, "rows")


def wide(count: int) -> ModelProto:
    """One value that many read, whose results are added in pairs."""
    net = Nodes()
    level = [net.op("Softmax", each) for each in _readers(net, count // 4)]
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]
        level = [net.op("Add", *pair) for pair in zip(level[::2], level[1::2], strict=False)] + odd
    net.output(level[0])
    return net.model


def _readers(net: Nodes, count: int) -> list[str]:
    """As many sums of one value, which is computed, with tensors that differ."""
    x = net.op("Softmax", net.input("x"))
    arrays = (np.full(ROWS, n, np.float32) for n in range(count))
    return [net.op("Add", x, net.stored(f"w{n}", each)) for n, each in enumerate(arrays)]


def sums(count: int) -> ModelProto:
    """Products of many values, which are there already, one after the other."""
    net = Nodes()
    first, *others = (net.op("Softmax", each) for each in _readers(net, count // 3))
    for other in others:
        first = net.op("MatMul", first, other)
    net.output(first)
    return net.model


def star(count: int) -> ModelProto:
    """One value that all read, and one operator that reads all."""
    net = Nodes()
    parts = [net.op("Softmax", each) for each in _readers(net, count // 3)]
    net.output(net.op("Sum", *parts))
    return net.model


def residual(count: int) -> ModelProto:
    """Every value is read again much later."""
    net = Nodes()
    values = [net.input("x")]
    while len(net.graph.node) < count:
        past = values[max(0, len(values) - LATER)]
        last = net.op("Softmax", values[-1]) if len(values) % 2 else values[-1]
        values.append(net.op("Add", last, past))
    net.output(values[-1])
    return net.model


def weights(count: int) -> ModelProto:
    """Each operator has a tensor of its own."""
    net = Nodes()
    value = net.input("x")
    for n in range(count // 2):
        own = net.stored(f"w{n}", np.full(ROWS, n, np.float32))
        value = net.op("Softmax", net.op("Add", value, own))
    net.output(value)
    return net.model


def ports(count: int) -> ModelProto:
    """As many inputs and outputs as operators."""
    net = Nodes()
    for n in range(count):
        net.output(net.op("Softmax", net.input(f"x{n}")))
    return net.model


def defaults(count: int) -> ModelProto:
    """`weights`, which are inputs with default values as well."""
    model = weights(count)
    names = [each.name for each in model.graph.initializer]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ROWS) for name in names]
    model.graph.input.extend(infos)
    return model


def constants(count: int) -> ModelProto:
    """Each operator has a node of its own for a constant, which is large."""
    net = Nodes()
    value = net.input("x", (8, 512))
    for n in range(count // 3):
        array = np.full((1, 512), n, np.float32)
        own = net.op("Constant", value=numpy_helper.from_array(array))
        value = net.op("Softmax", net.op("Add", value, own))
    net.output(value, (8, 512))
    return net.model


def scatters(count: int) -> ModelProto:
    """Operators that change a part of what they read."""
    net = Nodes()
    value, rows = net.input("x"), net.input("rows", (1, 8), TensorProto.INT64)
    updates = net.input("updates", (1, 8))
    for n in range(count // 2):
        value = net.op("ScatterElements", value, rows, updates)
        value = net.op("Softmax", value) if n % 4 else net.op("Add", value, net.op("Sin", value))
    net.output(value)
    return net.model


def convolutions(count: int) -> ModelProto:
    """Images, whose channels may are in blocks."""
    net = Nodes()
    shape = (1, 8, 6, 6)
    value = net.input("x", shape)
    filters = net.stored("filters", np.full((8, 8, 3, 3), 0.1, np.float32))
    bias = net.stored("bias", np.zeros(8, np.float32))
    for _ in range(count // 4):
        inner = net.op("Conv", value, filters, bias, pads=[1] * 4)
        inner = net.op("MaxPool", inner, kernel_shape=[3, 3], pads=[1] * 4)
        value = net.op("Add", net.op("Softmax", inner), value)
    net.output(value, shape)
    return net.model


def branches(count: int) -> ModelProto:
    """Small branches on conditions that only a call knows, one behind the other."""
    net = Nodes()
    value, flag = net.input("x"), net.input("flag", (), TensorProto.BOOL)
    while len(net.graph.node) < count // 4:
        bodies = {
            f"{side}_branch": _body(len(net.graph.node), each, value)
            for side, each in (("then", "Softmax"), ("else", "Relu"))
        }
        value = net.op("If", flag, **bodies)
        value = net.op("Softmax", value)
    net.output(value)
    return net.model


def _body(number: int, op_type: str, value: str) -> Any:
    name = f"{op_type}{number}"
    node = helper.make_node(op_type, [value], [name], name=name)
    return helper.make_graph(
        [node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, ROWS)]
    )


def loops(count: int) -> ModelProto:
    """Small loops of rounds that only a call knows, one behind the other."""
    net = Nodes()
    value, rounds = net.input("x"), net.input("rounds", (), TensorProto.INT64)
    while len(net.graph.node) < count // 4:
        number = len(net.graph.node)
        value = net.op("Loop", rounds, "", value, body=_round(number))
        value = net.op("Softmax", value)
    net.output(value)
    return net.model


def _round(number: int) -> Any:
    names = [f"{stem}{number}" for stem in ("round", "on", "state", "more", "soft", "next")]
    turn, on, state, more, soft, after = names
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", [on], [more]),
        helper.make_node("Softmax", [state], [soft]),
        helper.make_node("Sub", [soft, state], [after]),
    ]
    head = [info(turn, TensorProto.INT64, []), info(on, TensorProto.BOOL, [])]
    return helper.make_graph(
        nodes,
        f"body{number}",
        [*head, info(state, TensorProto.FLOAT, ROWS)],
        [info(more, TensorProto.BOOL, []), info(after, TensorProto.FLOAT, ROWS)],
    )


def found(count: int) -> ModelProto:
    """Sizes that the program finds."""
    net = Nodes()
    value = net.input("x")
    parts: list[str] = []
    while len(net.graph.node) < count:
        held = net.op("NonZero", value)
        parts.append(net.op("ReduceSum", net.op("Cast", held, to=TensorProto.FLOAT), keepdims=0))
        value = net.op("Softmax", net.op("Add", value, parts[-1]))
    net.output(value)
    return net.model


def functions(count: int) -> ModelProto:
    """Functions that call each other twice, ten deep."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    net = Nodes()
    net.model.opset_import.add(domain="own", version=1)
    steps = max(1, count >> DEPTH)
    values = ["x", *(f"v{n}" for n in range(steps - 1)), "y"]
    nodes = [_node(("Softmax", "Sin")[n % 2], *pair) for n, pair in enumerate(pairwise(values))]
    made = [helper.make_function("own", "f0", ["x"], ["y"], nodes, opsets)]
    for n in range(DEPTH):
        nodes = [_node(f"f{n}", "x", "t", "own"), _node(f"f{n}", "t", "y", "own")]
        made.append(helper.make_function("own", f"f{n + 1}", ["x"], ["y"], nodes, opsets))
    net.model.functions.extend(made)
    net.graph.node.append(_node(f"f{DEPTH}", net.input("x"), "y", "own"))
    net.output("y")
    return net.model


def flat_functions(count: int) -> ModelProto:
    """One function that is called everywhere."""
    opsets = [helper.make_opsetid("", 17)]
    net = Nodes()
    net.model.opset_import.add(domain="own", version=1)
    nodes = [_node("Softmax", "x", "s"), _node("Relu", "s", "r"), _node("Softmax", "r", "y")]
    net.model.functions.append(helper.make_function("own", "f", ["x"], ["y"], nodes, opsets))
    value = net.input("x")
    for _ in range(count // 3):
        value = net.op("f", value, domain="own")
    net.output(value)
    return net.model


def _node(op_type: str, source: str, result: str, domain: str = "") -> NodeProto:
    return helper.make_node(op_type, [source], [result], domain=domain)


def calls(count: int) -> ImportedModel:
    """Graph functions that call each other, as deep as there are operators."""
    of = "!graph.tensor<[8, 8], f32>"
    texts: list[str] = []
    for n in range(count // 2):
        name = "main" if n == count // 2 - 1 else f"f{n}"
        called = f"%y = graph.call @f{n - 1}(%x) : ({of}) -> {of}" if n else ""
        last = f"%r = graph.softmax %{'y' if n else 'x'} {{axis = -1 : i64}} : ({of}) -> {of}"
        texts.append(f"func.func @{name}(%x: {of}) -> {of} {{ {called} {last}")
        texts.append(f"func.return %r : {of} }}")
    module = parse_module("\n".join(texts), "<calls>")
    return ImportedModel(module, WeightStore(), "grown", ("x",), ("y",))


def _program(x: Any, count: int) -> Any:
    values = [x]
    for n in range(count // 2):
        past = values[max(0, len(values) - LATER)]
        values.append(wnp.sin(values[-1]) + past if n % 2 else wnp.softmax(values[-1]) * past)
    return values[-1]


def traced(count: int) -> ImportedModel:
    """A program of Python's, whose loop a trace records."""
    return record(lambda x: _program(x, count), np.zeros(ROWS, np.float32)).imported("grown")


def gradient(count: int) -> ImportedModel:
    """The derivative of a traced program of a third of the operators."""
    slope = weft.grad(lambda x: _program(x, count // 4).sum())
    return record(slope, np.zeros(ROWS, np.float32)).imported("grown")


def parameters(count: int) -> ImportedModel:
    """A step of training, whose parameters take their results' memory."""
    held = {f"p{n}": np.zeros((1, 8), np.float32) for n in range(count // 8)}

    def step(held: dict[str, Any], x: Any) -> Any:
        def loss(held: dict[str, Any]) -> Any:
            value = x
            for each in held.values():
                value = wnp.softmax(value + each)
            return value.sum()

        value, slopes = weft.value_and_grad(loss)(held)
        return {name: each - 0.1 * slopes[name] for name, each in held.items()}, value

    return donating(step, held, np.zeros(ROWS, np.float32), donate=[0], name="grown")[0]


def read(count: int) -> ImportedModel:
    """A program that source mode reads round by round, since a list of numbers tells them apart."""
    steps = [1.5, 2.5] * (count // 4)

    def program(x: Any) -> Any:
        for step in steps:
            x = wnp.sin(x) * step
        return x

    return read_model(program, [weft.Spec("float32", ROWS)])


FAMILIES: Final[Mapping[str, Callable[[int], Source | ImportedModel]]] = {
    each.__name__: each
    for each in (
        same, apart, symbolic, wide, sums, star, residual, weights, defaults, constants, ports,
        scatters, convolutions, branches, loops, found, functions, flat_functions, calls, traced,
        gradient, parameters, read,
    )
}  # fmt: skip
