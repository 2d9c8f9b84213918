"""Any subset of the graph passes, in any order, leaves what a graph computes unchanged."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

from tests.models.graph_writer import GraphWriter
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import read_graph
from weft.compiler.driver.session import Session
from weft.compiler.graph import (
    rematerialize,
    split_systems,
    split_taps,
    unfold_convolutions,
    winograd,
)
from weft.compiler.graph.decompose_transposed_conv import DecomposeTransposedConvPass
from weft.compiler.graph.flush_subnormals import FlushSubnormalsPass
from weft.compiler.graph.fuse.fuse_attention import FuseAttentionPass
from weft.compiler.graph.fuse.fuse_matmuls import FuseMatmulsPass
from weft.compiler.graph.fuse.recognize_gelu import RecognizeGeluPass
from weft.compiler.graph.fuse.recognize_norms import RecognizeNormsPass
from weft.compiler.graph.partition.cut_stages import CutStagesPass
from weft.compiler.graph.partition.partition import PartitionPass
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.compiler.graph.round_activations import RoundActivationsPass
from weft.compiler.graph.simplify.fold_constants import FoldConstantsPass
from weft.compiler.graph.simplify.inline_calls import inline_calls
from weft.compiler.graph.simplify.rewrite import RewritePass
from weft.compiler.graph.simplify.unify_sizes import UnifySizesPass
from weft.compiler.graph.split_systems import SplitSystemsPass
from weft.compiler.graph.split_taps import SplitTapsPass
from weft.compiler.graph.winograd import WinogradPass
from weft.dialects.context import WeftContext
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, CallOp, CheckpointOp, ConstantOp, ForOp, IfOp, YieldOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import F16, F32, I8, I32, UI8, tensor, type_of
from weft.dialects.weights import WeightStore

SHAPE = (2, 3, 24)
REWRITES_SUMS = (
    RewritePass,
    FuseAttentionPass,
    FuseMatmulsPass,
    RecognizeGeluPass,
    RecognizeNormsPass,
    DecomposeTransposedConvPass,
    FlushSubnormalsPass,
    SplitSystemsPass,
    SplitTapsPass,
    WinogradPass,
)
"""Passes whose results may differ by a rounding."""

Step = Callable[..., SSAValue]


@pytest.fixture(autouse=True, scope="module")
def everything_pays():
    """Small values are recomputed, small images filtered by Winograd's algorithm, small matrices
    and taps of few channels split, images unfolded.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rematerialize, "LEAST_BYTES", 1)
        patch.setattr(split_systems, "BLOCK", 2)
        patch.setattr(split_taps, "MOST_TAKEN", 9e9)
        patch.setattr(unfold_convolutions, "STORE", 9e9)
        for cost in ("TRANSFORM_COST", "BYTE_COST", "STORED_COST"):
            patch.setattr(winograd, cost, 0.0)
        yield


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


def _attention(b: GraphBuilder, x: SSAValue) -> SSAValue:
    rows = b.reshape(x, shape=tensor([2, 24, 3], F32).dims)
    scores = b.mul(b.matmul(rows, x), b.constant_of(0.25, F32))
    mixed = b.matmul(b.softmax(scores, axis=-1), rows)
    return b.reshape(mixed, shape=type_of(x).dims)


def _quantized(b: GraphBuilder, x: SSAValue, w: SSAValue) -> SSAValue:
    """A product of numbers that were rounded to bytes, of whole scales: floats sum them exactly."""
    zero, one = b.cast(b.constant_of(100, UI8), to=I32), b.constant_of(1.0, F32)
    levels = b.cast(b.add(b.cast(b.round(b.mul(x, b.constant_of(8.0, F32))), to=I32), zero), to=UI8)
    real = b.mul(b.cast(b.sub(b.cast(levels, to=I32), zero), to=F32), one)
    factors = b.mul(b.cast(b.cast(b.mul(w, b.constant_of(8.0, F32)), to=I8), to=F32), one)
    return b.mul(b.matmul(real, factors), b.constant_of(2.0**-9, F32))


def _solved(b: GraphBuilder, x: SSAValue, *, factored: bool) -> SSAValue:
    """A system of matrices far from singular, whole or by a factor and its transpose."""
    squares = b.mul(b.constant_of(0.1, F32), b.matmul(x, b.transpose(x, permutation=[0, 2, 1])))
    one = b.expand(b.constant_of(1.0, F32), shape=type_of(squares).dims)
    diagonal = b.trilu(b.trilu(one, upper=True, k=0), upper=False, k=0)
    system = b.add(squares, diagonal)
    if not factored:
        return b.solve(system, x)
    factor = b.cholesky(system)
    return b.solve(b.transpose(factor, permutation=[0, 2, 1]), b.solve(factor, x))


