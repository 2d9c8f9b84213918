"""Programs of so many calls that their code is several functions."""

import re

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import weft
from tests.models.graph_writer import GraphWriter
from tests.models.peer import run_onnxruntime
from weft.compilation import options_of
from weft.compiler.driver.emit import emit_text
from weft.compiler.driver.session import Session
from weft.compiler.loop_to_llvm.program.calls import LONGEST, PART


@pytest.fixture(scope="module")
def long_model() -> ModelProto:
    """A long run of calls on weights; behind it a branch, a size that a call finds, and calls."""
    net = GraphWriter("long", seed=1)
    first = value = net.input("x", (4, 4))
    flag = net.input("flag", (), TensorProto.BOOL)
    weights = [net.weight(f"w{n}", (4, 4), 1.0) for n in range(3)]
    for number in range(LONGEST + 10):
        value = net.op("Softmax", value, axis=number % 2)
        if number % 500 == 0:
            value = net.op("MatMul", value, weights[number // 500 % 3])
    bodies = {
        f"{side}_branch": helper.make_graph(
            [helper.make_node(kind, [value], [side])],
            side,
            [],
            [helper.make_tensor_value_info(side, TensorProto.FLOAT, [4, 4])],
        )
        for side, kind in (("then", "Sin"), ("else", "Neg"))
    }
    value = net.op("If", flag, **bodies)
    found = net.op("Cast", net.op("NonZero", net.op("Relu", value)), to=TensorProto.FLOAT)
    value = net.op("Add", value, net.op("ReduceSum", found, keepdims=0))
    for operand, name, shape in (
        (net.op("Add", value, first), "y", (4, 4)),
        (found, "z", (2, "n")),
    ):
        net.graph.node.append(helper.make_node("Identity", [operand], [name]))
        net.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return net.model


def test_calls_of_several_functions_compute_what_those_of_one_do(long_model: ModelProto):
    """B1: weights, arguments, the arena and growing memory are where each part looks for them."""
    x = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
    executable = weft.compile(long_model, cache=False, naive=True)
    for flag in (True, False):
        inputs = {"x": x, "flag": np.array(flag)}
        wanted = run_onnxruntime(long_model, inputs)
        for got, expected in zip(executable.run(inputs).values(), wanted, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-4)


def test_no_function_has_more_calls_than_llvm_takes_well(long_model: ModelProto):
    """B1: what LLVM takes for a function grows faster than its calls."""
    options = options_of(b"", prefix="m", naive=True)
    text = emit_text(long_model, "llvm", Session(options))
    functions = re.split(r"^define ", text.split("\n; ")[-1], flags=re.MULTILINE)
    counts = [len(re.findall(r"call void @\"m\.(softmax|matmul)", each)) for each in functions]
    assert max(counts) == PART
    assert sum(counts) > LONGEST
