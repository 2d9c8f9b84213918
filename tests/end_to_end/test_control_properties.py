"""Random graphs with control flow: no choice of passes changes what they compute; sizes that the
program finds may be any.
"""
# pyright: basic

from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from onnx import parser
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from tests.support.oracle import function_of
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.context import WeftContext
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, ForOp, IfOp, WhileOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import BOOL, F32, tensor
from weft.dialects.graph.regions.control import ConditionOp
from weft.dialects.graph.regions.fused import YieldOp

EXTENT = 3
VECTOR = tensor([EXTENT], F32)
DEPTH = 2


@dataclass
class Writer:
    """Writes random operators on vectors at the end of a block, regions among them."""

    draw: st.DrawFn
    block: Block
    values: list[SSAValue]
    flags: list[SSAValue]
    depth: int = 0
    names: list[int] = None  # pyright: ignore[reportAssignmentType]

    def __post_init__(self):
        self.b = GraphBuilder(InsertPoint.at_end(self.block), OPS_BY_NAME)
        self.names = [0] if self.names is None else self.names

    def grow(self) -> None:
        kinds = ["unary", "binary", "if", "for", "while"][: 5 if self.depth < DEPTH else 2]
        kind = self.draw(st.sampled_from(kinds))
        self.values += getattr(self, f"add_{kind}")()

    def any(self) -> SSAValue:
        return self.draw(st.sampled_from(self.values))

    def add_unary(self) -> list[SSAValue]:
        return [getattr(self.b, self.draw(st.sampled_from(["neg", "tanh", "abs"])))(self.any())]

    def add_binary(self) -> list[SSAValue]:
        name = self.draw(st.sampled_from(["add", "max", "sub"]))
        return [getattr(self.b, name)(self.any(), self.any())]

    def nested(self, arguments: int = 0) -> "Writer":
        block = Block(arg_types=[VECTOR] * arguments)
        values = [*self.values, *block.args]
        writer = Writer(self.draw, block, values, self.flags, self.depth + 1, self.names)
        for _ in range(self.draw(st.integers(0, 3))):
            writer.grow()
        return writer

    def closed(self, arguments: int, results: int) -> Block:
        """A region that hands back this many of its values."""
        inner = self.nested(arguments)
        inner.block.add_op(YieldOp.create(operands=[inner.any() for _ in range(results)]))
        return inner.block

    def name(self, stem: str) -> str:
        self.names[0] += 1
        return f"{stem}{self.names[0]}"

    def condition(self) -> SSAValue:
        if self.draw(st.booleans()):
            return self.b.constant_of(self.draw(st.booleans()), BOOL)
        return self.draw(st.sampled_from(self.flags))

    def add_if(self) -> list[SSAValue]:
        regions = [self.closed(0, 2) for _ in range(2)]
        return list(self.b.builder.insert(IfOp.of(self.condition(), *regions)).results)

    def add_for(self) -> list[SSAValue]:
        count = Expr.of(self.draw(st.sampled_from([0, 1, 2, 3, "n"])))
        carried, rows = self.draw(st.sampled_from([(1, 0), (2, 0), (1, 1)]))
        initial = [self.any() for _ in range(carried)]
        body = self.closed(carried, carried + rows)
        op = self.b.builder.insert(ForOp.of(count, self.name("i"), initial, body))
        stacked = [
            self.b.reduce_sum(each, axes=[0], keepdims=False) for each in op.results[carried:]
        ]
        return [*op.results[:carried], *stacked]

    def add_while(self) -> list[SSAValue]:
        """Rounds until the largest magnitude reaches a limit, which every round comes nearer to."""
        test, body = Block(arg_types=[VECTOR]), self.nested(1)
        b = GraphBuilder(InsertPoint.at_end(test), OPS_BY_NAME)
        largest = b.reduce_max(b.abs(test.args[0]), axes=[0], keepdims=False)
        holds = b.less(largest, b.constant_of(4.0, F32))
        test.add_op(ConditionOp.create(operands=[holds]))
        step = body.b.abs(body.b.tanh(body.any()))
        state = body.b.abs(body.block.args[0])
        grown = body.b.add(state, body.b.add(step, body.b.constant_of(1.0, F32)))
        body.block.add_op(YieldOp.create(operands=[grown]))
        names = self.name("j"), self.name("rounds")
        return list(
            self.b.builder.insert(WhileOp.of(*names, [self.any()], test, body.block)).results
        )


@st.composite
def graphs(draw: st.DrawFn) -> ModuleOp:
    """A function of a vector, a bool and a vector of `n` elements, with regions in regions."""
    block = Block(arg_types=[VECTOR, tensor([], BOOL), tensor(["n"], F32)])
    writer = Writer(draw, block, [block.args[0]], [block.args[1]])
    for _ in range(draw(st.integers(1, 5))):
        writer.grow()
    return ModuleOp([function_of(block, list(dict.fromkeys([writer.values[-1], writer.any()])))])


@settings(max_examples=60)
@given(
    graphs(), st.lists(st.sampled_from(GRAPH_PASSES), max_size=6), st.booleans(), st.integers(0, 3)
)
def test_no_choice_of_passes_changes_results(module, passes, flag, rounds):
    inputs = [np.array([-1.5, 0.25, 2], np.float32), np.array(flag), np.zeros(rounds, np.float32)]
    module.verify()
    wanted = evaluate_block(module.body.block.first_op.body.block, inputs)
    context = WeftContext()
    for each in passes:
        each().apply(context, module)
        module.verify()
    found = evaluate_block(module.body.block.first_op.body.block, inputs)
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


FOUND = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
agraph (float[n, m] x, int64[2] s) => (int64[2, k] places, float[a, b] y) {
  places = NonZero(x)  y = Reshape(x, s)
}""")


def test_sizes_of_any_value_are_found():
    executable = compile_model(FOUND, Options(host_target())).executable(1)

    @settings(max_examples=40)
    @given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.randoms())
    def holds(rows: int, columns: int, percent: int, random) -> None:
        seed = np.random.default_rng(random.randrange(1 << 30))
        x = (seed.random((rows, columns)) * 100 < percent).astype(np.float32)
        total = rows * columns
        divisor = random.choice([each for each in range(1, total + 1) if total % each == 0])
        shape = random.choice([[divisor, total // divisor], [-1, divisor], [divisor, -1]])
        found = executable.run({"x": x, "s": np.array(shape)})
        np.testing.assert_array_equal(found["places"], np.nonzero(x))
        np.testing.assert_array_equal(found["y"], x.reshape(shape))

    holds()
