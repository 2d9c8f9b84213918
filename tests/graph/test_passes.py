"""Any subset of the graph passes, in any order, leaves what a graph computes unchanged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

from compiler.graph.fold_constants import FoldConstantsPass
from compiler.graph.inline_calls import inline_calls
from compiler.graph.join_products import JoinProductsPass
from compiler.graph.passes import GRAPH_PASSES
from compiler.graph.recognize_gelu import RecognizeGeluPass
from compiler.graph.recognize_norms import RecognizeNormsPass
from dialects.context import WeftContext
from dialects.errors import UnsupportedError
from dialects.graph import OPS_BY_NAME, CallOp, ConstantOp
from dialects.graph.builder import GraphBuilder
from dialects.graph.evaluate import evaluate_block
from dialects.graph.types import F32, tensor, type_of
from dialects.weights import WeightStore

SHAPE = (2, 3, 24)
REWRITES_SUMS = (JoinProductsPass, RecognizeGeluPass, RecognizeNormsPass)
"""Passes whose results may differ by a rounding."""


def _gelu(b: GraphBuilder, x: SSAValue) -> SSAValue:
    root, one, half = (b.constant_of(number, F32) for number in (2**0.5, 1.0, 0.5))
    return b.mul(b.mul(x, b.add(b.erf(b.div(x, root)), one)), half)


def _norm(b: GraphBuilder, x: SSAValue) -> SSAValue:
    axes = {"axes": [-1], "keepdims": True}
    d = b.sub(x, b.reduce_mean(x, **axes))
    variance = b.reduce_mean(b.mul(d, d), **axes)
    return b.div(d, b.sqrt(b.add(variance, b.constant_of(1e-5, F32))))


def _turned(b: GraphBuilder, x: SSAValue, name: str) -> SSAValue:
    axes = [0, 2, 1]
    return b.transpose(b.op(name, b.transpose(x, permutation=axes)).results[0], permutation=axes)


def _flat(b: GraphBuilder, x: SSAValue, name: str) -> SSAValue:
    flat = b.reshape(x, shape=tensor([6, 24], F32).dims)
    return b.reshape(b.op(name, flat).results[0], shape=type_of(x).dims)


def _squares() -> FuncOp:
    """A function of matrices of any size."""
    kind = tensor(["a", "b", "c"], F32)
    block = Block(arg_types=[kind])
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    block.add_op(ReturnOp(b.neg(b.mul(block.args[0], block.args[0]))))
    return FuncOp("squares", ([kind], [kind]), Region(block))


class _Graph:
    """A graph of random operators, and the weights that it names."""

    def __init__(self) -> None:
        self.block, self.weights = Block(arg_types=[tensor(SHAPE, F32)]), WeightStore()
        self.b = GraphBuilder(InsertPoint.at_end(self.block), OPS_BY_NAME)
        self.function = _squares()

    def weight(self, number: int, shape: tuple[int, ...]) -> SSAValue:
        """One of two weights, anew each time."""
        array = np.full(shape, 0.125 * (number + 1), np.float32)
        array.reshape(-1)[1:3] = 0.5, -2
        return self.b.builder.insert(ConstantOp.stored("w", array, self.weights)).result

    def step(self, kind: str, x: SSAValue, number: int) -> SSAValue:
        b = self.b
        match kind:
            case "gelu":
                return _gelu(b, x)
            case "norm":
                return _norm(b, x)
            case "turned":
                return _turned(b, x, ("relu", "neg", "exp")[number])
            case "flat":
                return _flat(b, x, ("relu", "tanh", "neg")[number])
            case "bias":
                return b.add(x, self.weight(number % 2, ((24,), (1, 24))[number % 2]))
            case "product":
                return b.matmul(x, self.weight(number % 2, (24, 24)))
            case "products":
                parts = [b.matmul(x, self.weight(n % 2, (24, 24))) for n in range(3)]
                biased = [b.add(part, self.weight(number % 2, (24,))) for part in parts]
                return b.add(*(biased if number else parts)[:2])
            case "called":
                return self.b.builder.insert(CallOp.of(self.function, [x])).results[0]
            case "nothing":
                return b.neg(b.neg(b.mul(x, b.constant_of(1.0, F32))))
            case "twice":
                return b.add(b.tanh(x), b.tanh(x))
            case _:
                raise AssertionError(f"a step is known, not {kind}")

    def module(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        kinds = [value.type for value in self.block.args], [result.type]
        return ModuleOp([FuncOp("main", kinds, Region(self.block)), self.function])


KINDS = (
    "gelu",
    "norm",
    "turned",
    "flat",
    "bias",
    "product",
    "products",
    "called",
    "nothing",
    "twice",
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2)), min_size=1, max_size=8),
    st.lists(st.sampled_from(GRAPH_PASSES), max_size=8),
)
def test_passes_leave_results_unchanged(steps, passes):
    graph = _Graph()
    value = graph.block.args[0]
    for kind, number in steps:
        value = graph.step(kind, value, number)
    module = graph.module(value)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    before = _result(module, x, graph.weights)
    for each in passes:
        each().apply(WeftContext(graph.weights), module)
    module.verify()
    after = _result(module, x, graph.weights)
    if set(passes).isdisjoint(REWRITES_SUMS):
        assert before.tobytes() == after.tobytes()
    else:
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


def _result(module: ModuleOp, x: np.ndarray, weights: WeightStore) -> np.ndarray:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    with np.errstate(all="ignore"):
        return evaluate_block(function.body.block, [x], weights=weights)[0]


def _names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.parametrize(("kind", "name"), [("gelu", "graph.gelu"), ("norm", "graph.layer_norm")])
def test_patterns_are_found(kind, name):
    graph = _Graph()
    module = graph.module(graph.step(kind, graph.block.args[0], 0))
    for each in REWRITES_SUMS:
        each().apply(WeftContext(graph.weights), module)
    assert name in _names(module)
    assert "graph.div" not in _names(module)


def test_constants_of_equal_bytes_share_a_key():
    graph = _Graph()
    x, total = graph.block.args[0], graph.block.args[0]
    for number, shape in ((0, (24,)), (0, (24,)), (0, (1, 24)), (1, (24,))):
        total = graph.b.add(total, graph.weight(number, shape))
    module = graph.module(graph.b.mul(total, x))
    for each in GRAPH_PASSES:
        each().apply(WeftContext(graph.weights), module)
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    keys = {op.key.data for op in constants if op.key is not None}
    assert (len(constants), len(keys)) == (3, 2)


def test_functions_that_call_themselves_are_refused():
    text = """
    func.func @main(%x: !graph.tensor<[n], f32>) -> !graph.tensor<[n], f32> {
      %y = graph.call @other(%x) : (!graph.tensor<[n], f32>) -> !graph.tensor<[n], f32>
      func.return %y : !graph.tensor<[n], f32>
    }
    func.func @other(%x: !graph.tensor<[m], f32>) -> !graph.tensor<[m], f32> {
      %y = graph.call @other(%x) : (!graph.tensor<[m], f32>) -> !graph.tensor<[m], f32>
      func.return %y : !graph.tensor<[m], f32>
    }"""
    module = Parser(WeftContext(), text).parse_module()
    module.verify()
    with pytest.raises(UnsupportedError, match="not to call itself, got @other"):
        inline_calls(module)


def _doublings(count: int) -> tuple[ModuleOp, WeightStore]:
    """A weight that is put beside itself again and again."""
    graph = _Graph()
    value = graph.weight(0, (24,))
    for _ in range(count):
        value = graph.b.concat(value, value, axis=0)
    total = graph.b.reduce_sum(value, axes=[0], keepdims=False)
    return graph.module(graph.b.add(graph.block.args[0], total)), graph.weights


def test_folding_of_many_results_has_a_budget():
    module, weights = _doublings(40)
    context = WeftContext(weights)
    FoldConstantsPass(total_bytes=96 << 8).apply(context, module)
    assert sum(weights[key].nbytes for key in weights) <= 96 << 9
    assert _names(module).count("graph.concat") == 32
    assert context.notes == ["1 known results not folded, the largest of 49,152 bytes"]


def test_folding_of_a_small_graph_leaves_nothing():
    module, weights = _doublings(8)
    context = WeftContext(weights)
    FoldConstantsPass().apply(context, module)
    assert "graph.concat" not in _names(module)
    assert context.notes == []