def _blocks(b: GraphBuilder, x: SSAValue, codes: SSAValue) -> SSAValue:
    """A product with codes in blocks of eight, of whole scales."""
    scales = b.expand(b.constant_of(2.0**-4, F32), shape=tensor([3, 24], F32).dims)
    column = b.reshape(scales, shape=tensor([3, 1, 24], F32).dims)
    spread = b.reshape(
        b.expand(column, shape=tensor([3, 8, 24], F32).dims), shape=tensor([24, 24], F32).dims
    )
    return b.matmul(x, b.mul(b.cast(codes, to=F32), spread))


def _late(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """Reads a cheap value again behind operators that are not."""
    kept = b.softmax(x, axis=-1)
    cheap = y = b.tanh(kept)
    for _ in range(5):
        y = b.softmax(y, axis=-1)
    return b.mul(b.mul(y, cheap), kept)


def _apart(b: GraphBuilder, x: SSAValue) -> SSAValue:
    """Adds up, at the end, what was computed at the beginning."""
    early = b.softmax(x, axis=1)
    y = b.softmax(b.softmax(x, axis=2), axis=1)
    return b.add(y, b.softmax(b.reduce_sum(early, axes=[1], keepdims=True), axis=2))


PATTERNS = {
    "gelu": _gelu, "norm": _norm, "attention": _attention, "apart": _apart, "late": _late,
}  # fmt: skip
"""What is made of a value alone."""


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
        array.reshape(-1)[1:4] = 0.5, -2, 1e-40
        return self.b.builder.insert(ConstantOp.stored("w", array, self.weights)).result

    def convolved(self, x: SSAValue, number: int) -> SSAValue:
        """A convolution of 3 x 3 taps, with a normalisation behind it."""
        b = self.b
        image = b.reshape(x, shape=tensor([1, 16, 3, 3], F32).dims)
        apart = (1, 2, 3)[number]  # as far as the image is wide: the middle tap alone reads it
        found = b.conv(
            image,
            self.weight(number % 2, (16, 16, 3, 3)),
            group=1,
            pads=[apart] * 4,
            dilations=[apart] * 2,
        )
        scale, shift, variance = (self.weight(n, (16,)) for n in (0, 1, 2))
        variance = b.abs(variance) if number else variance
        found = b.batch_norm(found, scale, shift, scale, b.mul(variance, variance), epsilon=1e-3)
        return b.reshape(found, shape=type_of(x).dims)

    def grouped(self, x: SSAValue, number: int) -> SSAValue:
        """A convolution of two groups, which no minimal filtering is for."""
        image = self.b.reshape(x, shape=tensor([1, 16, 3, 3], F32).dims)
        filters = self.weight(number % 2, (16, 8, 2, 2))
        found = self.b.conv(image, filters, group=2, pads=[1, 0, 0, 1])
        return self.b.reshape(found, shape=type_of(x).dims)

    def widened(self, x: SSAValue, number: int) -> SSAValue:
        """A transposed convolution, whose result shrinks to the image's size again."""
        b = self.b
        image = b.reshape(x, shape=tensor([2, 3, 4, 6], F32).dims)
        found = b.conv_transpose(
            image, self.weight(number % 2, (3, 3, 2, 2)), group=1, strides=[2, 2]
        )
        split = b.reshape(found, shape=tensor([2, 3, 4, 2, 6, 2], F32).dims)
        shrunk = b.reduce_mean(split, axes=[3, 5], keepdims=False)
        return b.reshape(shrunk, shape=type_of(x).dims)

    def inside(self, values: Sequence[SSAValue], step: Step) -> Block:
        """A block of arguments like the values that yields what a step makes of them."""
        block = Block(arg_types=[value.type for value in values])
        found = step(GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME), *block.args)
        block.add_op(YieldOp.create(operands=[found]))
        return block

    def repeated(self, x: SSAValue, number: int) -> SSAValue:
        """A loop that computes the same in every round, too long to be unrolled or not."""
        iterations = (0, 2, 700)[number]
        same = self.b.exp(self.b.constant_of(-2.0, F32))
        body = self.inside([x], lambda b, y: b.mul(b.add(y, b.tanh(b.sin(x))), b.tanh(same)))
        return self.b.builder.insert(ForOp.of(Expr.of(iterations), "i", [x], body)).results[0]

    def chosen(self, x: SSAValue, number: int) -> SSAValue:
        """A branch, on a condition that is known or not."""
        b, zero = self.b, self.b.constant_of(0.0, F32)
        total = b.reduce_sum(x, axes=[0, 1, 2], keepdims=False)
        condition = b.less(zero, (total, zero, b.constant_of(1.0, F32))[number])
        ways = self.inside([], lambda b: b.tanh(x)), self.inside([], lambda b: b.neg(x))
        found = b.builder.insert(IfOp.of(condition, *ways)).results[0]
        signs = self.inside([], lambda b: zero), self.inside([], lambda b: b.neg(total))
        return b.add(found, b.builder.insert(IfOp.of(condition, *signs)).results[0])

    def blocks(self, x: SSAValue, number: int) -> SSAValue:
        codes = (np.arange(24 * 24).reshape(24, 24) % (3 + number) - 1).astype(np.int8)
        stored = ConstantOp.stored("codes", codes, self.weights)
        return _blocks(self.b, x, self.b.builder.insert(stored).result)

    def step(self, kind: str, x: SSAValue, number: int) -> SSAValue:
        b = self.b
        if kind in PATTERNS:
            return PATTERNS[kind](b, x)
        match kind:
            case "quantized":
                return _quantized(b, x, self.weight(number, (24, 24)))
            case "blocks":
                return self.blocks(x, number)
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
            case "solved":
                return _solved(b, b.tanh(x), factored=number > 0)
            case "nothing":
                return b.neg(b.neg(b.mul(x, b.constant_of(1.0, F32))))
            case "twice":
                return b.add(b.tanh(x), b.tanh(x))
            case "convolved":
                return self.convolved(x, number)
            case "grouped":
                return self.grouped(x, number)
            case "widened":
                return self.widened(x, number)
            case "repeated":
                return self.repeated(x, number)
            case "chosen":
                return self.chosen(x, number)
            case "halves":  # nothing is rounded but the first conversion
                return b.cast(b.neg(b.relu(b.cast(x, to=F16))), to=F32)
            case "checkpoint":
                body = self.inside([], lambda b: b.tanh(b.tanh(x)))
                return b.builder.insert(CheckpointOp.of(body)).results[0]
            case _:
                raise AssertionError(f"a step is known, not {kind}")

    def module(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        kinds = [value.type for value in self.block.args], [result.type]
        return ModuleOp([FuncOp("main", kinds, Region(self.block)), self.function])


KINDS = (
    "gelu",
    "norm",
    "quantized",
    "blocks",
    "turned",
    "flat",
    "bias",
    "product",
    "products",
    "called",
    "solved",
    "nothing",
    "twice",
    "attention",
    "late",
    "apart",
    "convolved",
    "grouped",
    "widened",
    "repeated",
    "chosen",
    "checkpoint",
    "halves",
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


def test_random_graphs_have_something_for_each_pass():
    idle = dict.fromkeys(GRAPH_PASSES)
    del idle[UnifySizesPass]  # which is for named sizes, and these are numbers
    del idle[PartitionPass]  # which is for many ranks, and has random graphs of its own,
    del idle[CutStagesPass]  # as this one has
    del idle[RoundActivationsPass]  # which is for targets that multiply tiles of bf16
    for kind, number in product(KINDS, range(3)):
        graph = _Graph()
        module = graph.module(graph.step(kind, graph.block.args[0], number))
        before = str(module)
        for each in GRAPH_PASSES:
            each().apply(WeftContext(graph.weights), module)
            after = str(module)
            if after != before:
                idle.pop(each, None)
            before = after
    assert not idle


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
        total = graph.b.max(total, graph.weight(number, shape))
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


def test_subnormal_weights_are_found_wherever_they_are():
    net = GraphWriter("far", seed=1)
    array = np.ones((2, 100_000), np.float32)
    array[1, -1] = 1e-40
    net.output(net.op("MatMul", net.input("x", (3, 2)), net.stored("w", array)), "y", (3, 100_000))
    imported = read_graph(net.model, Session(Options()))
    (weight,) = [op for op in imported.module.walk() if isinstance(op, ConstantOp)]
    array[1, -1] = 0
    np.testing.assert_array_equal(weight.array(imported.weights), array)
