"""Random graphs: default code, naive code and the references of the operators agree."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from tests.support.oracle import evaluate, function_of, type_of_array
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_module
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, ConstantOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import type_of
from weft.dialects.weights import Array, WeightStore

TARGET = host_target()
TOLERANCE = 1e-4
SIDES = st.sampled_from([1, 2, 3, 5, 8, 17, 40])
UNARY = ("abs", "neg", "relu", "sigmoid", "tanh", "sin")
BINARY = ("add", "sub", "mul", "max", "min")
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")


@dataclass
class Graph:
    """A graph that grows step by step, its inputs, and the weights that it names."""

    draw: st.DrawFn
    inputs: list[Array]
    weights: WeightStore = field(default_factory=WeightStore)
    block: Block = field(init=False)
    values: list[SSAValue] = field(init=False)
    b: GraphBuilder = field(init=False)

    def __post_init__(self):
        self.block = Block(arg_types=[type_of_array(array) for array in self.inputs])
        self.values = list(self.block.args)
        self.b = GraphBuilder(InsertPoint.at_end(self.block), OPS_BY_NAME)

    def grow(self) -> None:
        """Adds one operator of any kind to any value, the later ones more often."""
        step = self.draw(st.sampled_from(STEPS))
        last = len(self.values) - 1
        value = self.values[last - min(last, self.draw(st.sampled_from([0, 0, 1, 2, 5])))]
        self.values.append(step(self, value))

    def function(self) -> FuncOp:
        """The graph function of all that was added; its results are two of the values."""
        other = self.draw(st.sampled_from(self.values))
        return function_of(self.block, list(dict.fromkeys([self.values[-1], other])))


def shape(value: SSAValue) -> tuple[int, ...]:
    static = type_of(value).static_shape
    assert static is not None
    return static


def unary(graph: Graph, x: SSAValue) -> SSAValue:
    return graph.b.op(graph.draw(st.sampled_from(UNARY)), x).results[0]


def binary(graph: Graph, x: SSAValue) -> SSAValue:
    """With any value that broadcasts, the operand itself among them."""
    fitting = [y for y in graph.values if _broadcasts(shape(x), shape(y))]
    operands = graph.draw(st.permutations([x, graph.draw(st.sampled_from(fitting))]))
    return graph.b.op(graph.draw(st.sampled_from(BINARY)), *operands).results[0]


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    pairs = list(zip(one[::-1], other[::-1], strict=False))
    return all(a == b or 1 in (a, b) for a, b in pairs)


def reduction(graph: Graph, x: SSAValue) -> SSAValue:
    if not shape(x):
        return unary(graph, x)
    every = range(len(shape(x)))
    axes = graph.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    name, keepdims = graph.draw(st.sampled_from(REDUCTIONS)), graph.draw(st.booleans())
    return graph.b.op(name, x, axes=sorted(axes), keepdims=keepdims).results[0]


def softmax(graph: Graph, x: SSAValue) -> SSAValue:
    if not shape(x):
        return unary(graph, x)
    return graph.b.softmax(x, axis=graph.draw(st.integers(0, len(shape(x)) - 1)))


def transpose(graph: Graph, x: SSAValue) -> SSAValue:
    order = graph.draw(st.permutations(range(len(shape(x)))))
    return graph.b.transpose(x, permutation=order)


def reshape(graph: Graph, x: SSAValue) -> SSAValue:
    """Splits the elements anew in two or three."""
    size = prod(shape(x))
    first = graph.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    rest = size // first
    second = graph.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
    dims = graph.draw(st.sampled_from([(size,), (first, rest), (first, second, rest // second)]))
    return graph.b.reshape(x, shape=[Expr.of(dim) for dim in dims])


def concat(graph: Graph, x: SSAValue) -> SSAValue:
    if not shape(x) or prod(shape(x)) > 4000:
        return unary(graph, x)
    alike = [y for y in graph.values if shape(y) == shape(x)]
    axis = graph.draw(st.integers(0, len(shape(x)) - 1))
    return graph.b.concat(x, graph.draw(st.sampled_from(alike)), axis=axis)


def product(graph: Graph, x: SSAValue) -> SSAValue:
    """With a weight, whose spread keeps the scale."""
    if len(shape(x)) < 2:
        return unary(graph, x)
    rows, columns = shape(x)[-1], graph.draw(SIDES)
    values = np.random.default_rng(len(graph.values)).standard_normal((rows, columns))
    array = (values / np.sqrt(rows)).astype(np.float32)
    weight = graph.b.builder.insert(ConstantOp.stored("weight", array, graph.weights))
    return graph.b.matmul(x, weight.results[0])


def gram(graph: Graph, x: SSAValue) -> SSAValue:
    """The matrix times its own transpose, scaled."""
    if len(shape(x)) < 2:
        return unary(graph, x)
    rank = len(shape(x))
    turned = graph.b.transpose(x, permutation=[*range(rank - 2), rank - 1, rank - 2])
    scale = graph.b.constant_of(1.0 / shape(x)[-1], type_of(x).element)
    return graph.b.tanh(graph.b.mul(graph.b.matmul(x, turned), scale))


Step = Callable[[Graph, SSAValue], SSAValue]
STEPS: tuple[Step, ...] = (
    unary,
    unary,
    binary,
    binary,
    reduction,
    softmax,
    transpose,
    reshape,
    concat,
    product,
    gram,
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[FuncOp, list[Array], WeightStore]:
    count = draw(st.integers(1, 2))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dims = [draw(st.lists(SIDES, min_size=1, max_size=3)) for _ in range(count)]
    arrays = [random.uniform(-2.0, 2.0, each).astype(np.float32) for each in dims]
    graph = Graph(draw, arrays)
    for _ in range(draw(st.integers(1, 12))):
        graph.grow()
    return graph.function(), arrays, graph.weights


def run(function: FuncOp, arrays: list[Array], weights: WeightStore, *, naive: bool) -> list[Array]:
    module = ModuleOp([function.clone()])
    compiled = compile_module(module, weights, Options(TARGET, naive=naive))
    return list(compiled.executable(threads=2)(*arrays))


def deviation(found: Array, wanted: Array) -> float:
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max()))


@settings(max_examples=40)
@given(graphs())
def test_random_graph_means_the_same_however_it_is_compiled(drawn):
    function, arrays, weights = drawn
    expected = evaluate(function, arrays, weights)
    for naive in (True, False):
        for found, wanted in zip(
            run(function, arrays, weights, naive=naive), expected, strict=True
        ):
            assert deviation(found, wanted) < TOLERANCE, f"naive={naive}\n{function}"


def test_operand_that_is_also_read_through_a_view_is_not_overwritten():
    x = np.random.default_rng(1).standard_normal((2, 2, 40)).astype(np.float32)
    block = Block(arg_types=[type_of_array(x)])
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    weights = b.softmax(block.args[0], axis=2)
    viewed = b.reshape(weights, shape=[Expr.of(dim) for dim in (2, 40, 2)])
    mixed = b.add(weights, b.transpose(viewed, permutation=[0, 2, 1]))
    turned = b.transpose(block.args[0], permutation=[0, 2, 1])
    function = function_of(block, [b.matmul(turned, mixed)])
    (expected,) = evaluate(function, [x])
    (found,) = run(function, [x], WeightStore(), naive=False)
    assert deviation(found, expected) < TOLERANCE


@pytest.mark.parametrize("naive", [True, False])
def test_running_sum_of_a_long_vector(naive: bool):
    x = np.linspace(-1.0, 1.0, 100, dtype=np.float32)
    block = Block(arg_types=[type_of_array(x)])
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    total = b.cumsum(block.args[0], axis=0, exclusive=False, reverse=False)
    (found,) = run(function_of(block, [total]), [x], WeightStore(), naive=naive)
    np.testing.assert_allclose(found, np.cumsum(x), atol=1e-5)
